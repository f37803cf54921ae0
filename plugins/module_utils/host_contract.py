# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether one host is as the contract says: judged from what was read there, before anything changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils import vocabulary
from ansible_collections.tandem.vllm.plugins.module_utils.placement import Placement, Replica, Service
from ansible_collections.tandem.vllm.plugins.module_utils.problems import Problems

# Vocabulary files per model path: path below its directory -> SHA-256.
Held = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Listener:
    """Who listens on a TCP port of a host. ours: the very service that Tandem wants there."""

    process: str
    pid: int | None = None
    ours: bool = False


@dataclass(frozen=True)
class HostFacts:
    """What was read on a host.

    addresses: the interface of each. missing: what Tandem needs there and did not find, each with its remedy.
    docker_error: why Docker did not answer.
    image_present: whether tandem_image.ref is among its images. models: per path the parsed config.json, or the reason
    why there is none. listeners: per port. vocabularies: per model path the known vocabulary files below it, path ->
    SHA-256. builds_in: the variables (vocabulary.py) whose vocabulary the image brings itself, of those asked for.
    rdma_devices: whether there are device files for RDMA.
    """

    addresses: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    docker_error: str | None = None
    image_present: bool = False
    models: Mapping[str, Any] = field(default_factory=dict)
    listeners: Mapping[int, Listener] = field(default_factory=dict)
    vocabularies: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    builds_in: Collection[str] = ()
    rdma_devices: bool = False


def judge_node(
    placement: Placement,
    node: str,
    facts: HostFacts,
    image: Mapping[str, Any],
    models_to_come: Collection[str] = (),
    vocabularies_to_come: Held | None = None,
) -> Problems:
    """Problems of a host of tandem_nodes.

    models_to_come: model directories that need not be there yet. vocabularies_to_come: per model path the vocabulary
    files that are sent later.
    """
    problems = Problems()
    _common(problems, node, placement.nodes[node].address, facts)
    if facts.docker_error:
        wanted = "the Docker engine must answer: " + facts.docker_error
        problems.add(f"{node}: docker", "no answer", wanted, "Install it, or 'systemctl start docker' there")
    elif not facts.image_present and not image.get("archive"):
        remedy = "Set tandem_image.archive to a 'docker save' archive on the control node, or load the image there"
        problems.add(f"{node}: tandem_image.ref", image["ref"], "no such image on the node", remedy)
    _rdma(problems, placement, node, facts)
    for service, replica in placement.on_node(node):
        found = facts.models.get(service.model.path)
        if isinstance(found, Mapping) or service.model.path not in models_to_come:
            _model(problems, node, service, replica, found)
        _vocabulary(problems, node, service, facts, vocabularies_to_come or {})
        # A rank group's API is on its first node.
        if replica.nodes[0] == node:
            _port(problems, node, f"tandem_services[{service.name}].port", replica.port, facts)
    return problems


def to_ask_for(placement: Placement, node: str, facts: HostFacts, to_come: Held) -> list[vocabulary.Vocabulary]:
    """Vocabularies that models of a node lack there: the image may bring them itself, and is to be asked."""
    found = [
        vocabulary.family(facts.models.get(service.model.path))
        for service, _replica in placement.on_node(node)
        if _lacks(service, facts, to_come)
    ]
    return [wanted for number, wanted in enumerate(found) if wanted and wanted not in found[:number]]


def model_environments(placement: Placement, node: str, facts: HostFacts, to_come: Held) -> dict[str, dict[str, str]]:
    """Per model path of a node the environment variables that the model's files ask for; other models are left out."""
    paths = {service.model.path for service, _replica in placement.on_node(node)}
    found = {path: vocabulary.environment(path, _held(path, facts, to_come)) for path in sorted(paths)}
    return {path: variables for path, variables in found.items() if variables}


def judge_gateway(name: str, address: str, port: int, facts: HostFacts) -> Problems:
    """Problems of a host of tandem_gateway."""
    problems = Problems()
    _common(problems, name, address, facts)
    _port(problems, name, "tandem_gateway_port", port, facts)
    return problems


