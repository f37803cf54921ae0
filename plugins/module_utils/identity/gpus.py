# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPUs of the host, of the container and of Ray are one set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.identity.group import Finding, Group, not_known
from ansible_collections.tandem.vllm.plugins.module_utils.ray.values import count

HOST, CONTAINER, RAY = "GPUs of the host", "GPUs in the container", "GPUs in Ray"
LAUNCH = "Start the container with the GPUs of the contract (tandem_gpus)"


def findings(group: Group, name: str) -> list[Finding]:
    """What is wrong with the GPUs of one node."""
    facts = group.nodes[name]
    wanted = group.gpus.get(name, len(facts["gpus"]))
    found = _host(facts, name, wanted) if facts["gpus"] else []
    container = group.running().get(name)
    if container is None:
        return found
    found += _container(facts, name)
    # Where Ray tells of no node at all, or nobody knows which of them is in the container, that is told already.
    if container["ray_address"] and told(group):
        found += _ray(group, name, container["ray_address"], wanted)
    return found


def _host(facts: Mapping[str, Any], name: str, wanted: int) -> list[Finding]:
    if facts["gpus_host_reason"]:
        return [not_known(name, HOST, facts["gpus_host_reason"], "Run 'nvidia-smi -L' there")]
    if facts["gpus_unknown"]:
        remedy = "Correct tandem_gpus to what 'nvidia-smi -L' lists there, or find out why the GPU is not there"
        lacking = ", ".join(facts["gpus_unknown"])
        return [Finding(name, HOST, _listed(facts["gpus_host"]), f"must have {lacking} of the contract", remedy)]
    if len(facts["gpus_host"]) == wanted:
        return []
    remedy = "Correct tandem_gpus of the node, or the parallel sizes of the replica"
    found = f"{len(facts['gpus_host'])} that the contract names: {_listed(facts['gpus_host'])}"
    return [Finding(name, HOST, found, f"must be {wanted} for the replica", remedy)]


def _container(facts: Mapping[str, Any], name: str) -> list[Finding]:
    host, inside = facts["gpus_host"], facts["gpus_container"]
    if not facts["gpus"]:
        # A node without GPUs, where a container that sees some has what nobody gave it.
        return [Finding(name, CONTAINER, _listed(inside), "must be none, as in the contract", LAUNCH)] if inside else []
    if facts["gpus_container_reason"]:
        remedy = "Run the module tandem.vllm.gpu_visibility there: it names the cause"
        return [not_known(name, CONTAINER, facts["gpus_container_reason"], remedy)]
    # Of a host that could not be read nobody knows what the set should be; that is told already.
    if facts["gpus_host_reason"] or sorted(inside) == sorted(host):
        return []
    return [Finding(name, CONTAINER, _listed(inside), f"must be those of the contract: {_listed(host)}", LAUNCH)]


def _ray(group: Group, name: str, address: str, wanted: int) -> list[Finding]:
    nodes = group.ray_nodes(address)
    if not nodes:
        if address != group.addresses[name]:
            return []  # no wonder, and told already
        remedy = "Look at the log of the Ray container there"
        return [Finding(name, "node in Ray", "none", f"must be a live one with the address {address}", remedy)]
    if len(nodes) > 1:
        ids = ", ".join(str(node["node_id"]) for node in nodes)
        remedy = "Stop the one that does not belong to the group, or whose address is another's"
        return [Finding(name, "node in Ray", f"{len(nodes)} with the address {address}: {ids}", "must be one", remedy)]
    gpus = nodes[0]["GPU"]
    if gpus is None:
        return [not_known(name, RAY, "the cluster does not tell its resources", "Run 'ray status -v' on the head")]
    if gpus == wanted:
        return []
    return [Finding(name, RAY, str(count(gpus)), f"must be {wanted}", f"Start Ray there with --num-gpus={wanted}")]


def told(group: Group) -> bool:
    """Whether Ray tells of its nodes and their addresses."""
    cluster = group.cluster or {}
    return bool(cluster.get("reachable")) and any(node["ip"] for node in cluster.get("node_list") or ())


def _listed(uuids: Iterable[str]) -> str:
    return ", ".join(uuids) or "none"
