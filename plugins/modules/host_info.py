#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: host_info
short_description: Read a host's clock, disks, memory and the limits of its containers
version_added: 0.1.0
description:
  - Reads what every deployment asks of a host, whether it has GPUs or not. What cannot be found out is null.
  - The host's clock is compared with the control node's, by the fastest of three short commands.
author:
  - The Tandem contributors (@tandem)
options:
  paths:
    description:
      - Absolute paths whose file systems are looked at. Of a path that is not there yet it is the one it would be on.
    type: list
    elements: path
    default: []
extends_documentation_fragment:
  - tandem.vllm.reads_only
"""

EXAMPLES = r"""
- name: Read the host
  tandem.vllm.host_info:
    paths: [/var/lib/docker, /models]
"""

RETURN = r"""
time:
  description: The host's time, in seconds since 1970.
  returned: always
  type: float
clock:
  description: The host's clock.
  returned: always
  type: dict
  contains:
    synchronised:
      description: Whether a time service keeps it in time; null when nothing on the host can tell.
      type: bool
clock_offset_s:
  description: The host's time less the control node's, in seconds; null when it could not be measured.
  returned: always
  type: float
clock_uncertainty_s:
  description: How far RV(clock_offset_s) may be from the truth, in seconds, because the question took that long.
  returned: always
  type: float
disks:
  description: One entry for each of O(paths), in their order.
  returned: always
  type: list
  elements: dict
  contains:
    path:
      description: The path asked for.
      type: str
    exists:
      description: Whether it is there.
      type: bool
    free_mib:
      description: Free space of its file system in MiB.
      type: int
    total_mib:
      description: Size of its file system in MiB.
      type: int
limits:
  description:
    - What a container gets from Docker when it asks for nothing itself. -1 is no limit; null is not known, as on a host
      where no Docker runs.
    - Taken from containerd's process and unit, and from Docker's default ulimits.
  returned: always
  type: dict
  contains:
    nofile:
      description: Soft limit of open files.
      type: int
    nofile_hard:
      description: Hard limit of open files.
      type: int
    memlock:
      description: Soft limit of locked memory in bytes.
      type: int
memory_mib:
  description: The host's memory in MiB.
  returned: always
  type: int
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import tolerant
from ansible_collections.tandem.vllm.plugins.module_utils.host.system import System

ARGUMENTS: dict[str, Any] = {"paths": {"type": "list", "elements": "path", "default": []}}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    for path in module.params["paths"]:
        if not path.startswith("/"):
            module.fail_json(msg=f"paths holds {path}: must be an absolute path. Write it from / on")
    system = System(tolerant(module.run_command))
    module.exit_json(
        changed=False,
        time=time.time(),
        clock={"synchronised": system.synchronised()},
        # Measured by the action plugin of the same name, on the control node.
        clock_offset_s=None,
        clock_uncertainty_s=None,
        disks=[system.disk(path) for path in module.params["paths"]],
        limits=system.limits(),
        memory_mib=system.memory_mib(),
    )


if __name__ == "__main__":
    main()
