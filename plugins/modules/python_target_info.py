#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: python_target_info
short_description: Tell which wheels a Python takes, and what is installed for it
version_added: 0.1.0
description:
  - Asks the Python of an image, or one of the host, for its version, ABI, machine, C library and tags, and for the
    packages that it has. The module M(tandem.vllm.wheelhouse) fetches wheels for just that.
  - In an image its C(python3) is asked, as its own C(PATH) finds it, else its C(python); in a container of its own
    without a network, that is removed again. The image has to be there; it is not pulled.
author:
  - The Tandem contributors (@tandem)
options:
  image:
    description: The image, by id, by name and digest, or by tag. Either this or O(executable).
    type: str
  executable:
    description: A Python on the host, for example that of a virtual environment.
    type: path
  timeout:
    description: Longest time that the Python may take, in seconds.
    type: int
    default: 120
extends_documentation_fragment:
  - tandem.vllm.reads_only
"""

EXAMPLES = r"""
- name: Look into the image
  tandem.vllm.python_target_info:
    image: "{{ image }}"
  register: target

- name: Look at a virtual environment
  tandem.vllm.python_target_info:
    executable: /opt/ray/bin/python
"""

RETURN = r"""
target:
  description: What wheels have to fit.
  returned: always
  type: dict
  contains:
    python:
      description: Full version.
      type: str
      sample: 3.12.3
    implementation:
      description: As in tags, V(cp) for CPython.
      type: str
    abi:
      description: As in tags.
      type: str
      sample: cp312
    machine:
      description: As C(uname -m) says.
      type: str
      sample: x86_64
    glibc:
      description: Version of the C library; null where it is not glibc.
      type: str
      sample: '2.36'
    tags:
      description:
        - All tags that it takes, the best first. As C(packaging.tags.sys_tags) lists them, where that library or pip is
          installed; else worked out from the other values.
      type: list
      elements: str
distributions:
  description: What is installed, sorted by name. Of a name that is there twice, the one that Python imports.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Normalised name.
      type: str
      sample: typing-extensions
    version:
      description: Version, with its local part.
      type: str
      sample: 2.9.0+cu129
    requires:
      description: What it needs, as its metadata say.
      type: list
      elements: str
    extras:
      description: The extras that it offers.
      type: list
      elements: str
pip:
  description: Version of pip; null where it is not installed.
  returned: always
  type: str
ray:
  description: Version of Ray; null where it is not installed.
  returned: always
  type: str
executable:
  description: Path of the Python, in the image or on the host.
  returned: always
  type: str
image_id:
  description: The image's id; null for O(executable).
  returned: always
  type: str
"""

import inspect
import re
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.target import ProbeError, read_probe
from ansible_collections.tandem.vllm.plugins.module_utils.host import python_probe
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import Docker, limited, tolerant
from ansible_collections.tandem.vllm.plugins.module_utils.host.image_python import run_python

ARGUMENTS: dict[str, Any] = {
    "image": {"type": "str"},
    "executable": {"type": "path"},
    "timeout": {"type": "int", "default": 120},
}
# Not how Docker judges a name: only what could be no name at all, or be taken for an option.
REF = re.compile(r"[A-Za-z0-9][\w.:/@-]*", re.ASCII)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        supports_check_mode=True,
        mutually_exclusive=[("image", "executable")],
        required_one_of=[("image", "executable")],
    )
    image, executable, seconds = (module.params[key] for key in ("image", "executable", "timeout"))
    run = tolerant(module.run_command)
    program = ["-c", inspect.getsource(python_probe)]
    image_id = None
    if image is not None:
        if not REF.fullmatch(image):
            wanted = "must be an image's id (sha256:...), its name with a digest, or its tag"
            module.fail_json(msg=f"image = {image!r}: {wanted}. Correct the value")
        docker = Docker(run)
        image_id, said = docker.find_image(image)
        if image_id is None:
            module.fail_json(msg=f"image = {image}: Docker cannot show it ({said}). Load or pull it first")
            return
        # By its id: a tag may come to mean another image in between.
        brief = run_python(docker, image_id, program, seconds)
        status, out, err = brief.status, brief.out, brief.err
    else:
        # -I: neither the module's environment nor root's own packages are the target's.
        status, out, err = run(limited(seconds, [executable, "-I", *program]))
    asked = f"image = {image}" if image is not None else f"executable = {executable}"
    if status != 0:
        lines = (err.strip() or out.strip() or f"exit status {status}").splitlines()
        module.fail_json(msg=f"{asked}: its Python could not be asked: {lines[-1]}", rc=status, stderr=err)
    try:
        found = read_probe(out)
    except ProbeError as error:
        module.fail_json(msg=f"{asked}: its Python did not tell about itself, it said: {error}")
        return
    module.exit_json(changed=False, image_id=image_id, **found)


if __name__ == "__main__":
    main()
