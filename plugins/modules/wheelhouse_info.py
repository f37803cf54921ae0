#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: wheelhouse_info
short_description: Tell whether a wheelhouse is whole, unaltered and fits its target
version_added: 0.1.0
description:
  - Compares a folder of wheels with what the bundle's manifest says of it, file by file, with sizes and SHA-256, and
    each file's tags with the target's Python, ABI, platform and glibc. What is missing, altered, not in the manifest,
    an sdist or made for another target is an error that names the file and the reason.
  - With O(image) or O(venv) it also looks which glibc the libraries in the wheels really ask for, and has pip in the
    target say whether the list is complete and what it would install. pip has no network and installs nothing.
author:
  - The Tandem contributors (@tandem)
extends_documentation_fragment:
  - tandem.vllm.reads_only
options:
  folder:
    description: The folder with the wheels and their C(requirements.txt).
    type: path
    required: true
  wheelhouse:
    description: The wheelhouse's entry among C(wheelhouses) in the bundle's C(manifest.json).
    type: dict
    required: true
  files:
    description: C(files) of the bundle's C(manifest.json); those of other folders are passed over.
    type: list
    elements: dict
    required: true
  requirement:
    description: What is to be installed, pinned, for example V(ray[default]==2.60.0).
    type: str
    required: true
  target:
    description:
      - What the target is, as M(tandem.vllm.python_target_info) returns it.
      - Without it the files are held against the target that the wheelhouse was made for.
    type: dict
  distributions:
    description: What is installed in the target, as M(tandem.vllm.python_target_info) returns it.
    type: list
    elements: dict
    default: []
  compare_only:
    description:
      - Only say which files would have to be brought. A folder that is not there counts as an empty one, nothing is an
        error, and no target is asked.
    type: bool
    default: false
  image:
    description: Image on this host whose Python is asked, by id, digest or tag.
    type: str
  venv:
    description: Virtual environment on this host whose Python is asked.
    type: path
  python:
    description: The image's Python.
    type: str
    default: python3
"""

EXAMPLES = r"""
- name: Verify the wheelhouse before it is sent
  tandem.vllm.wheelhouse_info:
    folder: /srv/bundle/wheels/5e0f0e2bb3e4
    wheelhouse: "{{ manifest.wheelhouses[0] }}"
    files: "{{ manifest.files }}"
    requirement: ray[default]==2.60.0
  delegate_to: localhost

- name: Verify it on the node, and ask the image
  tandem.vllm.wheelhouse_info:
    folder: /var/lib/tandem/wheels/0f3a5d2c9b7e
    wheelhouse: "{{ manifest.wheelhouses[0] }}"
    files: "{{ manifest.files }}"
    requirement: ray[default]==2.60.0
    image: sha256:5e0f0e2bb3e4a9d0c8f3b0a5a8c4c6b1d2e3f405162738495a6b7c8d9eafb0c1
"""

RETURN = r"""
to_bring:
  description: Files that are missing or altered.
  returned: with O(compare_only)
  type: list
  elements: str
left_over:
  description: Temporary files of a copy that was cut off.
  returned: with O(compare_only)
  type: list
  elements: str
names:
  description: Names of the wheelhouse's files.
  returned: always
  type: list
  elements: str
digest:
  description: SHA-256 of the wheelhouse.
  returned: always
  type: str
ray_version:
  description: The version of Ray that O(requirement) pins; null where it is another project.
  returned: always
  type: str
projects:
  description: The projects that the wheelhouse brings.
  returned: always
  type: list
  elements: str
lacking:
  description: The wheels that are not among O(distributions) in their version; C(name) and C(version).
  returned: always
  type: list
  elements: dict
pip_wheel:
  description: The wheel of pip; null where there is none.
  returned: always
  type: str
problems:
  description: What is wrong.
  returned: always
  type: list
  elements: dict
  contains:
    path:
      description: The file, or what else it is about.
      type: str
    reason:
      description: What is wrong with it.
      type: str
    remedy:
      description: What to do.
      type: str
image_id:
  description: Id of the image that was asked.
  returned: success, with O(image)
  type: str
derived_id:
  description: Id of the image with the wheels in it; null where there is none yet.
  returned: success, with O(image)
  type: str
has_already:
  description: Whether the target has all that O(requirement) asks for.
  returned: success, with O(image) or O(venv)
  type: bool
would_install:
  description: What would be installed. Empty where the target has all already, or the image with the wheels is there.
  returned: success, with O(image) or O(venv)
  type: list
  elements: dict
  contains:
    name:
      description: The project.
      type: str
    version:
      description: Its version.
      type: str
complaints:
  description: What C(pip check) finds in the target as it is.
  returned: success, with O(image) or O(venv)
  type: list
  elements: str
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils.bundle import node_wheels
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.derived import ConfigError
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.fields import ManifestError
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.node_wheels import NodeWheels
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.wheels import Target as TargetTags
from ansible_collections.tandem.vllm.plugins.module_utils.host import target_python
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import Runner, tolerant
from ansible_collections.tandem.vllm.plugins.module_utils.host.target_python import Target, TargetError
from ansible_collections.tandem.vllm.plugins.module_utils.host.wheel_files import (
    BadWheelError,
    folder_facts,
    newest_glibc_by_member,
)

