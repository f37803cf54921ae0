#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpu_visibility
short_description: Prove that a container sees the GPUs that its launch names
version_added: 0.1.0
description:
  - Starts a short-lived container from the launch image with the launch's own options (GPU request, environment,
    mounts, shared memory, limits), but with another command, without network and under a name of its own. In it
    C(nvidia-smi -L) lists the GPUs, and torch counts those that CUDA opens.
  - Compares three sets of UUIDs, those that the launch names as the host lists them, those that the container lists,
    and those that the framework sees, and fails when they differ, with a classified cause, the line that shows it, the
    remedy and the next command.
  - The container is removed in every case, also when its time ran out. Nothing that was there is changed.
    CUDA is asked for the properties of each GPU only, which takes no memory on it, so it can run beside an engine.
  - Causes are those of M(tandem.vllm.failure_triage_info), found in the words of Docker, nvidia-smi and torch, and
    V(gpu_set_differs), V(framework_sees_fewer_gpus), V(framework_cannot_use_gpus), V(gpu_tools_not_in_container),
    V(gpu_not_on_host), V(nvidia_smi_missing), V(docker_not_answering), V(docker_too_old_for_cdi), V(image_missing),
    V(probe_timed_out), V(probe_left_behind), and V(unknown) with the lines to look at.
author:
  - The Tandem contributors (@tandem)
