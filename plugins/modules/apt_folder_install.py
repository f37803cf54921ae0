#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: apt_folder_install
short_description: Install a package from a folder that apt_folder filled, and from nowhere else
version_added: 0.1.0
description:
  - Compares the index and every file that is needed with the bundle's manifest, and has apt install the package only
    when they are as it says.
  - apt sees this folder alone, without a network, and what the host has installed. The host's own sources, lists and
    configuration are not changed. A package is never removed, and one of the host is replaced by a newer one only where
    the installation needs it.
  - Services of what is installed are not started. A policy of the host (C(/usr/sbin/policy-rc.d)) is put back
    afterwards.
  - Where another program has dpkg's lock, it is waited for.
author:
  - The Tandem contributors (@tandem)
options:
  path:
    description: The folder, on this host, that the files' paths start at.
    type: path
    required: true
  files:
    description: C(files) of the bundle's C(manifest.json). Those of other folders are passed over.
    type: list
    elements: dict
    required: true
  name:
    description: Name of the folder of packages, as M(tandem.vllm.apt_folder_info) tells it.
    type: str
    required: true
  package:
    description: Name of the package. The default is what brings nginx to a gateway.
    type: str
    default: nginx-light
  only_tell:
    description: Tell RV(needed) and install nothing. Of the files only the index has to be there.
    type: bool
    default: false
  lock_timeout:
    description: Longest time that dpkg's lock is waited for, in seconds.
    type: int
    default: 600
attributes:
  check_mode:
    support: full
    description:
      - Says what would be installed. While files are missing, as they are before they are copied, it can only say that
        something would.
  diff_mode:
    support: none
    description: RV(installed) tells the packages.
  idempotent:
    support: full
    description: Nothing is installed when the package is there.
"""

EXAMPLES = r"""
- name: Install nginx from the bundle's packages
  tandem.vllm.apt_folder_install:
    path: /var/lib/tandem
    files: "{{ manifest.files }}"
    name: debian-12-amd64
"""

RETURN = r"""
installed:
  description: The packages that were, or in check mode would be, installed, with C(name) and C(version).
  returned: success
  type: list
  elements: dict
needed:
  description: The entries of O(files) that it takes, the index and the packages that the host lacks.
  returned: success
  type: list
  elements: dict
problems:
  description: Files that are missing or altered, with C(path), C(reason) and C(remedy).
  returned: when there are any
  type: list
  elements: dict
"""

import os
import tempfile
from collections.abc import Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils.bundle import packages
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.packages import (
    GATEWAY_PACKAGE,
    INDEX,
    MAKE_AGAIN,
    PART,
    PackagesError,
)
from ansible_collections.tandem.vllm.plugins.module_utils.host import apt
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import tolerant

ARGUMENTS: dict[str, Any] = {
    "path": {"type": "path", "required": True},
    "files": {"type": "list", "elements": "dict", "required": True},
    "name": {"type": "str", "required": True},
    "package": {"type": "str", "default": GATEWAY_PACKAGE},
    "only_tell": {"type": "bool", "default": False},
    "lock_timeout": {"type": "int", "default": 600},
}


def verify(module: AnsibleModule, files: list[Mapping[str, Any]]) -> bool:
    """Whether these files are there, whole; ends the module with a failure when they should be and are not."""
    path = module.params["path"]
    problems = packages.differences(files, apt.hashes(path, [file["path"] for file in files]))
    if problems and not module.check_mode:
        module.fail_json(msg=f"Nothing was installed from {path}: {packages.said(problems)}", problems=problems)
    return not problems


def of_manifest(module: AnsibleModule) -> list[Mapping[str, Any]]:
    """The manifest's files of the folder; ends the module with a failure when the package is not among them."""
    name, package = module.params["name"], module.params["package"]
    files = packages.of_folder(module.params["files"], name)
    if not packages.whole([file["path"] for file in files], package):
        held = ", ".join(packages.names(module.params["files"])) or "none"
        wanted = f"the manifest has no {package} with an index there; its folders of packages are {held}"
        module.fail_json(msg=f"Nothing was installed: name = {name}: {wanted}. {MAKE_AGAIN}.")
    return files


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    module.run_command_environ_update = apt.ENVIRONMENT
    params, files = module.params, of_manifest(module)
    folder = os.path.join(params["path"], PART, params["name"])
    by_name = {os.path.basename(file["path"]): file for file in files}
    index = by_name[INDEX]
    try:
        if not verify(module, [index]):
            module.exit_json(changed=not params["only_tell"], installed=[], needed=files)
        with tempfile.TemporaryDirectory(dir=module.tmpdir) as work:
            run = tolerant(module.run_command)
            install = apt.Install(run, params["package"], folder, work, params["lock_timeout"])
            would = install.would_install()
            with open(os.path.join(folder, INDEX), encoding="utf-8") as stream:
                needed = [by_name[name] for name in packages.needed(stream.read(), would)]
            if not params["only_tell"] and verify(module, needed) and would and not module.check_mode:
                install.install()
    except PackagesError as error:
        module.fail_json(msg=f"{params['package']} cannot be installed from {folder}: {error}")
    except OSError as error:
        module.fail_json(msg=f"path = {params['path']}: {error}")
    except KeyError as error:
        module.fail_json(msg=f"files: the index names {error}, which the manifest does not have. {MAKE_AGAIN}.")
    changed = bool(would) and not params["only_tell"]
    module.exit_json(changed=changed, installed=would, needed=[index, *needed])


if __name__ == "__main__":
    main()
