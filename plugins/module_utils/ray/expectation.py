# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cluster should be, and what of it is not there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.problems import Problems
from ansible_collections.tandem.vllm.plugins.module_utils.ray.values import count

KEYS = ("nodes", "gpus_per_node", "free_gpus", "addresses", "version")
PER_NODE = "per-node figures are needed: give nodes_text of `ray list nodes --format json`, or `ray status -v`"


@dataclass(frozen=True)
class Expectation:
    """nodes: how many; gpus: by address; gpus_each: on every node; addresses: of the nodes; version: of Ray.

    free_gpus: how many in all nothing uses or has reserved.
    """

    nodes: int | None = None
    gpus: Mapping[str, int] = field(default_factory=dict)
    gpus_each: int | None = None
    addresses: tuple[str, ...] = ()
    version: str | None = None
    free_gpus: int | None = None

    def least_nodes(self) -> int:
        """How many nodes there must be at least."""
        return max(self.nodes or 0, len(self.addresses))

    def wanted_gpus(self, address: str | None) -> int | None:
        """How many GPUs a node should have; None where nothing is asked of it."""
        return self.gpus.get(address or "", self.gpus_each)


def read(given: Mapping[str, Any], problems: Problems) -> Expectation:
    """The option `expect`; what is wrong with it goes to `problems`."""
    if not problems.mapping("expect", given, KEYS):
        return Expectation()
    nodes, gpus = _whole(given, "nodes", 1, problems), given.get("gpus_per_node")
    each, by_address = None, {}
    if isinstance(gpus, Mapping):
        for address, number in gpus.items():
            value = _whole({"n": number}, "n", 0, problems, f"expect.gpus_per_node.{address}")
            if value is not None:
                by_address[str(address)] = value
    else:
        each = _whole(given, "gpus_per_node", 0, problems)
    addresses = given.get("addresses")
    if addresses is not None and not (isinstance(addresses, list) and all(isinstance(a, str) for a in addresses)):
        problems.add("expect.addresses", addresses, "must be a list of addresses", "Write ['10.0.0.1', '10.0.0.2']")
        addresses = None
    version = given.get("version")
    # YAML reads 2.6 as a number, and so may have lost a zero.
    if version is not None and not isinstance(version, str):
        problems.add("expect.version", version, "must be a text such as '2.49.1'", "Write it in quotes")
        version = None
    # Addresses in the map of GPUs are nodes that must be there.
    names = tuple(dict.fromkeys([*(addresses or []), *by_address]))
    return Expectation(nodes, by_address, each, names, version, _whole(given, "free_gpus", 0, problems))


def _whole(given: Mapping[str, Any], key: str, least: int, problems: Problems, name: str = "") -> int | None:
    value = given.get(key)
    if value is None:
        return None
    # Templates of free-form mappings hand numbers over as texts.
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if isinstance(number, int) and not isinstance(number, bool) and number >= least:
        return number
    problems.add(name or f"expect.{key}", value, f"must be a whole number from {least}", "Correct the value")
    return None


@dataclass
class Shortfall:
    """What lacks, in words; addresses that are missing; hopeless: what no waiting brings."""

    words: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    hopeless: list[str] = field(default_factory=list)


def compare(expected: Expectation, facts: Mapping[str, Any]) -> Shortfall:
    """What of the expectation the facts of `cluster.facts` do not show."""
    short = Shortfall()
    alive = facts["alive"]
    nodes = [node for node in facts["node_list"] if node["alive"]]
    _addresses(expected, facts, nodes, short)
    lacking = expected.least_nodes() - (alive or 0) - len(short.addresses)
    if alive is None and expected.least_nodes():
        short.words.append("the number of nodes cannot be told from the text")
    elif lacking > 0:
        verb = "are alive" if facts["complete"] else "are in the text, which is cut off"
        short.words.append(f"{alive} of {expected.least_nodes()} nodes {verb}")
    _gpus(expected, facts, nodes, short)
    _free_gpus(expected, facts, short)
    version = facts["ray_version"]
    if expected.version is not None and version is None:
        short.words.append(f"whether Ray is {expected.version} cannot be told from a text")
    elif expected.version is not None and version != expected.version:
        short.hopeless.append(f"Ray is {version}, expected {expected.version}")
    return short


def _addresses(expected: Expectation, facts: Mapping[str, Any], nodes: list[dict[str, Any]], short: Shortfall) -> None:
    if not expected.addresses:
        return
    if facts["rows_in_text"] is None and not any(node["ip"] for node in facts["node_list"]):
        if facts["alive"] is not None:
            short.words.append(f"whether {_listed(expected.addresses)} are among them cannot be told; {PER_NODE}")
        return
    there = {node["ip"] for node in nodes}
    dead = {node["ip"]: node for node in facts["node_list"] if not node["alive"]}
    for address in expected.addresses:
        if address in there:
            continue
        if address not in dead and not facts["complete"]:
            short.words.append(f"node {address} is not in the text, which is cut off")
            continue
        short.addresses.append(address)
        if address in dead:
            message = dead[address]["state_message"]
            short.words.append(f"node {address} is dead" + (f": {message.rstrip('.')}" if message else ""))
        else:
            short.words.append(f"node {address} is missing")


def _gpus(expected: Expectation, facts: Mapping[str, Any], nodes: list[dict[str, Any]], short: Shortfall) -> None:
    if expected.gpus_each is None and not expected.gpus:
        return
    known = [node for node in nodes if node["GPU"] is not None]
    for node in known:
        wanted = expected.wanted_gpus(node["ip"])
        # Other work may have nodes of its own in the cluster.
        ours = not expected.addresses or node["ip"] in expected.addresses
        if ours and wanted is not None and node["GPU"] != wanted:
            name = node["ip"] or node["node_id"] or "a node"
            short.hopeless.append(f"node {name} has {_gpu_count(node['GPU'])} in Ray, expected {wanted}")
    if known or facts["gpu_total"] is None:
        return
    least = sum(expected.gpus.values()) or (expected.gpus_each or 0) * max(expected.least_nodes(), facts["alive"] or 0)
    if facts["gpu_total"] < least:
        short.words.append(f"the cluster has {_gpu_count(facts['gpu_total'])}, expected {least}")
    else:
        short.words.append(f"{_gpu_count(facts['gpu_total'])} in all do not tell which node has them; {PER_NODE}")


def _free_gpus(expected: Expectation, facts: Mapping[str, Any], short: Shortfall) -> None:
    free = facts["gpu_free_for_new_pg"]
    if expected.free_gpus is None or facts["alive"] is None:
        return
    if free is None:
        short.words.append("how many GPUs are free cannot be told")
    elif free < expected.free_gpus:
        # An engine's placement group goes shortly after the engine; one that somebody holds does not.
        held = facts["resources"]["GPU"]["pg_reserved"] if "GPU" in (facts["resources"] or {}) else 0
        by = f", a placement group holds {count(held)}" if held else ""
        short.words.append(f"{_gpu_count(free)} free, expected {expected.free_gpus}{by}")


def _gpu_count(number: float) -> str:
    return f"{count(number)} GPU" + ("" if number == 1 else "s")


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]
