#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: wheelhouse_install
short_description: Install verified wheels into an image, as a new one derived from it, or into a virtual environment
version_added: 0.1.0
description:
  - Installs what C(requirements.txt) of a wheelhouse lists, with hashes, without resolving anything and without a
    network. M(tandem.vllm.wheelhouse_info) has to have verified the folder before.
  - With O(image) a container of the image gets the wheels mounted read-only, installs them, proves that they work, and
    becomes the derived image with C(docker commit). Entry point, command, environment, user and all else that decides
    how containers of it run stay as they are. The layer holds no wheels. The image below is not changed.
  - The derived image carries the labels C(tandem.base), the id of the image below, and C(tandem.wheelhouse), the hash
    of the wheels. An image with both was proved, so it is used as it is.
  - Interrupted, it leaves no image. An environment that was being installed into is marked, and installed anew by the
    next run.
author:
  - The Tandem contributors (@tandem)
options:
  folder:
    description: The folder with the wheels and their C(requirements.txt).
    type: path
    required: true
  digest:
    description: Hash of the wheelhouse.
    type: str
    required: true
  pip_wheel:
    description: The wheel of pip in O(folder); needed where the target has no pip.
    type: str
  would_install:
    description: What M(tandem.vllm.wheelhouse_info) says would be installed.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: The project.
        type: str
        required: true
      version:
        description: Its version.
        type: str
        required: true
  image:
    description: The image to install into, by id, digest or tag.
    type: str
  tag:
    description:
      - Name of the derived image. Without it the name is made of what is in it,
        C(tandem/<id of the image below>:ray<version>-<hash of the wheels>).
    type: str
  venv:
    description: The virtual environment to install into.
    type: path
  python:
    description: The image's Python.
    type: str
    default: python3
  version:
    description: The version that Ray must have afterwards.
    type: str
  imports:
    description: Modules that must be importable afterwards.
    type: list
    elements: str
    default: [ray, vllm]
  complaints:
    description: What C(pip check) complained of before, and may complain of.
    type: list
    elements: str
    default: []
  timeout:
    description: Longest time for installation and proof, in seconds.
    type: int
    default: 3600
attributes:
  check_mode:
    support: full
    description: Says what would be installed.
  diff_mode:
    support: full
    description: Shows the versions of what is to be installed.
  idempotent:
    support: full
    description: A derived image with these labels, and an environment that has everything, are left as they are.
"""

EXAMPLES = r"""
- name: Make an image with another Ray
  tandem.vllm.wheelhouse_install:
    image: sha256:5e0f0e2bb3e4a9d0c8f3b0a5a8c4c6b1d2e3f405162738495a6b7c8d9eafb0c1
    folder: /var/lib/tandem/wheels/0f3a5d2c9b7e
    digest: "{{ verified.digest }}"
    pip_wheel: "{{ verified.pip_wheel }}"
    would_install: "{{ verified.would_install }}"
    complaints: "{{ verified.complaints }}"
    version: 2.59.0
"""

RETURN = r"""
image_id:
  description: Id of the derived image; null where it is not there, in check mode.
  returned: success, with O(image)
  type: str
base_id:
  description: Id of the image below it.
  returned: success, with O(image)
  type: str
tag:
  description: Name of the derived image.
  returned: success, with O(image)
  type: str
added_bytes:
  description: How much larger than the image below it is.
  returned: success, with O(image), when the derived image is there
  type: int
installed:
  description: What was, or in check mode would be, installed.
  returned: success
  type: list
  elements: dict
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils.bundle import derived, node_wheels, target_proof
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.derived import ConfigError, ImageFacts
from ansible_collections.tandem.vllm.plugins.module_utils.host import target_python
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import Runner, limited, tolerant
from ansible_collections.tandem.vllm.plugins.module_utils.host.target_python import Target, TargetError

ARGUMENTS: dict[str, Any] = {
    "folder": {"type": "path", "required": True},
    "digest": {"type": "str", "required": True},
    "pip_wheel": {"type": "str"},
    "would_install": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {"name": {"type": "str", "required": True}, "version": {"type": "str", "required": True}},
    },
    "image": {"type": "str"},
    "tag": {"type": "str"},
    "venv": {"type": "path"},
    "python": {"type": "str", "default": "python3"},
    "version": {"type": "str"},
    "imports": {"type": "list", "elements": "str", "default": ["ray", "vllm"]},
    "complaints": {"type": "list", "elements": "str", "default": []},
    "timeout": {"type": "int", "default": 3600},
}
# In an environment while it is installed into: what lies there then must not be trusted.
UNFINISHED = ".tandem-unfinished"


