#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: apt_folder
short_description: Fetch a package with all that it depends on, for installing it without a network
version_added: 0.1.0
description:
  - Has apt resolve and download a package and everything it depends on, whatever this machine has installed, for hosts
    of the same release and architecture of the same distribution. Versions and sources are those that apt on this
    machine would take; apt compares each file with the distribution's signed index.
  - The files are in a folder named after the release, as C(debian-12-amd64), with the index C(Packages) that makes it
    a source of packages for M(tandem.vllm.apt_folder_install).
  - Files that are there and whole are not downloaded again; those that are not needed any more are removed. Downloads
    go to a folder beside it first.
  - Nothing of this machine's own apt is written to, and its lists are not updated. It needs no root.
author:
  - The Tandem contributors (@tandem)
options:
  path:
    description: The folder in which the folder of this release is; made where it is missing.
    type: path
    required: true
  package:
    description: Name of the package. The default is what brings nginx to a gateway.
    type: str
    default: nginx-light
attributes:
  check_mode:
    support: full
    description: Resolves, says what would be fetched, and fetches nothing.
  diff_mode:
    support: none
    description: Files of packages have no difference to show.
  idempotent:
    support: full
    description: Fetches nothing when all is there in the versions that apt would take.
"""

EXAMPLES = r"""
- name: Fetch nginx and what it depends on
  tandem.vllm.apt_folder:
    path: /srv/tandem/bundle/packages
"""

RETURN = r"""
name:
  description: Name of the folder, after release and architecture.
  returned: success
  type: str
packages:
  description: What the folder holds, each with C(file), C(size) in bytes and C(sha256).
  returned: success
  type: list
  elements: dict
fetched:
  description: Names of the files that were, or in check mode would be, downloaded.
  returned: success
  type: list
  elements: str
removed:
  description: Names of the files that were, or in check mode would be, removed.
  returned: success
  type: list
  elements: str
"""

import os
import tempfile
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.packages import GATEWAY_PACKAGE, PackagesError
from ansible_collections.tandem.vllm.plugins.module_utils.host import apt
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import tolerant

ARGUMENTS: dict[str, Any] = {
    "path": {"type": "path", "required": True},
    "package": {"type": "str", "default": GATEWAY_PACKAGE},
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    module.run_command_environ_update = apt.ENVIRONMENT
    run = tolerant(module.run_command)
    try:
        name = apt.system(run).name
        with tempfile.TemporaryDirectory(dir=module.tmpdir) as work:
            fetch = apt.Fetch(run, module.params["package"], os.path.join(module.params["path"], name), work)
            debs = fetch.wanted()
            missing, stale = fetch.missing(debs), fetch.stale(debs)
            changed = bool(missing or stale) or not fetch.index_is_there()
            if not module.check_mode:
                if missing:
                    fetch.bring(debs, missing)
                fetch.remove(stale)
                changed = fetch.write_index(debs) or changed
    except PackagesError as error:
        module.fail_json(msg=f"No packages were fetched: {error}")
    except OSError as error:
        module.fail_json(msg="path = {}: {}".format(module.params["path"], error))
    module.exit_json(
        changed=changed, name=name, packages=apt.as_rows(debs), fetched=[deb.file for deb in missing], removed=stale
    )


if __name__ == "__main__":
    main()
