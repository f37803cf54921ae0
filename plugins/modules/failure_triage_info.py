#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: failure_triage_info
short_description: Name the known failures that a log or an error message tells of, the root first
version_added: 0.1.0
description:
  - Reads texts of any kind, also several at once - logs of an engine or of Docker, error messages of containers, the
    kernel log, outputs of C(nvidia-smi), of C(pip) and C(uv), listings of a wheelhouse - and names the causes that it
    knows, each with the line that shows it, what to do, and one command to go on with.
  - Escapes, colours, prefixes of loggers and lines that a terminal has broken hide nothing.
  - Where several causes are found, one that brings another about comes before it. Where the words alone do not
    decide, the cause says which commands would.
  - It knows failures of the driver, of GPUs, of the NVIDIA Container Toolkit and of Docker's way to the GPUs.
  - It knows failures of wheels - a wheel that asks for a newer glibc or is for another Python or platform, a hash that
    does not match, a source archive in the wheelhouse, a package that another one requires and that is not there. What
    the text says of the target (Python, machine, glibc or distribution) is compared with the names of the wheels.
  - It knows failures of Ray clusters and of models cut across machines - joining, versions that differ, addresses that
    differ, GPUs that lack or are held by another placement group, nodes and workers lost - and of the communication
    between ranks - interfaces, firewalls, NCCL that hangs at its start or after days, RDMA, shared memory.
  - It knows failures of engines - KV cache, memory of the GPU and of the machine, slow storage, Hugging Face asked by a
    machine without internet, files of the model, ports, arguments.
  - What looks bad in a log and is not (NCCL's information about missing plugins, warnings about the size of tensor
    parallelism, a head that came after a while) gives nothing, and neither does a text that tells of none of them.
  - Looks at nothing but what it is given, so a machine that cannot be reached can be judged by what its users sent.
author:
  - The Tandem contributors (@tandem)
options:
  text:
    description: The text. At least one of O(text) and O(files) is needed.
    type: str
  files:
    description:
      - Files to read on the target, for example a saved log of a container. They are read together with O(text) as
        one text, in the order given.
      - A file that cannot be read fails the module, which names it.
    type: list
    elements: path
    default: []
  versions:
    description:
      - Versions that are known and that the text does not tell, as far as there are any. They decide where two causes
        say the same words.
    type: dict
    default: {}
    suboptions:
      driver:
        description: Version of the driver on the host, for example V(580.95.05).
        type: str
      cuda:
        description: The newest CUDA version that the driver runs, as C(nvidia-smi) shows it, for example V(13.0).
        type: str
      vllm:
        description: Version of vLLM in the image, for example V(0.15.1).
        type: str
extends_documentation_fragment:
  - tandem.vllm.reads_only
seealso:
  - module: tandem.vllm.vllm_engine_info
"""

EXAMPLES = r"""
- name: Say why a container does not start
  tandem.vllm.failure_triage_info:
    text: 'Error response from daemon: could not select device driver "nvidia" with capabilities: [[gpu]]'
  register: triage

- name: Show it in one sentence
  ansible.builtin.debug:
    msg: "{{ triage.summary }}"

- name: Judge the log that a failed replacement left on the node
  tandem.vllm.failure_triage_info:
    files: [/var/log/tandem/tandem-chat-node-a.failed.log]
    versions:
      driver: 580.95.05
      cuda: "13.0"

# From a shell, on the control node:
# ansible localhost -m tandem.vllm.failure_triage_info -a '{"text": "Failed to initialize NVML: Unknown Error"}'
"""

RETURN = r"""
causes:
  description: The causes found, best first, one entry an id; empty where the text tells of none.
  returned: always
  type: list
  elements: dict
  contains:
    id:
      description: Name of the failure.
      type: str
      sample: driver_too_old_for_image
    confidence:
      description: V(high), V(medium) (other causes say the same at times) or V(low) (a guess, see RV(causes[].checks)).
      type: str
      sample: high
    evidence:
      description: The line that shows it, as it was given; several lines where the message goes over several.
      type: str
      sample: "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8"
    advice:
      description: What to do.
      type: str
    next_command:
      description: A command to go on with, on the host; capitals stand for what only you know.
      type: str
      sample: nvidia-smi --query-gpu=driver_version,name --format=csv
    checks:
      description: Commands whose answers decide; empty where the text does.
      type: list
      elements: str
    details:
      description: Facts drawn from the text, such as versions, bus ids and devices; which ones depends on the failure.
      type: dict
      sample: {required: "cuda>=12.8", driver: "551.78", cuda: "12.4", driver_wanted: "570.26"}
summary:
  description: One sentence about the first cause, and the ids of the others.
  returned: always
  type: str
  sample: No known failure was found in the text.
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils.triage import engine as triage

ARGUMENTS: dict[str, Any] = {
    "text": {"type": "str"},
    "files": {"type": "list", "elements": "path", "default": []},
    "versions": {
        "type": "dict",
        "default": {},
        "options": {"driver": {"type": "str"}, "cuda": {"type": "str"}, "vllm": {"type": "str"}},
    },
}


def read(path: str) -> tuple[str, str | None]:
    """What a file holds, and why it cannot be read (None when it can). Logs need not be text throughout."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read(), None
    except OSError as error:
        return "", f"{path} ({error.strerror})"


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    if params["text"] is None and not params["files"]:
        module.fail_json(msg="text and files are both missing: give the text to judge, or files to read on the target.")
    files = [read(path) for path in params["files"]]
    problems = [problem for _text, problem in files if problem]
    if problems:
        module.fail_json(msg="files = {} cannot be read on the target.".format(", ".join(problems)))
    versions = {name: value for name, value in params["versions"].items() if value}
    # An empty line between them: no message goes on in the next text.
    causes = triage.triage("\n\n".join([params["text"] or "", *[text for text, _problem in files]]), versions)
    module.exit_json(changed=False, causes=[cause.to_dict() for cause in causes], summary=triage.summary(causes))


if __name__ == "__main__":
    main()
