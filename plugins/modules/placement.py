#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: placement
short_description: Check an inventory's contract and compute what runs where
version_added: 0.1.0
description:
  - Reads the variables and groups of an inventory, checks every one of them, and returns the placement they stand for.
  - Fails with one message that names each wrong variable, its value, what is allowed and what to do.
  - Needs nothing of the machines; run it on the control node.
author:
  - The Tandem contributors (@tandem)
options:
  topology:
    description: How a service that names no replicas is placed.
    type: str
    choices: [dual_replica, ray_tp, ray_tp_pp]
    default: dual_replica
  environment:
    description: Name of the environment (C(tandem_environment)); containers and records carry it.
    type: raw
  lab:
    description: Whether this is a lab (C(tandem_lab)) - engines on CPU, unpinned images allowed.
    type: raw
    default: false
  image:
    description: The vLLM image (C(tandem_image)), C(ref) by digest or id and optionally C(archive) on the control node.
    type: raw
  services:
    description: The services (C(tandem_services)).
    type: raw
  bundle:
    description: Folder of the offline bundle on the control node (C(tandem_bundle)).
    type: raw
  bundle_is_made:
    description: Whether that folder must hold a bundle already; false for the playbook that makes it.
    type: bool
    default: true
  ray:
    description: The Ray that the image is to have (C(tandem_ray)), with C(version) and C(extras).
    type: raw
  bundle_gateway_packages:
    description: Whether gateways get nginx's packages from the bundle (C(tandem_bundle_gateway_packages)).
    type: raw
    default: false
  nodes_per_replica:
    description:
      - How many nodes each replica spans in the topologies V(ray_tp) and V(ray_tp_pp) (C(tandem_nodes_per_replica)).
      - Without it one replica spans all of them.
    type: raw
  executor:
    description:
      - How the ranks of such a replica find each other (C(tandem_executor)). V(ray), with a Ray cluster, or V(mp),
        vLLM's own way over several nodes. V(ray) without it.
    type: raw
  network:
    description:
      - What is stated of the network between the nodes (C(tandem_network)), with C(gbit), C(latency_us), C(rdma) and
        C(minimum_gbit), each optional.
    type: raw
  nodes:
    description: The hosts of the group C(tandem_nodes), each with C(name), C(address) and C(gpus).
    type: list
    elements: dict
    default: []
  gateways:
    description: The hosts of the group C(tandem_gateway), each with C(name), C(address) and C(port).
    type: list
    elements: dict
    default: []
  inventory_hosts:
    description: Every host name of the inventory, to tell a misspelled name from a host of another group.
    type: list
    elements: str
    default: []
  api_keys:
    description:
      - The clients' API keys (C(tandem_api_keys)), passed through P(tandem.vllm.key_states#filter).
      - The module is told no secret.
    type: raw
  engine_api_key:
    description: The engines' own API key (C(tandem_engine_api_key)), passed through P(tandem.vllm.key_state#filter).
    type: str
extends_documentation_fragment:
  - tandem.vllm.reads_only
"""

EXAMPLES = r"""
- name: Compute the placement
  tandem.vllm.placement:
    environment: "{{ tandem_environment }}"
    image: "{{ tandem_image }}"
    services: "{{ tandem_services }}"
    nodes:
      - {name: node-a, address: 192.168.1.10, gpus: {count: 4}}
      - {name: node-b, address: 192.168.1.11, gpus: {count: 4}}
    gateways:
      - {name: gateway, address: 192.168.1.9, port: 8080}
    api_keys: "{{ tandem_api_keys | tandem.vllm.key_states }}"
    engine_api_key: "{{ tandem_engine_api_key | tandem.vllm.key_state }}"
  delegate_to: localhost
  register: contract
"""

RETURN = r"""
placement:
  description: What runs where, as every role takes it.
  returned: success
  type: dict
  contains:
    environment: {description: Name of the environment., type: str}
    lab: {description: Whether it is a lab., type: bool}
    nodes: {description: Per node its private address and GPUs., type: dict}
    services: {description: The services with their replicas., type: list, elements: dict}
    network: {description: What is stated of the network between the nodes; V(null) for what is not., type: dict}
release:
  description: Short id of the whole deployment.
  returned: success
  type: str
problems:
  description: What is wrong, one entry a problem.
  returned: failure
  type: list
  elements: str
"""

import os
from collections.abc import Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils.contract import (
    TOPOLOGIES,
    Contract,
    read_contract,
)
from ansible_collections.tandem.vllm.plugins.module_utils.placement import release

ARGUMENTS: dict[str, Any] = {
    "topology": {"type": "str", "choices": sorted(TOPOLOGIES), "default": "dual_replica"},
    "environment": {"type": "raw"},
    "lab": {"type": "raw", "default": False},
    "image": {"type": "raw"},
    "services": {"type": "raw"},
    "bundle": {"type": "raw"},
    "bundle_is_made": {"type": "bool", "default": True},
    "ray": {"type": "raw"},
    "bundle_gateway_packages": {"type": "raw", "default": False},
    "nodes_per_replica": {"type": "raw"},
    "executor": {"type": "raw"},
    "network": {"type": "raw"},
    "nodes": {"type": "list", "elements": "dict", "default": []},
    "gateways": {"type": "list", "elements": "dict", "default": []},
    "inventory_hosts": {"type": "list", "elements": "str", "default": []},
    # States of keys (fingerprints), not keys: hiding them would hide words of the messages.
    "api_keys": {"type": "raw", "no_log": False},
    "engine_api_key": {"type": "str", "no_log": False},
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    image = module.params["image"]
    archive = image.get("archive") if isinstance(image, Mapping) else None
    archive_exists = (isinstance(archive, str) and os.path.isfile(archive)) if archive else None
    stated = {name: value for name, value in module.params.items() if name != "bundle_is_made"}
    bundle, bundle_exists = stated["bundle"], None
    if module.params["bundle_is_made"] and isinstance(bundle, str):
        bundle_exists = os.path.isfile(os.path.join(bundle, "manifest.json"))
    contract = Contract(archive_exists=archive_exists, bundle_exists=bundle_exists, **stated)
    placement, problems = read_contract(contract)
    if placement is None:
        module.fail_json(
            msg=problems.message("The inventory does not fit the contract (nothing was changed)"),
            problems=[str(p) for p in problems.found],
        )
    else:
        named = release(placement, image["ref"], stated["ray"])
        module.exit_json(changed=False, placement=placement.to_dict(), release=named)


if __name__ == "__main__":
    main()
