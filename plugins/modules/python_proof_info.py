#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: python_proof_info
short_description: Have an image or a virtual environment show which Ray it runs, and that it works
version_added: 0.1.0
description:
  - Imports modules in the target's Python, and runs C(ray --version), C(pip check) and C(pip freeze) there, without a
    network. Fails when an import fails, Ray has another version than O(version), or C(pip check) complains of what it
    did not complain of before.
author:
  - The Tandem contributors (@tandem)
extends_documentation_fragment:
  - tandem.vllm.reads_only
options:
  image:
    description: Image on this host, by id, digest or tag.
    type: str
  venv:
    description: Virtual environment on this host.
    type: path
  python:
    description: The image's Python.
    type: str
    default: python3
  folder:
    description: Folder with the wheels, of which only that of pip is used; it is needed where the target has no pip.
    type: path
    required: true
  pip_wheel:
    description: The wheel of pip in O(folder).
    type: str
  version:
    description: The version that Ray must have.
    type: str
  imports:
    description: Modules that must be importable.
    type: list
    elements: str
    default: [ray, vllm]
  projects:
    description: Projects whose topmost packages must be importable, too.
    type: list
    elements: str
    default: []
  complaints:
    description: What C(pip check) complained of before, and may complain of.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Prove which Ray the image runs
  tandem.vllm.python_proof_info:
    image: sha256:5e0f0e2bb3e4a9d0c8f3b0a5a8c4c6b1d2e3f405162738495a6b7c8d9eafb0c1
    folder: /var/lib/tandem/wheels/0f3a5d2c9b7e
    pip_wheel: pip-25.3-py3-none-any.whl
    version: 2.60.0
"""

RETURN = r"""
evidence:
  description: What the target showed.
  returned: when it could be asked
  type: dict
  contains:
    ray_version:
      description: What C(ray --version) says.
      type: str
    pip_check:
      description: All that C(pip check) complains of.
      type: list
      elements: str
    pip_check_before:
      description: What it complained of before.
      type: list
      elements: str
    pip_check_new:
      description: What it complains of only now.
      type: list
      elements: str
    pip_freeze:
      description: Lines of C(pip freeze).
      type: list
      elements: str
    freeze_sha256:
      description: SHA-256 of the sorted lines of C(pip freeze).
      type: str
    imports:
      description: Null or the error, by module.
      type: dict
problems:
  description: Why the target is not what it should be.
  returned: when it could be asked
  type: list
  elements: str
image_id:
  description: Id of the image.
  returned: with O(image)
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils.bundle import target_proof
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.derived import ConfigError
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.target_proof import Proof
from ansible_collections.tandem.vllm.plugins.module_utils.host import target_python
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import tolerant
from ansible_collections.tandem.vllm.plugins.module_utils.host.target_python import Target, TargetError

ARGUMENTS: dict[str, Any] = {
    "image": {"type": "str"},
    "venv": {"type": "path"},
    "python": {"type": "str", "default": "python3"},
    "folder": {"type": "path", "required": True},
    "pip_wheel": {"type": "str"},
    "version": {"type": "str"},
    "imports": {"type": "list", "elements": "str", "default": ["ray", "vllm"]},
    "projects": {"type": "list", "elements": "str", "default": []},
    "complaints": {"type": "list", "elements": "str", "default": []},
}
# The container ends by itself, should the module be killed.
SECONDS = 1800


def look(target: Target, params: dict[str, Any]) -> Proof:
    """What the target shows. Raises TargetError."""
    pip = target_python.pip_of(target, params["pip_wheel"])
    return target_python.prove(target, pip, params["imports"], params["projects"], params["complaints"])


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        supports_check_mode=True,
        mutually_exclusive=[("image", "venv")],
        required_one_of=[("image", "venv")],
    )
    params, run = module.params, tolerant(module.run_command)
    what = params["image"] or params["venv"]
    result: dict[str, Any] = {}
    target_python.end_in_order()
    try:
        if params["image"]:
            image = target_python.images(run, params["image"])[0]
            result["image_id"] = image.id
            with target_python.container(run, image, params["python"], params["folder"], SECONDS) as target:
                proof = look(target, params)
        else:
            proof = look(target_python.Venv(run, params["venv"], params["folder"]), params)
    except (TargetError, ConfigError) as error:
        module.fail_json(msg=f"{what} cannot be asked: {error}", **result)
    result.update(evidence=proof.to_dict(), problems=target_proof.problems(proof, params["version"]))
    if result["problems"]:
        module.fail_json(msg=f"{what} does not work: " + "; ".join(result["problems"]), **result)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