options:
  node:
    description: Name of the node, for messages.
    type: str
    required: true
  container:
    description:
      - The launch, by the option names of P(community.docker.docker_container#module), as the filter
        P(tandem.vllm.containers_on#filter) makes it.
      - An option that cannot be taken over is refused, as the proof would be of another container. C(command),
        C(entrypoint), C(name), C(labels), C(published_ports), networks, volumes, namespaces of another container,
        and log and restart settings are not taken over.
      - A bind mount whose source is not on the host, such as a key that is not written yet, is left out.
    type: dict
    required: true
  gpus:
    description:
      - The GPUs that the container should see, by index or UUID.
      - By default, those of C(device_requests) in O(container).
    type: list
    elements: str
  framework:
    description: Also ask the framework. Without it the proof ends at what nvidia-smi lists.
    type: bool
    default: true
  timeout:
    description: Longest time for the container, in seconds. A first import of torch from a slow disk takes a minute.
    type: int
    default: 120
extends_documentation_fragment:
  - tandem.vllm.reads_only
attributes:
  check_mode:
    support: partial
    description: It changes nothing in either mode.
    details:
      - In check mode no container is started. What the launch names and what the host lists are read; RV(state) is
        V(not_checked), never V(passed).
"""

EXAMPLES = r"""
- name: See that each replica's container gets its GPUs
  tandem.vllm.gpu_visibility:
    node: "{{ inventory_hostname }}"
    container: "{{ item }}"
  loop: "{{ placement | tandem.vllm.containers_on(inventory_hostname, image, engine_key, key_file) }}"
  loop_control:
    label: "{{ item.name }}"

- name: Any container, by hand
  tandem.vllm.gpu_visibility:
    node: node-a
    container:
      image: vllm/vllm-openai@sha256:0123456789012345678901234567890123456789012345678901234567890123
      device_requests: [{driver: nvidia, device_ids: ["0", "1"], capabilities: [[gpu]]}]
      shm_size: 16g
"""

RETURN = r"""
state:
  description:
    - V(passed), V(failed), or V(not_checked) in check mode and where the launch asks for no GPU. Whether the framework
      was asked is told apart, in C(framework.state).
  returned: always
  type: str
checked:
  description: Whether it came to a judgement.
  returned: always
  type: bool
passed:
  description: Whether the container sees the GPUs it should. False as well when nothing was checked.
  returned: always
  type: bool
reason:
  description: Why nothing was checked.
  returned: always
  type: str
host_gpus:
  description: The GPUs and, for a GPU that has them, in its place the MIG devices that the host lists.
  returned: always
  type: list
  elements: dict
  contains:
    index:
      description: Index on this list; for a MIG device that of its GPU, a colon, and its own.
      type: str
    uuid:
      description: UUID.
      type: str
    name:
      description: Name of the model.
      type: str
expected:
  description: UUIDs that the container should see.
  returned: always
  type: list
  elements: str
container_gpus:
  description: What the container lists, like RV(host_gpus). An index there is the container's own.
  returned: always
  type: list
  elements: dict
framework:
  description: What the framework in the image says.
  returned: always
  type: dict
  contains:
    name:
      description: V(torch).
      type: str
    state:
      description: V(passed), V(failed) or V(not_checked).
      type: str
    reason:
      description: Why it was not checked, or the cause's id.
      type: str
    version:
      description: Its version.
      type: str
    cuda:
      description: Version of CUDA that it was built with; null where it was built without.
      type: str
    available:
      description: What C(torch.cuda.is_available) says.
      type: bool
    count:
      description: Number of GPUs that CUDA opens. With MIG, CUDA shows one device to a process, however many there are.
      type: int
    uuids:
      description: Their UUIDs, where the version of torch tells them.
      type: list
      elements: str
    error:
      description: Its error.
      type: str
cause:
  description: Why it failed; null when it did not.
  returned: always
  type: dict
  contains:
    id:
      description: The cause's id.
      type: str
    stage:
      description: Where it shows, V(host), V(launch), V(image), V(container), V(framework) or V(cleanup).
      type: str
    confidence:
      description: V(high), V(medium) or V(low).
      type: str
    evidence:
      description: The line that shows it.
      type: str
    advice:
      description: What to do.
      type: str
    next_command:
      description: The next command, on the node.
      type: str
    checks:
      description: What would tell, where the words alone cannot.
      type: list
      elements: str
left_out:
  description: Sources of bind mounts that are not on the host, so that the container was started without them.
  returned: always
  type: list
  elements: str
seconds:
  description: How long the container took; null when none was started.
  returned: always
  type: float
"""

import os
import signal
import uuid
from dataclasses import asdict
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils.gpu import visibility as pure
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import Docker, Runner, limited, tolerant

# The host's own nvidia-smi hangs with a GPU that no longer answers.
HOST_SECONDS = 60
ARGUMENTS: dict[str, Any] = {
    "node": {"type": "str", "required": True},
    "container": {"type": "dict", "required": True},
    "gpus": {"type": "list", "elements": "str"},
    "framework": {"type": "bool", "default": True},
    "timeout": {"type": "int", "default": 120},
}


def probe(run: Runner, params: dict[str, Any], check_mode: bool, result: dict[str, Any]) -> pure.Cause | None:
    """Look, and fill `result`; the cause when the GPUs are not seen. Raises LaunchOptionError."""
    container, seconds = params["container"], params["timeout"]
    result["left_out"] = missing = [path for path in pure.bind_sources(container) if not os.path.exists(path)]
    name = "tandem-gpu-visibility-" + uuid.uuid4().hex[:12]
    argv = pure.probe_argv(container, name, missing, params["framework"])
    command = pure.by_hand(container, missing)
    names = pure.named_gpus(container) if params["gpus"] is None else params["gpus"]
    if names == []:
        result["reason"] = "the launch asks for no GPU"
        return None
    status, out, err = run(limited(HOST_SECONDS, ["nvidia-smi", "-L"]))
    host = pure.listed(out)
    result["host_gpus"] = [asdict(gpu) for gpu in host]
    result["expected"], unknown = pure.resolve(names, host)
    if check_mode:
        result["reason"] = "check mode starts no container"
        return None
    result["checked"] = True
    cause = pure.judge_host(status, out + err)
    if cause or unknown:
        return cause or pure.judge_named(unknown, host)
    docker = Docker(run)
    found, error = docker.find_image(container["image"])
    if found is None:
        return pure.judge_image(container["image"], error)
    ended = docker.run_briefly(argv, name, seconds)
    result["seconds"] = round(ended.seconds, 1)
    if ended.timed_out:
        cause = pure.judge_timeout(pure.read(ended.out), seconds, command)
    else:
        verdict = pure.judge(ended.status, ended.out, ended.err, result["expected"], command)
        cause = verdict.cause
        result["container_gpus"] = [asdict(gpu) for gpu in verdict.container]
        result["framework"] = verdict.framework.to_dict()
    if ended.left:
        cause = pure.judge_left(name, ended.left, cause)
    return cause


def end(_signal: int, _frame: object) -> None:
    """End in the ordinary way, so that what was started is removed."""
    raise SystemExit(1)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    if params["timeout"] < 1:
        module.fail_json(msg="timeout = {}: must be 1 second or more.".format(params["timeout"]))
    if not params["container"].get("image"):
        module.fail_json(msg="container.image = not set: the launch image is needed, by id or digest.")
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, end)
    result: dict[str, Any] = {
        "checked": False,
        "passed": False,
        "reason": None,
        "host_gpus": [],
        "expected": [],
        "container_gpus": [],
        "framework": pure.Framework("not_checked", "no container was started").to_dict(),
        "left_out": [],
        "seconds": None,
    }
    try:
        cause = probe(tolerant(module.run_command), params, module.check_mode, result)
    except pure.LaunchOptionError as error:
        module.fail_json(msg=str(error))
    result["passed"] = result["checked"] and cause is None
    result["cause"] = cause.to_dict() if cause else None
    result["state"] = "failed" if cause else "passed" if result["passed"] else "not_checked"
    if cause:
        module.fail_json(msg=pure.message(params["node"], cause), changed=False, **result)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