def _common(problems: Problems, host: str, address: str, facts: HostFacts) -> None:
    for what, remedy in facts.missing.items():
        problems.add(f"{host}: {what}", "missing", "is needed on this host", remedy)
    if address not in facts.addresses:
        wanted = "is on no interface of this host, which has " + ", ".join(facts.addresses)
        problems.add(f"{host}: tandem_address", address, wanted, "Correct it in host_vars")


def _rdma(problems: Problems, placement: Placement, node: str, facts: HostFacts) -> None:
    needed = placement.network.rdma and placement.nodes[node].gpus and placement.rank_groups(node)
    if needed and not facts.rdma_devices:
        wanted = "the node has no RDMA device: /dev/infiniband holds no uverbs file"
        remedy = "Load the driver of its RDMA network card ('ibv_devices' lists what works), or leave out rdma"
        problems.add(f"{node}: tandem_network.rdma", True, wanted, remedy)


def _port(problems: Problems, host: str, variable: str, port: int, facts: HostFacts) -> None:
    listener = facts.listeners.get(port)
    if listener and not listener.ours:
        who = listener.process + (" (pid %d)" % listener.pid if listener.pid else "")
        problems.add(f"{host}: {variable}", port, f"is taken by {who}", "Stop that process or choose another port")


def _held(path: str, facts: HostFacts, to_come: Held) -> dict[str, str]:
    return {**facts.vocabularies.get(path, {}), **to_come.get(path, {})}


def _lacks(service: Service, facts: HostFacts, to_come: Held) -> list[str]:
    """What a service's model lacks of its vocabulary. Who sets the variable by hand knows where the vocabulary is."""
    path = service.model.path
    wanted = vocabulary.family(facts.models.get(path))
    if wanted is None or wanted.variable in service.environment:
        return []
    return vocabulary.lacking(facts.models.get(path), _held(path, facts, to_come))


def _vocabulary(problems: Problems, node: str, service: Service, facts: HostFacts, to_come: Held) -> None:
    wanted, lacks = vocabulary.family(facts.models.get(service.model.path)), _lacks(service, facts, to_come)
    if wanted is None or not lacks or wanted.variable in facts.builds_in:
        return
    reason = ", and ".join(lacks) + ". vLLM would fetch it from the internet when it starts"
    remedy = (
        f"Put it there (its address: {', '.join(vocabulary.URL + name for name in wanted.files)}), or deploy from a "
        "bundle made with it (docs/bundle.md)"
    )
    if not facts.image_present:
        remedy += ". Or load the image on the node first: newer ones bring the vocabulary, which Tandem then finds out"
    problems.add(f"{node}: tandem_services[{service.name}].model.path", service.model.path, reason, remedy)


def _model(problems: Problems, node: str, service: Service, replica: Replica, found: Any) -> None:
    variable = f"{node}: tandem_services[{service.name}].model.path"
    if not isinstance(found, Mapping):
        remedy = "Put the model directory there: every node needs it under the same path"
        problems.add(variable, service.model.path, str(found or "was not read"), remedy)
        return
    nested = found.get("text_config")
    text = nested if isinstance(nested, Mapping) else found
    heads, tp = text.get("num_attention_heads"), replica.tensor_parallel
    variable = f"{node}: tensor_parallel of replica {replica.name}"
    if not isinstance(heads, int) or heads <= 0:
        return
    sizes = [n for n in range(1, heads + 1) if heads % n == 0]
    if heads % tp:
        wanted = "must divide the model's %d attention heads: one of %s" % (heads, ", ".join(map(str, sizes)))
        problems.add(variable, tp, wanted, "Give the node another number of GPUs with tandem_gpus, or use replicas[]")
        return
    kv = text.get("num_key_value_heads")
    # Models whose layers differ list a number a layer or none: vLLM judges those.
    if isinstance(kv, int) and kv > 0 and kv % tp and tp % kv:
        wanted = "must divide the model's %d key-value heads or be a multiple of them" % kv
        problems.add(variable, tp, wanted, "Give the node another number of GPUs with tandem_gpus, or use replicas[]")
