#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: image_load
short_description: Bring a Docker image onto a host from an archive on the control node
version_added: 0.1.0
description:
  - Does nothing when the host has the image. Otherwise copies the archive over, loads it, checks that the image asked
    for is there, and removes the copy.
  - Shows how far the load is; C(docker load) itself is silent.
author:
  - The Tandem contributors (@tandem)
options:
  ref:
    description: The image, by id, digest or tag.
    type: str
    required: true
  archive:
    description:
      - Archive on the control node, as C(docker save) writes it, compressed or not.
      - Without it a missing image is an error.
    type: path
  timeout:
    description: Longest time the load may take, in seconds.
    type: int
    default: 3600
  step:
    description: Used between the parts of this action; leave it alone.
    type: str
    choices: [look, start, poll]
    default: look
  path:
    description: Used between the parts of this action; leave it alone.
    type: path
attributes:
  check_mode:
    support: full
    description: Says whether the image would be loaded.
  diff_mode:
    support: none
    description: An image is there or not.
  idempotent:
    support: full
    description: An image that is there is left as it is.
"""

EXAMPLES = r"""
- name: Load the vLLM image
  tandem.vllm.image_load:
    ref: sha256:5e0f0e2bb3e4a9d0c8f3b0a5a8c4c6b1d2e3f405162738495a6b7c8d9eafb0c1
    archive: /srv/images/vllm-openai-0.25.1.tar
"""

RETURN = r"""
image_id:
  description: Id of the image on the host.
  returned: when it is there
  type: str
"""

import os
import re
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import Docker

ARGUMENTS: dict[str, Any] = {
    "ref": {"type": "str", "required": True},
    "archive": {"type": "path"},
    "timeout": {"type": "int", "default": 3600},
    "step": {"type": "str", "choices": ["look", "start", "poll"], "default": "look"},
    "path": {"type": "path"},
}
# The load runs as a transient unit, so that it outlives a lost connection.
UNIT = "%s.load.service"


def position(pid: str, path: str) -> int | None:
    """Bytes of the file at `path` that process `pid` has read; None when it does not hold the file open."""
    folder = f"/proc/{pid}/fd"
    try:
        for descriptor in os.listdir(folder):
            if os.readlink(os.path.join(folder, descriptor)) == path:
                with open(f"/proc/{pid}/fdinfo/{descriptor}", encoding="ascii") as stream:
                    found = re.search(r"pos:\s+(\d+)", stream.read())
                    return int(found.group(1)) if found else None
    except OSError:  # the process has ended meanwhile: the next look sees that
        pass
    return None


def start(module: AnsibleModule, unit: str, path: str) -> None:
    """Start loading in the background."""
    docker = module.get_bin_path("docker", required=True)
    # A load that failed earlier leaves its unit behind, failed.
    module.run_command(["systemctl", "reset-failed", unit])
    module.run_command(
        ["systemd-run", "--quiet", "--unit", unit, "--property=RemainAfterExit=yes", docker, "load", "--input", path],
        check_rc=True,
    )


def poll(module: AnsibleModule, unit: str, path: str) -> dict[str, Any]:
    """How far the load is: {running, percent} and, when it failed, {error}."""
    _status, out, _err = module.run_command(
        ["systemctl", "show", unit, "--property=MainPID,ActiveState,SubState,Result"]
    )
    shown = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
    if shown.get("ActiveState") == "failed":
        _status, log, _err = module.run_command(["journalctl", "--unit", unit, "--lines", "3", "--output", "cat"])
        return {"running": False, "error": log.strip() or shown.get("Result", "unknown")}
    if shown.get("SubState") == "running":
        read = position(shown["MainPID"], path)
        # Docker's client reads the archive first, then closes it and waits for the engine to unpack the layers.
        percent = 100 if read is None else 100 * read // (os.path.getsize(path) or 1)
        return {"running": True, "percent": percent}
    module.run_command(["systemctl", "stop", unit])
    return {"running": False, "percent": 100}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    result: dict[str, Any] = {"image_id": Docker(module.run_command).image_id(params["ref"])}
    if params["step"] != "look":
        unit = UNIT % os.path.basename(params["path"])
        if params["step"] == "start":
            start(module, unit, params["path"])
        else:
            result.update(poll(module, unit, params["path"]))
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
