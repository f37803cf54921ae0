#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: ray_cluster_info
short_description: Tell what a Ray cluster is like, and wait until it is as expected
version_added: 0.1.0
description:
  - Asks the Ray node in a container of this host, or reads texts that somebody captured.
  - In a container it runs C(ray status -v) and asks the GCS for its table of nodes; where that Ray is too old or too
    new for this, C(ray list nodes), which needs the dashboard. Each command is killed after O(command_timeout).
  - All layouts since Ray 1.12 are read, with prompts, log lines and prefixes of other tools round them, and cut off
    ones as far as they go.
  - Live nodes are active and idle ones. Dead registrations are no nodes. The GPUs free for a new engine are
    total - used + used in placement groups - reserved in placement groups.
  - It never fails on what it finds, unless O(expect) is given together with O(container).
  - With O(expect) and O(timeout) it asks again until the cluster is as expected, showing what lacks. When it gives up
    it says which node is missing, the end of the log of O(container), and the next command for the log of the missing
    node. Run on the node that joins, it tells that node's own log.
author:
  - The Tandem contributors (@tandem)
options:
  container:
    description: Name of the container with a Ray node, on this host.
    type: str
  address:
    description:
      - Address of the head's GCS, such as V(10.0.0.1:6379); given to Ray as E(RAY_ADDRESS).
      - Without it Ray finds the cluster that the node in O(container) belongs to.
    type: str
  status_text:
    description: What C(ray status) or C(ray status -v) printed. Excludes O(container).
    type: str
  nodes_text:
    description:
      - A list of nodes. C(ray list nodes) as table, YAML (C(--detail)) or JSON, C(ray get nodes), C(ray.nodes()) as
        Python prints it, or the answers of the dashboard. Excludes O(container).
    type: str
  expect:
    description: What the cluster should be.
    type: dict
    suboptions:
      nodes:
        description: How many live nodes there must be at least.
        type: raw
      gpus_per_node:
        description: How many GPUs each node has in Ray, as one number or as a mapping of address to number.
        type: raw
      free_gpus:
        description: How many GPUs in all must be neither in use nor reserved by a placement group.
        type: raw
      addresses:
        description: Addresses of the nodes that must be alive.
        type: raw
      version:
        description: Version of Ray. Texts do not tell it.
        type: raw
  timeout:
    description: Longest wait for O(expect), in seconds. V(0) looks once.
    type: int
    default: 0
  interval:
    description: Seconds between two looks.
    type: int
    default: 3
  command_timeout:
    description: Longest time of one command in the container, in seconds.
    type: int
    default: 30
extends_documentation_fragment:
  - tandem.vllm.reads_only
seealso:
  - module: tandem.vllm.failure_triage_info
"""

EXAMPLES = r"""
- name: Wait until both nodes have joined with their GPUs
  tandem.vllm.ray_cluster_info:
    container: tandem-ray
    address: 10.0.0.1:6379
    expect:
      nodes: 2
      gpus_per_node: {10.0.0.1: 4, 10.0.0.2: 4}
      version: "2.49.1"
    timeout: 120

- name: Judge what somebody sent
  tandem.vllm.ray_cluster_info:
    status_text: "{{ lookup('ansible.builtin.file', 'sent/ray-status.txt') }}"
    nodes_text: "{{ lookup('ansible.builtin.file', 'sent/ray-nodes.txt') }}"
  delegate_to: localhost
"""

RETURN = r"""
verdict:
  description: In plain words, whether the cluster is ready, what it lacks and what it has.
  returned: always
  type: str
  sample: "not ready: node 10.0.0.2 is missing; 1 node alive; 4 GPUs, 4 free for a new engine"
ready:
  description:
    - Whether the cluster answers, has live nodes, none is pending, and all of O(expect) is there.
    - Without O(expect) a recent failure is a reason not to be ready, as nobody knows whether that node is needed.
  returned: always
  type: bool
retryable:
  description: Whether what lacks may come by itself.
  returned: always
  type: bool
missing:
  description: What lacks, a sentence each.
  returned: always
  type: list
  elements: str
