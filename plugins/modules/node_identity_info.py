#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: node_identity_info
short_description: Tell who a node of a rank group is
version_added: 0.1.0
description:
  - Reads, on a node of a replica over several nodes, all that has to agree before vLLM starts on it - addresses, the
    routes to the other nodes, the launched container and what runs in it, and GPUs.
  - It judges nothing and never fails on what it finds. P(tandem.vllm.rank_group_problems#filter) compares what it
    returned on all nodes of the group.
  - In the container it runs one short Python program and C(nvidia-smi -L). torch is imported only where it was built
    with CUDA or ROCm, to ask it for NCCL. Each command has a limit.
author:
  - The Tandem contributors (@tandem)
options:
  address:
    description: The node's address by the contract, C(tandem_address). IPv4.
    type: str
    required: true
  peers:
    description: Addresses of the other nodes of the group.
    type: list
    elements: str
    default: []
  container:
    description:
      - Name of the launched container on this node, the Ray node's where there is one.
      - Without it nothing is said of a container.
    type: str
  gpus:
    description: The GPUs that the contract gives to this node, by index or UUID. Empty on CPU.
    type: list
    elements: str
    default: []
  head:
    description:
      - Where the head listens. A TCP connection is tried from within O(container); where that does not run, and would
        have the host's network, or is not named, from the host.
      - Without it none is tried.
    type: dict
    suboptions:
      address:
        description: The head's address. IPv4.
        type: str
        required: true
      port:
        description: The port, of Ray's GCS for example.
        type: int
        required: true
  command_timeout:
    description: Longest time of one command in the container, in seconds. To import torch takes some.
    type: int
    default: 60
extends_documentation_fragment:
  - tandem.vllm.reads_only
seealso:
  - module: tandem.vllm.ray_cluster_info
  - module: tandem.vllm.gpu_visibility
  - plugin: tandem.vllm.rank_group_problems
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Look who the node is
  tandem.vllm.node_identity_info:
    address: 10.0.0.2
    peers: [10.0.0.1]
    container: tandem-ray
    gpus: ["0", "1", "2", "3"]
    head: {address: 10.0.0.1, port: 6379}
  register: identity
"""

RETURN = r"""
address:
  description: O(address).
  returned: always
  type: str
interfaces:
  description: The host's interfaces, each with its IPv4 addresses. Those without one are left out.
  returned: always
  type: dict
  sample: {lo: [127.0.0.1], eth0: [10.0.0.2]}
interfaces_error:
  description: Why they are not known; V(null) when they are.
  returned: always
  type: str
interface:
  description: The interface that O(address) is on; V(null) when it is on none.
  returned: always
  type: str
routes:
  description: How packets to each of O(peers) leave the host.
  returned: always
  type: list
  elements: dict
  contains:
    peer:
      description: The peer.
      type: str
    source:
      description: Address that the kernel gives such packets as their source.
      type: str
    interface:
      description: Interface that they leave by.
      type: str
    error:
      description: Why the route is not known; V(null) when it is.
      type: str
container:
  description: The container; V(null) without O(container).
  returned: always
  type: dict
  contains:
    name:
      description: O(container).
      type: str
    exists:
      description: Whether there is one; V(null) when Docker does not tell.
      type: bool
    running:
      description: Whether it runs; V(null) when Docker does not tell.
      type: bool
    status:
      description: Its state in Docker's words.
      type: str
    error:
      description: What Docker said instead of showing it.
      type: str
    network_mode:
      description: Its network, V(host) for the host's.
      type: str
    environment:
      description: E(VLLM_HOST_IP), E(NCCL_SOCKET_IFNAME) and E(GLOO_SOCKET_IFNAME); V(null) where not set.
      type: dict
    image_id:
      description: Id of its image.
      type: str
    base_image_id:
      description:
        - Id of the image that its image was derived from, by M(tandem.vllm.wheelhouse_install); V(null) for others.
      type: str
    wheelhouse:
      description: Hash of the wheels that were installed then.
      type: str
    image_error:
      description: Why it is not known what the image was derived from.
      type: str
    versions:
      description:
        - Versions of what runs in it, by V(python) (to the patch), V(ray), V(vllm), V(torch) and V(nccl).
        - NCCL is the one that torch uses; V(null) without an entry in RV(container.version_errors) when torch was built
          without it.
      type: dict
      sample: {python: 3.12.9, ray: 2.49.1, vllm: 0.25.1, torch: 2.11.0+cu130, nccl: 2.28.9}
    version_errors:
      description: Why a version is not known, by the same names.
      type: dict
    ray_address:
      description: Address that the Ray node in it advertises; V(null) when that is not known.
      type: str
    ray_address_error:
      description: Why it is not known.
      type: str
gpus:
  description: O(gpus).
  returned: always
  type: list
  elements: str
gpus_host:
  description: UUIDs of O(gpus) as the host's driver lists them; for a GPU in MIG mode its devices.
  returned: always
  type: list
  elements: str
gpus_host_reason:
  description: Why none were read; V(null) when they were.
  returned: always
  type: str
gpus_unknown:
  description: Those of O(gpus) that the host's driver does not list.
  returned: always
  type: list
  elements: str
gpus_container:
  description: UUIDs of all GPUs, or MIG devices, that the container sees.
  returned: always
  type: list
  elements: str
gpus_container_reason:
  description: Why none were read; V(null) when they were.
  returned: always
  type: str
head:
  description: O(head).
  returned: always
  type: dict
head_reachable:
  description: Whether the head's port accepted a connection; V(null) when none was tried.
  returned: always
  type: bool
head_error:
  description: Why it did not, or why none was tried.
  returned: always
  type: str
head_from:
  description: Where the connection was tried from, V(container) or V(host); V(null) when none was tried.
  returned: always
  type: str
"""

import ipaddress
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import tolerant
from ansible_collections.tandem.vllm.plugins.module_utils.host.identity import NodeIdentity, Wanted
from ansible_collections.tandem.vllm.plugins.module_utils.problems import Problems

ARGUMENTS: dict[str, Any] = {
    "address": {"type": "str", "required": True},
    "peers": {"type": "list", "elements": "str", "default": []},
    "container": {"type": "str"},
    "gpus": {"type": "list", "elements": "str", "default": []},
    "head": {
        "type": "dict",
        "options": {"address": {"type": "str", "required": True}, "port": {"type": "int", "required": True}},
    },
    "command_timeout": {"type": "int", "default": 60},
}


def is_ipv4(value: str) -> bool:
    """Whether a text is an IPv4 address."""
    try:
        ipaddress.IPv4Address(value)
    except ValueError:
        return False
    return True


def check(params: dict[str, Any]) -> Problems:
    """What is wrong with the arguments."""
    problems = Problems()
    addresses = [("address", params["address"]), *[("peers", peer) for peer in params["peers"]]]
    if params["head"]:
        addresses.append(("head.address", params["head"]["address"]))
        problems.kind("head.port", params["head"]["port"], "port", "Correct the value")
    for name, value in addresses:
        if not is_ipv4(value):
            problems.add(name, value, "must be an IPv4 address", "Give the node's tandem_address")
    problems.kind("command_timeout", params["command_timeout"], "positive integer", "Correct the value")
    return problems


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    problems = check(params)
    if problems.found:
        module.fail_json(msg=problems.message("node_identity_info cannot run"))
    wanted = Wanted(params["address"], params["peers"], params["container"], params["gpus"], params["head"])
    facts = NodeIdentity(tolerant(module.run_command), params["command_timeout"]).facts(wanted)
    module.exit_json(changed=False, **facts)


if __name__ == "__main__":
    main()
