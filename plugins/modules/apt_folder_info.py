#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: apt_folder_info
short_description: Tell which of a bundle's packages are for a host, and whether they are whole
version_added: 0.1.0
description:
  - Reads release and architecture of a host, and says under which name a bundle has packages for it.
  - With O(path) it compares the files with the bundle's manifest.
  - Neither is a failure of this module. Assert RV(found) and RV(problems).
author:
  - The Tandem contributors (@tandem)
options:
  files:
    description: C(files) of the bundle's C(manifest.json). Those that are no packages are passed over.
    type: list
    elements: dict
    required: true
  name:
    description: Name of the folder that is asked about. The default is the one for this host.
    type: str
  path:
    description: The folder, on this host, that the files' paths start at. Without it no file is read.
    type: path
extends_documentation_fragment:
  - tandem.vllm.reads_only
"""

EXAMPLES = r"""
- name: Look which of the bundle's packages are for this gateway
  tandem.vllm.apt_folder_info:
    files: "{{ manifest.files }}"
  register: packages
"""

RETURN = r"""
name:
  description: Name of the folder, after release and architecture; null where the host has none.
  returned: always
  type: str
reason:
  description: Why the host has no such name; null where it has one.
  returned: always
  type: str
held:
  description: Names of the folders of packages that the bundle has.
  returned: always
  type: list
  elements: str
found:
  description: The bundle's files for this host, as its manifest has them.
  returned: always
  type: list
  elements: dict
problems:
  description: Which of them are missing or altered, with C(path), C(reason) and C(remedy).
  returned: always
  type: list
  elements: dict
said:
  description: RV(problems) in words.
  returned: always
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils.bundle import packages
from ansible_collections.tandem.vllm.plugins.module_utils.host import apt
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import tolerant

ARGUMENTS: dict[str, Any] = {
    "files": {"type": "list", "elements": "dict", "required": True},
    "name": {"type": "str"},
    "path": {"type": "path"},
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    files, path, name, reason = module.params["files"], module.params["path"], module.params["name"], None
    if name is None:
        try:
            name = apt.system(tolerant(module.run_command)).name
        except packages.PackagesError as error:
            reason = str(error)
    found = packages.of_folder(files, name) if name else []
    try:
        hashes = apt.hashes(path, [file["path"] for file in found]) if path else {}
    except OSError as error:
        module.fail_json(msg=f"path = {path}: {error}")
    problems = packages.differences(found, hashes) if path else []
    module.exit_json(
        changed=False,
        name=name,
        reason=reason,
        held=packages.names(files),
        found=found,
        problems=problems,
        said=packages.said(problems),
    )


if __name__ == "__main__":
    main()
