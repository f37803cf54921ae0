#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: model_file
short_description: Give a model file that was sent its name, once its hash is right
version_added: 0.1.0
description:
  - Hashes C(<file>.part) in a model directory. Only when that is what the manifest says, it gets its name; so a file
    that has its name is whole.
  - A C(.part) that is wrong is removed, and the module fails.
author:
  - The Tandem contributors (@tandem)
options:
  path:
    description: The model directory.
    type: str
    required: true
  file:
    description: The file's path below O(path), without C(.part).
    type: str
    required: true
  size:
    description: Its size in bytes.
    type: int
    required: true
  sha256:
    description: Its SHA-256.
    type: str
    required: true
attributes:
  check_mode:
    support: full
    description: Says whether the file would get its name; what was not sent, in check mode, is not hashed.
  diff_mode:
    support: none
    description: A file is in place or not.
  idempotent:
    support: full
    description: A file that is right already is left as it is.
"""

EXAMPLES = r"""
- name: Put the shard in place
  tandem.vllm.model_file:
    path: /models/Qwen2.5-32B-Instruct
    file: model-00001-of-00017.safetensors
    size: 3891380128
    sha256: 0e2bb3e4a9d0c8f3b0a5a8c4c6b1d2e3f405162738495a6b7c8d9eafb0c15e0f
"""

RETURN = r"""
hashes:
  description: The file with C(size), C(mtime_ns) and C(sha256) by its path, for M(tandem.vllm.model_manifest_info).
  returned: success, where the file was hashed
  type: dict
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.model_manifest import PART, Found, is_below
from ansible_collections.tandem.vllm.plugins.module_utils.host.model_files import ModelFiles

ARGUMENTS: dict[str, Any] = {
    "path": {"type": "str", "required": True},
    "file": {"type": "str", "required": True},
    "size": {"type": "int", "required": True},
    "sha256": {"type": "str", "required": True},
}


def hashes(name: str, there: Found) -> dict[str, dict[str, Any]]:
    """The facts of one file by its path."""
    return {name: {"size": there.size, "mtime_ns": there.mtime_ns, "sha256": there.sha256}}


def refusal(part: Found, size: int, sha256: str) -> str | None:
    """Why a part does not get its name."""
    if part.error or part.link is not None:
        return part.error or f"it is a link to {part.link}"
    if (part.size, part.sha256) != (size, sha256):
        return f"it has {part.size} bytes and the SHA-256 {part.sha256}, wanted are {size} and {sha256}"
    return None


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    model, name = ModelFiles(module.params["path"].rstrip("/")), module.params["file"]
    if not is_below(name):
        module.fail_json(msg=f"file is {name!r}, and must be a relative path with slashes, without '..'")
    if not model.holds(name + PART):
        there = model.hashed(name) if model.holds(name) else Found(0)
        if there.sha256 == module.params["sha256"]:
            module.exit_json(changed=False, hashes=hashes(name, there))
        if not module.check_mode:
            module.fail_json(msg=f"{model.path}/{name}{PART} is not there: nothing was sent")
    if module.check_mode:
        module.exit_json(changed=True)
    part = model.hashed(name + PART)
    reason = refusal(part, module.params["size"], module.params["sha256"])
    if reason is not None:
        model.remove(name + PART)
        msg = f"{model.path}/{name}: what was sent is not the file: {reason}. It was removed, and nothing was replaced"
        module.fail_json(msg=f"{msg}. Correct the source, then run again")
    model.rename(name + PART, name)
    module.exit_json(changed=True, hashes=hashes(name, part))


if __name__ == "__main__":
    main()
