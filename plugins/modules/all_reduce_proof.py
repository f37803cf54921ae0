#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: all_reduce_proof
short_description: Prove what the nodes of a rank group talk over, and how fast
version_added: 0.1.0
description:
  - Runs a short all-reduce between the nodes of a rank group, in the launch image with the launch's own options
    (GPU request, environment, shared memory, limits, devices), with NCCL where there are GPUs and gloo on CPU.
    It checks the sum, measures bandwidth and latency, and reads from NCCL's log which transport was used.
  - Two steps, so that any number of Ansible forks will do. V(start) starts a container on a node and returns at once,
    V(collect) waits for its end, reads its log, removes it and judges. Run each on all nodes of the group.
  - The containers use the host's network, as those of a rank group do, and none of the launch's mounts. The rank of the
    first node listens on O(master_address) and O(master_port) while they run; NCCL and gloo open ephemeral ports.
  - A container that is never collected ends by itself after O(timeout).
  - It fails when a rank did not come or did not end, when the sum is wrong, when O(expect) is not met, and when the log
    names no transport between the nodes.
  - With O(cost) it warns when the group's tensor parallelism crosses nodes and what was measured is slow.
  - Causes are those of M(tandem.vllm.failure_triage_info), found in the log, and V(rank_missing),
    V(ranks_cannot_connect), V(other_rank_failed), V(rdma_not_used), V(rdma_not_checked), V(bandwidth_below_floor),
    V(transport_not_known), V(container_gone), V(container_left_behind), V(name_taken), V(image_missing),
    V(not_started), and V(unknown) with the lines to look at.
  - While it runs it takes some hundred MiB of memory on each GPU. Run it before the engine.
author:
  - The Tandem contributors (@tandem)