missing_addresses:
  description: Addresses of O(expect) that no live node has.
  returned: always
  type: list
  elements: str
reachable:
  description: Whether the GCS answered; V(null) when the text does not tell.
  returned: always
  type: bool
root_cause:
  description: Why it did not, in the words of M(tandem.vllm.failure_triage_info); V(null) when it has no word for it.
  returned: always
  type: str
  sample: ray_gcs_unreachable
reason:
  description: The line that says so.
  returned: always
  type: str
remedy:
  description: What to do about it.
  returned: always
  type: str
address:
  description: Address of the GCS that an error names, else O(address).
  returned: always
  type: str
complete:
  description: Whether the texts are whole. Of a text that is cut off, what is not in it may be there.
  returned: always
  type: bool
fragment:
  description: Whether the status text lacks its beginning, the part about nodes.
  returned: always
  type: bool
prefix_stripped:
  description: Whether each line had another tool's prefix.
  returned: always
  type: bool
format:
  description: V(v1), or V(v2) with idle nodes in a section of their own.
  returned: always
  type: str
node_heading:
  description: What the status calls its live nodes, V(Healthy) or V(Active).
  returned: always
  type: str
time:
  description: When the status was reported, by the head's clock.
  returned: always
  type: str
nodes:
  description: Nodes by state. A number is V(null) where its section is cut off; all is V(null) without a report.
  returned: always
  type: dict
  contains:
    active:
      description: Live nodes that do something.
      type: int
    idle:
      description: Live nodes that do nothing. Old releases count them as active.
      type: int
    alive:
      description: Both.
      type: int
    pending:
      description: Nodes that are launched or set up.
      type: int
    failed:
      description: Recent failures.
      type: int
node_types:
  description: Live nodes by their type, in Ray's words.
  returned: always
  type: dict
pending:
  description: Each row about pending nodes, with C(type), C(state), and C(count), C(ip) or C(instance).
  returned: always
  type: list
  elements: dict
failures:
  description:
    - Each row about failures, with C(type), C(reason), and C(ip), C(instance_id), C(latest_attempt) or C(detail).
  returned: always
  type: list
  elements: dict
resources:
  description:
    - By the resource's name, a mapping. V(null) without a report.
    - C(used), C(total), C(pg_used), C(pg_reserved), C(free) and C(free_for_new_pg) (the same) are numbers;
      C(used_approx) is used without float noise.
    - Of sizes, C(used) and C(total) are as Ray prints them, with C(used_bytes) and C(total_bytes); the others are in
      bytes.
  returned: always
  type: dict
  sample: {GPU: {used: 1.0, total: 4.0, pg_used: 1.0, pg_reserved: 1.0, free: 3.0}}
gpu_total:
  description: GPUs of the cluster by C(ray status), else of the live nodes in the list.
  returned: always
  type: float
gpu_listed:
  description: GPUs of the live nodes in the list of nodes.
  returned: always
  type: float
gpu_free_for_new_pg:
  description: GPUs that a new engine can have.
  returned: always
  type: float
constraints:
  description: What C(request_resources) asks for, where it has a section of its own; V(null) without one.
  returned: always
  type: list
  elements: dict
demands:
  description:
    - What waits. C(kind) is V(tasks/actors), V(placement groups) or V(request_resources); C(count) as printed, and
      C(at_least) as a number; C(bundle), or C(bundles) where a group has several; C(times) and C(strategy) of groups;
      C(using_placement_groups) where told.
    - V(null) when the text is cut off before.
  returned: always
  type: list
  elements: dict
total:
  description: How many nodes the list says there are; V(null) when it does not.
  returned: always
  type: int
rows_in_text:
  description: How many nodes are in the list; V(null) without one.
  returned: always
  type: int
alive:
  description: Live nodes, by the list, else by the status.
  returned: always
  type: int
dead:
  description: Dead registrations in the list.
  returned: always
  type: int
heads:
  description: Live heads; V(null) where the list does not tell which nodes are heads.
  returned: always
  type: int
unique_alive_ips:
  description: How many addresses the live nodes have.
  returned: always
  type: int