ARGUMENTS: dict[str, Any] = {
    "folder": {"type": "path", "required": True},
    "wheelhouse": {"type": "dict", "required": True},
    "files": {"type": "list", "elements": "dict", "required": True},
    "requirement": {"type": "str", "required": True},
    "target": {"type": "dict"},
    "distributions": {"type": "list", "elements": "dict", "default": []},
    "compare_only": {"type": "bool", "default": False},
    "image": {"type": "str"},
    "venv": {"type": "path"},
    "python": {"type": "str", "default": "python3"},
}
INCOMPLETE = "Make the wheelhouse again for this target, with playbooks/bundle.yml, and bring it anew"
OLDER = "Pin a version whose wheel asks for an older glibc, or use an image with a newer one"
# The container in which pip is asked ends by itself, should the module be killed.
SECONDS = 900


def library_problems(wheels: NodeWheels, folder: str, target: TargetTags) -> list[dict[str, str]]:
    """Wheels whose libraries the target cannot load: {path, reason, remedy} each."""
    rows = []
    for name in wheels.names:
        if not name.endswith(".whl"):
            continue
        try:
            members = newest_glibc_by_member(os.path.join(folder, name))
        except BadWheelError as error:
            rows.append({"path": name, "reason": str(error), "remedy": INCOMPLETE})
            continue
        reasons = [node_wheels.glibc_problem(member, asked, target) for member, asked in members.items()]
        rows += [{"path": name, "reason": reason, "remedy": OLDER} for reason in reasons if reason]
    return rows


def ask(wheels: NodeWheels, folder: str, target: Target, tags: TargetTags, result: dict[str, Any]) -> None:
    """Have the target say what it has and lacks; fills `result`. Raises TargetError."""
    pip = target_python.pip_of(target, wheels.pip_wheel)
    result["complaints"] = target_python.complaints(target, pip)
    result["has_already"] = target_python.has_already(target, pip, wheels.requirement)
    if result["has_already"] or result.get("derived_id"):
        return
    result["problems"] += library_problems(wheels, folder, tags)
    rows, reasons = target_python.would_install(target, pip, wheels.requirement)
    result["would_install"] = rows
    result["problems"] += [
        {"path": wheels.wheelhouse.folder, "reason": reason, "remedy": INCOMPLETE} for reason in reasons
    ]


def ask_image(
    run: Runner, params: dict[str, Any], wheels: NodeWheels, tags: TargetTags, result: dict[str, Any]
) -> None:
    """Ask an image's Python, in a container. Raises TargetError and ConfigError."""
    image = target_python.images(run, params["image"])[0]
    there = target_python.find_derived(run, node_wheels.labels(image.id, wheels.digest), None)
    result.update(image_id=image.id, derived_id=there.id if there else None)
    with target_python.container(run, image, params["python"], params["folder"], SECONDS) as target:
        ask(wheels, params["folder"], target, tags, result)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True, mutually_exclusive=[("image", "venv")])
    params, folder = module.params, module.params["folder"]
    result: dict[str, Any] = {"problems": [], "would_install": []}
    try:
        wheels = NodeWheels.read(params["wheelhouse"], params["files"], params["requirement"])
        tags = TargetTags.from_dict(params["target"]) if params["target"] else wheels.wheelhouse.target
        result.update(
            names=wheels.names,
            digest=wheels.digest,
            ray_version=wheels.ray_version,
            projects=wheels.projects,
            pip_wheel=wheels.pip_wheel,
            lacking=wheels.lacking(params["distributions"]),
        )
        if params["compare_only"]:
            found = folder_facts(folder)
            result.update(to_bring=wheels.to_bring(found), left_over=node_wheels.left_over(found))
            module.exit_json(changed=False, **result)
        result["problems"] = wheels.problems(folder_facts(folder), tags)
        # Only what is known to be unaltered is run.
        if not result["problems"]:
            run = tolerant(module.run_command)
            target_python.end_in_order()
            if params["image"]:
                ask_image(run, params, wheels, tags, result)
            elif params["venv"]:
                ask(wheels, folder, target_python.Venv(run, params["venv"], folder), tags, result)
    except ManifestError as error:
        module.fail_json(msg=f"The manifest's entry of the wheelhouse {folder} cannot be used: {error}", **result)
    except OSError as error:
        module.fail_json(msg=f"folder = {folder} cannot be read: {error.strerror}", **result)
    except (TargetError, ConfigError) as error:
        module.fail_json(msg=f"Nothing was installed from {folder}: {error}", **result)
    if result["problems"]:
        headline = f"Nothing was installed from the wheelhouse {folder}"
        module.fail_json(msg=node_wheels.message(headline, result["problems"]), **result)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