def install(target: Target, params: dict[str, Any], again: bool) -> None:
    """Install, and prove it. Raises TargetError."""
    pip = target_python.pip_of(target, params["pip_wheel"])
    target_python.install(target, pip, params["pip_wheel"] is not None, again, params["timeout"])
    projects = [row["name"] for row in params["would_install"]]
    proof = target_python.prove(target, pip, params["imports"], projects, params["complaints"])
    problems = target_proof.problems(proof, params["version"])
    if problems:
        raise TargetError("what was installed does not work: " + "; ".join(problems))


def build(run: Runner, base: ImageFacts, params: dict[str, Any], labels: dict[str, str]) -> ImageFacts:
    """Make the derived image. Raises TargetError and ConfigError; then there is none."""
    name = "tandem-wheels-" + params["digest"][: node_wheels.SHORT]
    with target_python.container(
        run, base, params["python"], params["folder"], params["timeout"] + 600, name
    ) as target:
        commit = derived.commit_argv(base, name, labels)
        install(target, params, again=False)
        status, out, err = run(limited(params["timeout"], commit))
    if status != 0:
        raise TargetError(err.strip() or f"docker commit ended with exit status {status}")
    made = target_python.images(run, out.strip())[0]
    differences = derived.differences(base, made, labels)
    if differences:
        run(limited(120, ["docker", "image", "rm", made.id]))
        raise TargetError("Docker gave the image another configuration: " + "; ".join(differences))
    return made


def into_image(module: AnsibleModule, run: Runner) -> dict[str, Any]:
    """Have the derived image there, under its name. Raises TargetError and ConfigError."""
    params = module.params
    base = target_python.images(run, params["image"])[0]
    tag = params["tag"] or node_wheels.derived_name(base.id, params["version"], params["digest"])
    labels = node_wheels.labels(base.id, params["digest"])
    there = target_python.find_derived(run, labels, tag)
    # One that was cut off before this was looked at.
    if there and derived.differences(base, there, labels):
        there = None
    result: dict[str, Any] = {
        "changed": there is None or tag not in there.tags,
        "base_id": base.id,
        "tag": tag,
        "image_id": there.id if there else None,
        "installed": [] if there else params["would_install"],
    }
    if not module.check_mode:
        there = there or build(run, base, params, labels)
        result["image_id"] = there.id
        if result["changed"]:
            status, _out, err = run(limited(60, ["docker", "image", "tag", there.id, tag]))
            if status != 0:
                raise TargetError(f"{there.id} cannot be called {tag}: {err.strip()}")
    if there:
        result["added_bytes"] = there.size - base.size
    return result


def into_venv(module: AnsibleModule, run: Runner) -> dict[str, Any]:
    """Have the environment hold what is listed. Raises TargetError and OSError."""
    params = module.params
    mark = os.path.join(params["venv"], UNFINISHED)
    again = os.path.exists(mark)
    result = {"changed": again or bool(params["would_install"]), "installed": params["would_install"]}
    if result["changed"] and not module.check_mode:
        with open(mark, "w", encoding="utf-8") as stream:
            stream.write("An installation of wheels into this environment has not come to its end.\n")
        install(target_python.Venv(run, params["venv"], params["folder"]), params, again)
        os.unlink(mark)
    return result


def words(rows: list[dict[str, Any]]) -> str:
    """A line each of what is to be installed."""
    return "".join("{name}=={version}\n".format(**row) for row in rows)


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
    target_python.end_in_order()
    try:
        result = into_image(module, run) if params["image"] else into_venv(module, run)
    except (TargetError, ConfigError) as error:
        where = f"No image was made of {what}" if params["image"] else f"{what} is unfinished, and so marked"
        module.fail_json(msg=f"{where}, with the wheels of {params['folder']}: {error}", changed=False)
    except OSError as error:
        module.fail_json(msg=f"venv = {what} cannot be written: {error.strerror}", changed=False)
    if result["installed"]:
        header = result.get("tag", what)
        before = {"before": "", "after": words(result["installed"])}
        result["diff"] = {"before_header": header, "after_header": header, **before}
    module.exit_json(**result)


if __name__ == "__main__":
    main()
