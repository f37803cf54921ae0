#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: image_load
short_description: Bring a Docker image onto a host from an archive
version_added: 0.1.0
description:
  - Does nothing when the host has the image. Otherwise brings the archive over, loads it, checks that the image asked
    for is there, and removes the copy.
  - The archive travels in pieces of 128 MiB over the connection that Ansible has, each checked by its SHA-256 on the
    host, and is fed to C(docker load) piece by piece, from the first one on. When the transfer breaks off, or the
    playbook is ended, the next run sends what is missing. A load that is going on is waited for, not begun again.
  - An archive compressed with zstd is decompressed on the host; by the control node while it sends, where the host has
    no C(zstd). Docker itself reads gzip, bzip2 and xz.
  - Before anything is sent, the disks are compared with what the image needs, in C(/var/tmp) for the pieces and in
    Docker's folder for the image.
  - Shows how far transfer and load are; C(docker load) itself is silent.
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
  shared:
    description:
      - The archive is read where it lies on the host, on a file system that the hosts share, say. Nothing is sent.
      - O(archive) is its path on the host then. One compressed with zstd needs C(zstd) on the host.
    type: bool
    default: false
  checksum:
    description:
      - SHA-256 of the archive as C(docker save) wrote it; of the tar in it where it is compressed with zstd. It is
        compared while Docker reads, and of an archive with another one nothing is loaded.
      - An image given by its id is compared with that by Docker, in any case.
    type: str
  timeout:
    description: Longest time the load may take, in seconds.
    type: int
    default: 3600
  step:
    description: Used between the parts of this action; leave it alone.
    type: str
    choices: [look, prepare, start, poll]
    default: look
  pieces:
    description: Used between the parts of this action; leave it alone.
    type: int
    default: 0
  decompress:
    description: Used between the parts of this action; leave it alone.
    type: bool
    default: false
  anew:
    description: Used between the parts of this action; leave it alone.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description: Says whether the image would be loaded, and what would prevent it.
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

- name: Load it from a share that every node has mounted
  tandem.vllm.image_load:
    ref: sha256:5e0f0e2bb3e4a9d0c8f3b0a5a8c4c6b1d2e3f405162738495a6b7c8d9eafb0c1
    archive: /mnt/bundle/images/5e0f0e2bb3e4.tar.zst
    shared: true
    checksum: 0c8f3b0a5a8c4c6b1d2e3f405162738495a6b7c8d9eafb0c15e0f0e2bb3e4a9d
"""

RETURN = r"""
image_id:
  description: Id of the image on the host.
  returned: when it is there
  type: str
"""

import re
import sys
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import Docker
from ansible_collections.tandem.vllm.plugins.module_utils.host.image_store import ImageStore, StoreError

ARGUMENTS: dict[str, Any] = {
    "ref": {"type": "str", "required": True},
    "archive": {"type": "path"},
    "shared": {"type": "bool", "default": False},
    "checksum": {"type": "str"},
    "timeout": {"type": "int", "default": 3600},
    "step": {"type": "str", "choices": ["look", "prepare", "start", "poll"], "default": "look"},
    "pieces": {"type": "int", "default": 0},
    "decompress": {"type": "bool", "default": False},
    "anew": {"type": "bool", "default": False},
}


def run_step(module: AnsibleModule, store: ImageStore, there: bool) -> dict[str, Any]:
    """What a step adds to the result. there: whether the host has the image."""
    params = module.params
    shared = params["archive"] if params["shared"] else None
    if params["step"] in ("look", "prepare") and there:
        # Of a run that was ended while Docker loaded.
        if not module.check_mode:
            store.clear()
    elif params["step"] == "prepare":
        return store.prepare(shared, module.get_bin_path("zstd"), sys.executable, write=not module.check_mode)
    # Another run may have brought the image meanwhile.
    elif params["step"] == "start" and not there:
        zstd = module.get_bin_path("zstd", required=True) if params["decompress"] else None
        docker = module.get_bin_path("docker", required=True)
        store.start(shared, params["pieces"], sys.executable, docker, zstd, params["checksum"], params["anew"])
    elif params["step"] == "poll":
        return store.poll(shared)
    return {}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    if params["checksum"] and not re.fullmatch("[0-9a-f]{64}", params["checksum"]):
        module.fail_json(msg=f"checksum is {params['checksum']}: must be a SHA-256, 64 lower case hexadecimal digits")
    docker, store = Docker(module.run_command), ImageStore(module.run_command, params["ref"])
    image_id = docker.image_id(params["ref"])
    try:
        added = run_step(module, store, image_id is not None)
    except StoreError as error:
        module.fail_json(msg=str(error))
    if added.get("running") is False:
        # It may have come between the two looks.
        image_id = docker.image_id(params["ref"])
    module.exit_json(changed=False, image_id=image_id, **added)


if __name__ == "__main__":
    main()