node_list:
  description: The nodes, live and dead. Without a list, the live ones in C(ray status -v).
  returned: always
  type: list
  elements: dict
  contains:
    node_id:
      description: Ray's id.
      type: str
    ip:
      description: Address that Ray knows the node by.
      type: str
    name:
      description: Name, by default the address.
      type: str
    host:
      description: Host name.
      type: str
    type:
      description: Type, in the words of C(ray status -v).
      type: str
    state:
      description: V(ALIVE) or V(DEAD).
      type: str
    alive:
      description: Whether it is alive.
      type: bool
    state_message:
      description: Why it died.
      type: str
    head:
      description: Whether it is the head; V(null) where the list does not tell.
      type: bool
    resources:
      description: Amount of each resource; sizes are in bytes.
      type: dict
    CPU:
      description: CPUs.
      type: float
    GPU:
      description: GPUs; V(null) where the node has no resources in the text.
      type: float
    gpu_used:
      description: GPUs in use; from C(ray status -v).
      type: float
    gpu_free:
      description: GPUs that a new engine can have on this node; from C(ray status -v).
      type: float
    memory_bytes:
      description: Memory that Ray hands out, in bytes.
      type: float
    accelerator:
      description: Ray's name of the GPU.
      type: str
    labels:
      description: Labels.
      type: dict
    start_time:
      description: When it started, as the list has it.
      type: raw
    end_time:
      description: When it died, as the list has it.
      type: raw
ray_version:
  description: Version of Ray in the cluster; V(null) for texts.
  returned: always
  type: str
python_version:
  description: Version of Python in the cluster, to the patch; V(null) for texts.
  returned: always
  type: str
log_tail:
  description: The last lines of the log of O(container), when the cluster is not ready.
  returned: always
  type: list
  elements: str
waited:
  description: Seconds waited.
  returned: when O(expect) and O(timeout) are given
  type: float
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import tolerant
from ansible_collections.tandem.vllm.plugins.module_utils.host.ray import RayContainer
from ansible_collections.tandem.vllm.plugins.module_utils.problems import Problems
from ansible_collections.tandem.vllm.plugins.module_utils.ray import cluster, expectation

LOG_LINES = 10
ARGUMENTS: dict[str, Any] = {
    "container": {"type": "str"},
    "address": {"type": "str"},
    "status_text": {"type": "str"},
    "nodes_text": {"type": "str"},
    "expect": {
        "type": "dict",
        # Kinds are checked in the pure layer, which names the value and the remedy.
        "options": {name: {"type": "raw"} for name in expectation.KEYS},
    },
    "timeout": {"type": "int", "default": 0},
    "interval": {"type": "int", "default": 3},
    "command_timeout": {"type": "int", "default": 30},
}


def look(module: AnsibleModule, expected: expectation.Expectation) -> dict[str, Any]:
    """Ask the container, once."""
    params = module.params
    container = RayContainer(
        tolerant(module.run_command), params["container"], params["address"], params["command_timeout"]
    )
    seen = container.look()
    result = cluster.facts(seen.status_text, seen.nodes_text, expected, seen.ray_version, seen.python_version)
    result["address"] = result["address"] or params["address"]
    result["log_tail"] = [] if result["ready"] else container.log()[-LOG_LINES:]
    return result


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        supports_check_mode=True,
        mutually_exclusive=[("container", "status_text"), ("container", "nodes_text")],
        required_one_of=[("container", "status_text", "nodes_text")],
    )
    params = module.params
    problems = Problems()
    given = {name: value for name, value in (params["expect"] or {}).items() if value is not None}
    expected = expectation.read(given, problems)
    for name, least in (("timeout", 0), ("interval", 0), ("command_timeout", 1)):
        if params[name] < least:
            problems.add(name, params[name], f"must be a whole number from {least}", "Correct the value")
    if problems.found:
        module.fail_json(msg=problems.message("ray_cluster_info cannot run"))
    if params["container"]:
        result = look(module, expected)
    else:
        result = {**cluster.facts(params["status_text"], params["nodes_text"], expected), "log_tail": []}
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
