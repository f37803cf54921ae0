#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: image_requirement_info
short_description: Tell what a CUDA image asks of its host, before it is loaded
version_added: 0.1.0
description:
  - Reads the image's CUDA version, the driver it requires, and its size. From Docker, or from an archive that is not
    unpacked, so that a driver that is too old is told before many gigabytes are sent and loaded.
  - It never fails on what it finds. RV(reason) says why nothing was found.
author:
  - The Tandem contributors (@tandem)
options:
  ref:
    description: The image, by id, by name and digest, or by tag.
    type: str
    required: true
  archive:
    description:
      - Read this archive, on the machine where the module runs, and do not ask Docker. It is as C(docker save) writes
        it or in the OCI layout, plain or compressed with gzip, bzip2 or xz.
      - A compressed archive has to be read from end to end, which takes a while.
      - The digest that an image has in its registry is not kept by C(docker save). Name the image by its id.
    type: path
extends_documentation_fragment:
  - tandem.vllm.reads_only
"""

EXAMPLES = r"""
- name: Ask Docker on the node
  tandem.vllm.image_requirement_info:
    ref: "{{ image }}"
  register: image_on_node

- name: Read the archive on the control node
  tandem.vllm.image_requirement_info:
    ref: "{{ image }}"
    archive: /srv/images/vllm-openai-0.25.1.tar
  delegate_to: localhost
  become: false
  when: not image_on_node.found
"""

RETURN = r"""
found:
  description: Whether the image was found.
  returned: always
  type: bool
source:
  description: V(docker) or V(archive); null when the image was not found.
  returned: always
  type: str
image_id:
  description: The image's id.
  returned: always
  type: str
cuda_requirement:
  description: What the image states in C(NVIDIA_REQUIRE_CUDA); null when it states nothing.
  returned: always
  type: str
  sample: cuda>=12.8 brand=unknown,driver>=470,driver<471
cuda_version:
  description: What the image states in C(CUDA_VERSION); null when it states nothing.
  returned: always
  type: str
  sample: 12.8.1
requirement_disabled:
  description: Whether the image tells NVIDIA's toolkit by C(NVIDIA_DISABLE_REQUIRE) not to hold it to the requirement.
  returned: always
  type: bool
size_mib:
  description: Size of the unpacked image in MiB; null when it is not known.
  returned: always
  type: int
size_exact:
  description: False when only the size of compressed layers is known. The unpacked image is then larger.
  returned: always
  type: bool
reason:
  description: Why the image was not found.
  returned: always
  type: str
"""

import re
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils.host import images
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import tolerant

ARGUMENTS: dict[str, Any] = {
    "ref": {"type": "str", "required": True},
    "archive": {"type": "path"},
}
# Not how Docker judges a name: only what could be no name at all, or be taken for an option.
REF = re.compile(r"[A-Za-z0-9][\w.:/@-]*", re.ASCII)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    ref, archive = module.params["ref"], module.params["archive"]
    if not REF.fullmatch(ref):
        wanted = "must be an image's id (sha256:...), its name with a digest, or its tag"
        module.fail_json(msg=f"ref = {ref!r}: {wanted}. Correct the value")
    found = images.from_archive(archive, ref) if archive else images.from_docker(tolerant(module.run_command), ref)
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
