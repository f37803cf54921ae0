# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges whether the nodes of a rank group are who they should be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.identity import addresses, gpus, sameness
from ansible_collections.tandem.vllm.plugins.module_utils.identity.group import Finding, Group, not_known
from ansible_collections.tandem.vllm.plugins.module_utils.problems import Problem, Problems

HEADLINE = "The nodes of the rank group are not what they should be"


def problems(
    nodes: Mapping[str, Mapping[str, Any]], cluster: Mapping[str, Any] | None, expected: Mapping[str, Any]
) -> list[dict[str, str]]:
    """Each thing wrong as {node, what, found, wanted, remedy}; what is not known is one. Empty: all is well.

    nodes: per node the facts of node_identity_info. cluster: what ray_cluster_info returned on the head; None for a
    group without Ray. expected: {addresses: {node: address}, the head first; gpus: {node: how many}}.
    """
    group = _group(nodes, cluster, expected)
    found = [] if cluster is None else _cluster(group)
    for name in group.names:
        found += _node(group, name)
    order = {name: number for number, name in enumerate(group.names)}
    found += sameness.findings(group)
    return [finding.to_dict() for finding in sorted(found, key=lambda finding: order[finding.node])]


def message(found: Iterable[Mapping[str, str]], headline: str = HEADLINE) -> str:
    """One message of what `problems` found; empty where it found nothing."""
    told = [Problem(f"{f['node']}: {f['what']}", f["found"], f["wanted"], f["remedy"]) for f in found]
    return Problems(told).message(headline) if told else ""


def unchecked(
    nodes: Mapping[str, Mapping[str, Any]], cluster: Mapping[str, Any] | None, expected: Mapping[str, Any]
) -> list[str]:
    """What was not checked because there is none of it to check, a sentence each."""
    group = _group(nodes, cluster, expected)
    looked_at = [name for name in group.names if group.looked_at(name)]
    without_gpus = [name for name in looked_at if not group.nodes[name]["gpus"]]
    without_container = [name for name in looked_at if group.container(name) is None]
    said = []
    if without_gpus:
        said.append(f"{', '.join(without_gpus)}: the contract gives no GPUs, so nothing about GPUs was checked")
    if cluster is None:
        said.append("the group does without Ray, so nothing about Ray was checked")
        if without_container:
            names = ", ".join(without_container)
            said.append(
                f"{names}: no container was named, so nothing about containers and what runs in them was checked"
            )
    return said


def _group(
    nodes: Mapping[str, Mapping[str, Any]], cluster: Mapping[str, Any] | None, expected: Mapping[str, Any]
) -> Group:
    counts = {name: int(number) for name, number in (expected.get("gpus") or {}).items()}
    return Group(expected["addresses"], counts, nodes, cluster)


def _cluster(group: Group) -> list[Finding]:
    if gpus.told(group):
        return []
    cluster = group.cluster or {}
    reason = cluster.get("reason") or cluster.get("msg") or "it lists no nodes with their addresses"
    return [not_known(group.head, "nodes of the Ray cluster", reason, "Run 'ray status -v' in the head's container")]


def _node(group: Group, name: str) -> list[Finding]:
    if not group.looked_at(name):
        reason = group.nodes.get(name, {}).get("msg") or "the node was not looked at"
        return [not_known(name, "identity", reason, "See what node_identity_info said on this node")]
    return [
        *_container(group, name),
        *_head(group, name),
        *addresses.findings(group, name),
        *gpus.findings(group, name),
    ]


def _container(group: Group, name: str) -> list[Finding]:
    container = group.container(name)
    if container is None:
        # A group without Ray may have no container yet: then none was asked for on any node.
        if group.cluster is None and not any(group.container(other) for other in group.names):
            return []
        return [not_known(name, "container", "none was named", "Name it in 'container' of node_identity_info")]
    if container["running"]:
        return []
    what, remedy = f"container {container['name']}", f"Run 'docker logs {container['name']}' there"
    if container["exists"] is None:
        return [not_known(name, what, container["error"], "Run 'docker info' there")]
    return [Finding(name, what, container["status"] or "not there", "must be running", remedy)]


def _head(group: Group, name: str) -> list[Finding]:
    """Workers reach the head's port. Nodes of a group without Ray, and the head itself, need not try."""
    facts = group.nodes[name]
    if facts["head_reachable"]:
        return []
    what, remedy = "connection to the head", "See that the head runs, and open that port between the nodes"
    if facts["head_reachable"] is False:
        where = f"{facts['head']['address']}:{facts['head']['port']}"
        return [Finding(name, f"{what} {where}", facts["head_error"], "must be reachable", remedy)]
    if facts["head"] is None and (group.cluster is None or name == group.head):
        return []
    return [not_known(name, what, facts["head_error"] or "it was not tried", remedy)]
