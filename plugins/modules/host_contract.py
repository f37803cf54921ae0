#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: host_contract
short_description: Check one host against the placement before anything changes
version_added: 0.1.0
description:
  - Reads what a host has (addresses, Docker, image, model directories, listening ports) and compares it with what the
    placement wants of it, as a node, as a gateway or as both.
  - Where a model lacks a vocabulary that vLLM would fetch from the internet, the image is asked whether it brings it,
    in a container of its own without a network.
  - Fails with one message that names each variable, its value, what is wanted and what to do.
  - Warns, on the first node of a replica over several nodes, when its tensor parallelism crosses nodes over a network
    that C(tandem_network) states to be slow. The warning has the numbers, also those of pipeline parallelism.
author:
  - The Tandem contributors (@tandem)
options:
  placement:
    description: The placement, as M(tandem.vllm.placement) returns it.
    type: dict
    required: true
  host:
    description: The host's name in the inventory.
    type: str
    required: true
  image:
    description: The vLLM image (C(tandem_image)).
    type: dict
    required: true
  models_to_come:
    description: Model directories that need not be there, as their files are sent later.
    type: list
    elements: str
    default: []
  vocabularies_to_come:
    description:
      - Vocabulary files that are sent later, by the path of their model. C(path) below the model's directory and
        C(sha256) of each.
    type: dict
    default: {}
  gateway:
    description: Where the gateway listens on this host, with C(address) and C(port); left out on hosts that are none.
    type: dict
extends_documentation_fragment:
  - tandem.vllm.reads_only
"""

EXAMPLES = r"""
- name: Check this host against the placement
  tandem.vllm.host_contract:
    placement: "{{ contract_placement }}"
    host: "{{ inventory_hostname }}"
    image: "{{ tandem_image }}"
"""

RETURN = r"""
image_present:
  description: Whether the image is on this node.
  returned: success
  type: bool
interface:
  description: Name of the network interface that carries the node's address; V(null) on a host that is no node.
  returned: success
  type: str
model_environment:
  description: Environment variables that a model's files ask for, by the model's path; other models are left out.
  returned: success
  type: dict
  sample: {/models/gpt-oss-20b: {TIKTOKEN_ENCODINGS_BASE: /models/gpt-oss-20b/vocabulary}}
model_shapes:
  description:
    - What decides the size of messages between ranks, by the model's path, from its C(config.json). V(null) where that
      is not there or does not tell.
    - C(hidden_size), C(layers), and C(element_bytes) of an activation.
  returned: success
  type: dict
  sample: {/models/Llama-3.3-70B-Instruct: {hidden_size: 8192, layers: 80, element_bytes: 2}}
problems:
  description: What is wrong, one entry a problem.
  returned: failure
  type: list
  elements: str
"""

from dataclasses import asdict, replace

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import tolerant
from ansible_collections.tandem.vllm.plugins.module_utils.host.machine import Machine
from ansible_collections.tandem.vllm.plugins.module_utils.host_contract import (
    judge_gateway,
    judge_node,
    model_environments,
    to_ask_for,
)
from ansible_collections.tandem.vllm.plugins.module_utils.placement import GATEWAY_UNIT, Placement
from ansible_collections.tandem.vllm.plugins.module_utils.problems import Problems
from ansible_collections.tandem.vllm.plugins.module_utils.rank_group import network
from ansible_collections.tandem.vllm.plugins.module_utils.transport.cost import Model

ARGUMENTS = {
    "placement": {"type": "dict", "required": True},
    "host": {"type": "str", "required": True},
    "image": {"type": "dict", "required": True},
    "models_to_come": {"type": "list", "elements": "str", "default": []},
    "vocabularies_to_come": {"type": "dict", "default": {}},
    "gateway": {"type": "dict"},
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    placement, host = Placement.from_dict(module.params["placement"]), module.params["host"]
    image, gateway = module.params["image"], module.params["gateway"]
    machine, problems, image_present = Machine(tolerant(module.run_command)), Problems(), False
    to_come = {
        path: {file["path"]: file["sha256"] for file in files}
        for path, files in module.params["vocabularies_to_come"].items()
    }
    environment: dict[str, dict[str, str]] = {}
    shapes: dict[str, Model | None] = {}
    interface = None
    if host in placement.nodes:
        here = placement.on_node(host)
        facts = machine.node_facts(
            image["ref"],
            [s.model.path for s, _r in here],
            {r.port: r.container for _s, r in here if r.nodes[0] == host},
            placement.environment,
        )
        image_present = facts.image_present
        interface = facts.addresses.get(placement.nodes[host].address)
        if image_present:
            asked = to_ask_for(placement, host, facts, to_come)
            facts = replace(facts, builds_in=[v.variable for v in asked if machine.builds_in(image["ref"], v)])
        problems.found += judge_node(placement, host, facts, image, module.params["models_to_come"], to_come).found
        environment = model_environments(placement, host, facts, to_come)
        shapes = network.shapes(placement, host, facts.models)
    if gateway:
        facts = machine.gateway_facts(gateway["port"], GATEWAY_UNIT)
        problems.found += judge_gateway(host, gateway["address"], gateway["port"], facts).found
    if problems.found:
        module.fail_json(
            msg=problems.message(f"{host} does not fit the contract (nothing was changed)"),
            problems=[str(p) for p in problems.found],
        )
    for said in network.warnings(placement, host, shapes):
        module.warn(said)
    module.exit_json(
        changed=False,
        image_present=image_present,
        model_environment=environment,
        model_shapes={path: asdict(shape) if shape else None for path, shape in shapes.items()},
        interface=interface,
    )


if __name__ == "__main__":
    main()