options:
  step:
    description: V(start) starts the container, V(collect) waits for it and tells the result.
    type: str
    choices: [start, collect]
    required: true
  name:
    description:
      - Name of the container. One that was left by an earlier proof is removed first; one of something else is left
        alone, and the module fails.
    type: str
    required: true
  container:
    description:
      - The launch, by the option names of P(community.docker.docker_container#module), as the filter
        P(tandem.vllm.containers_on#filter) makes it. C(image), C(env), C(device_requests), C(shm_size), C(memory),
        C(cpus), C(ulimits), C(devices) and C(capabilities) are taken over.
      - An option that cannot be taken over is refused, as the proof would be of another container. Mounts, name,
        command, labels, ports and restart settings are not taken over.
      - E(NCCL_SOCKET_IFNAME) and E(GLOO_SOCKET_IFNAME) of C(env) say which interface to use.
      - Required for V(start) of O(step).
    type: dict
  rank:
    description: Number of this node in the group, from V(0).
    type: int
    required: true
  nodes:
    description: Number of nodes in the group.
    type: int
    required: true
  processes:
    description: Number of ranks on each node, which is that of its GPUs. V(1) on CPU.
    type: int
    default: 1
  node_names:
    description: Names of the nodes in the order of their numbers, for messages.
    type: list
    elements: str
  master_address:
    description: Address of node V(0).
    type: str
    required: true
  master_port:
    description: A free port of node V(0).
    type: int
    required: true
  backend:
    description: V(nccl) between GPUs, V(gloo) between CPUs. gloo says nothing about GPUs or RDMA.
    type: str
    choices: [nccl, gloo]
    required: true
  sizes_mib:
    description:
      - Sizes of the messages, in MiB. The largest bandwidth counts.
      - By default V([1, 256]) with NCCL and V([1, 16]) with gloo.
    type: list
    elements: int
  expect:
    description: What the contract says.
    type: dict
    suboptions:
      rdma:
        description: Whether the nodes must talk over RDMA (or NVLink).
        type: bool
      minimum_gbit:
        description: Least bus bandwidth, in Gbit/s.
        type: float
  cost:
    description:
      - The model and how the group cuts it. With it, the node of rank V(0) warns after V(collect) of O(step) when
        tensor parallelism crosses nodes that talk slowly or without RDMA. It says what that costs by the measured
        figures, and what pipeline parallelism would.
      - M(tandem.vllm.host_contract) tells the first three.
    type: dict
    suboptions:
      hidden_size:
        description: Hidden size of the model.
        type: int
        required: true
      layers:
        description: Number of the model's layers.
        type: int
        required: true
      element_bytes:
        description: Bytes of each element of an activation.
        type: int
        required: true
      tensor_parallel:
        description: Tensor parallel size of the group.
        type: int
        required: true
      pipeline_parallel:
        description: Pipeline parallel size of the group.
        type: int
        required: true
      nodes:
        description: Number of nodes in the group. Each has as many ranks.
        type: int
        required: true
  timeout:
    description:
      - Longest time of the proof on a node, in seconds from the start of its container. It includes the time until the
        last node has started.
      - Give both steps the same.
    type: int
    default: 180
  wait:
    description:
      - Longest time of this call of V(collect), in seconds. A container that has not ended by then and is within its
        time is left, and RV(state) is V(running).
      - Without it the call is repeated on the control node until the container has ended, showing how far it is.
    type: int
extends_documentation_fragment:
  - tandem.vllm.reads_only
attributes:
  check_mode:
    support: partial
    description: It changes nothing in either mode.
    details:
      - In check mode no container is started or collected, and RV(state) is V(not_checked), never V(passed).
seealso:
  - module: tandem.vllm.gpu_visibility
  - module: tandem.vllm.failure_triage_info
"""

EXAMPLES = r"""
# On each of the group's nodes, first with `step` start on all of them, then with `step` collect.
- name: Measure the network between the nodes
  tandem.vllm.all_reduce_proof:
    step: "{{ step }}"
    name: tandem-chat-proof
    container: "{{ rank_container }}"
    rank: "{{ group_nodes.index(inventory_hostname) }}"
    nodes: "{{ group_nodes | length }}"
    node_names: "{{ group_nodes }}"
    processes: "{{ tandem_gpus | length }}"
    master_address: 10.0.0.1
    master_port: 6388
    backend: nccl
    expect:
      rdma: true
      minimum_gbit: 80
    cost: {hidden_size: 8192, layers: 80, element_bytes: 2, tensor_parallel: 8, pipeline_parallel: 1, nodes: 2}
"""

RETURN = r"""
state:
  description: V(started), V(running), V(passed), V(failed), or V(not_checked) in check mode.
  returned: always
  type: str
progress:
  description: How far the proof is, in words.
  returned: when RV(state=running)
  type: str
  sample: wait for all ranks; rank 1 of node-b not there yet
transport:
  description:
    - What data went over between the nodes, V(NET/IB), V(NET/Socket) or the network of a plug-in, V(P2P/MNNVL) for
      NVLink between machines, V(gloo/tcp). Where there were several, the slowest.
    - With one node, what its ranks used, V(P2P), V(SHM) or a network.
    - V(null) where the log does not tell.
  returned: when O(step=collect) and the container has ended
  type: str
transports:
  description: All transports that this node's ranks used, also within the node.
  returned: when O(step=collect) and the container has ended
  type: list
  elements: str
interface:
  description:
    - The interface or RDMA device that data left by, several with commas between them; V(null) where it is not known.
    - With gloo, the interface that the data was counted at.
  returned: when O(step=collect) and the container has ended
  type: str
  sample: eth0
interfaces_found:
  description: Interfaces and RDMA devices that NCCL found; with gloo, those that the data was counted at.
  returned: when O(step=collect) and the container has ended
  type: list
  elements: str
gdr:
  description: Whether RDMA reads and writes GPU memory directly (GPUDirect RDMA); V(null) where RDMA was not used.
  returned: when O(step=collect) and the container has ended
  type: bool
bus_gbit:
  description:
    - The largest bus bandwidth, in Gbit/s. With n ranks that is size / time * 2 (n - 1) / n, which is comparable with
      the speed of the link.
  returned: when O(step=collect) and the container has ended
  type: float
latency_us:
  description: Median time of an all-reduce of 1 KiB, in microseconds.
  returned: when O(step=collect) and the container has ended
  type: float
sizes:
  description: What was measured for each size.
  returned: when O(step=collect) and the container has ended
  type: list
  elements: dict
  contains:
    size_bytes:
      description: Size of the message.
      type: int
    seconds:
      description: Median time.
      type: float
    algorithm_gbit:
      description: Size over time, in Gbit/s.
      type: float
    bus_gbit:
      description: Bus bandwidth, in Gbit/s.
      type: float
world_size:
  description: Number of ranks that took part.
  returned: when O(step=collect) and the container has ended
  type: int
nccl_version:
  description: Version of NCCL; V(null) with gloo.
  returned: when O(step=collect) and the container has ended
  type: str
torch_version:
  description: Version of PyTorch.
  returned: when O(step=collect) and the container has ended
  type: str
backend:
  description: As in O(backend).
  returned: when O(step=collect) and the container has ended
  type: str
problems:
  description: What is wrong, a sentence or two each, with the line that shows it, the remedy and the next command.
  returned: always
  type: list
  elements: str
cause:
  description: The first of RV(problems), in parts; V(null) without one.
  returned: always
  type: dict
  contains:
    id:
      description: The cause's id.
      type: str
    says:
      description: What happened.
      type: str
    evidence:
      description: The line that shows it.
      type: str
    advice:
      description: What to do.
      type: str
    next_command:
      description: The next command.
      type: str
log_tail:
  description: The last lines of the container's log, where there is a problem. The container itself is gone.
  returned: when O(step=collect) and the container has ended
  type: list
  elements: str
"""

import signal
from dataclasses import asdict
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils.gpu.visibility import LaunchOptionError
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import tolerant
from ansible_collections.tandem.vllm.plugins.module_utils.host.proof_container import ProofContainer
from ansible_collections.tandem.vllm.plugins.module_utils.transport import cost, failure, launch, verdict
from ansible_collections.tandem.vllm.plugins.module_utils.transport.failure import Problem

# The program ends by itself at its time; then its processes have to end, and Docker has to see it.
MARGIN = 20
ARGUMENTS: dict[str, Any] = {
    "step": {"type": "str", "choices": ["start", "collect"], "required": True},
    "name": {"type": "str", "required": True},
    "container": {"type": "dict"},
    "rank": {"type": "int", "required": True},
    "nodes": {"type": "int", "required": True},
    "processes": {"type": "int", "default": 1},
    "node_names": {"type": "list", "elements": "str"},
    "master_address": {"type": "str", "required": True},
    "master_port": {"type": "int", "required": True},
    "backend": {"type": "str", "choices": ["nccl", "gloo"], "required": True},
    "sizes_mib": {"type": "list", "elements": "int"},
    "expect": {"type": "dict", "options": {"rdma": {"type": "bool"}, "minimum_gbit": {"type": "float"}}},
    "cost": {
        "type": "dict",
        "options": {
            "hidden_size": {"type": "int", "required": True},
            "layers": {"type": "int", "required": True},
            "element_bytes": {"type": "int", "required": True},
            "tensor_parallel": {"type": "int", "required": True},
            "pipeline_parallel": {"type": "int", "required": True},
            "nodes": {"type": "int", "required": True},
        },
    },
    "timeout": {"type": "int", "default": 180},
    "wait": {"type": "int"},
}


def start(
    container: ProofContainer, proof: launch.Proof, options: dict[str, Any]
) -> tuple[dict[str, Any], list[Problem]]:
    """Start the container. Raises LaunchOptionError."""
    argv = launch.run_argv(proof, options)
    if container.is_anothers():
        return {}, [failure.not_ours(proof)]
    said = container.start(argv)
    return {}, [] if said is None else [failure.not_started(proof, said)]


def collect(container: ProofContainer, proof: launch.Proof, wait: int | None) -> tuple[dict[str, Any], list[Problem]]:
    """Wait for the container, remove it and judge; or tell how far it is, when it takes longer than `wait`."""
    if container.is_anothers():
        return {}, [failure.not_ours(proof)]
    limit = proof.timeout + MARGIN
    log = container.running(max(wait, 1), limit) if wait is not None else None
    if log is not None:
        return {"state": "running", "progress": verdict.progress(proof, log)}, []
    collected = container.collect(limit if wait is None else 1)
    result, found = verdict.judge(proof, collected.ended, collected.log)
    if collected.left:
        found = [*found, failure.not_removed(proof, collected.left)]
    return result, found


def slow(proof: launch.Proof, params: dict[str, Any], result: dict[str, Any]) -> str | None:
    """What the measured network costs the group's tensor parallelism, told by the first node; None where little."""
    if proof.rank != 0 or params["cost"] is None or result["state"] != "passed":
        return None
    return cost.warning(*cost.read(params["cost"]), cost.measured(result))


def end(_signal: int, _frame: object) -> None:
    """End in the ordinary way, so that what was started is removed."""
    raise SystemExit(1)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        required_if=[("step", "start", ("container",))],
        supports_check_mode=True,
    )
    params = module.params
    starts = params["step"] == "start"
    proof = launch.read(params)
    wrong = launch.problems(proof, params["container"] if starts else None)
    wrong.found += cost.problems(params["cost"]).found if params["cost"] else []
    if wrong.found:
        module.fail_json(msg=wrong.message("all_reduce_proof cannot run"))
    if module.check_mode:
        module.exit_json(changed=False, state="not_checked", problems=[], cause=None)
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, end)
    container = ProofContainer(tolerant(module.run_command), proof.name)
    try:
        if starts:
            result, found = start(container, proof, params["container"])
        else:
            result, found = collect(container, proof, params["wait"])
    except LaunchOptionError as error:
        module.fail_json(msg=str(error))
    result.setdefault("state", "failed" if found else "started" if starts else "passed")
    result.update(
        changed=False,
        problems=[str(problem) for problem in found],
        cause=asdict(found[0]) if found else None,
    )
    if found:
        module.fail_json(msg=verdict.message(proof, found), **result)
    said = slow(proof, params, result)
    if said:
        module.warn(f"{', '.join(map(proof.node, range(proof.nodes)))}, as measured: {said}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
