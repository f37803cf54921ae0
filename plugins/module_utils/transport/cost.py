# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What it costs to cut a model across machines: expected time on the network for each step of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.placement import Network
from ansible_collections.tandem.vllm.plugins.module_utils.problems import Problems
from ansible_collections.tandem.vllm.plugins.module_utils.transport.told import ring_share
from ansible_collections.tandem.vllm.plugins.module_utils.transport.verdict import is_rdma

# Slower than this, or without RDMA, tensor parallelism across machines loses several times what it brings. A link of
# 100 Gbit/s reaches about 88.
FAST_GBIT = 80.0
PREFILL_TOKENS = 2048
# Of a small all-reduce between two machines, where nobody stated or measured it.
RDMA_LATENCY_US, TCP_LATENCY_US = 25.0, 70.0


@dataclass(frozen=True)
class Model:
    """What of a model decides its messages. element_bytes: of an activation, 2 for bf16."""

    hidden_size: int
    layers: int
    element_bytes: int = 2

    def activations(self, tokens: int) -> int:
        """Bytes of one layer's activations."""
        return tokens * self.hidden_size * self.element_bytes


@dataclass(frozen=True)
class Cut:
    """How a model is cut over a group's nodes, of which each has as many ranks."""

    tensor_parallel: int
    pipeline_parallel: int
    nodes: int

    @property
    def ranks_of_a_node(self) -> int:
        """Ranks on each node."""
        return self.tensor_parallel * self.pipeline_parallel // self.nodes

    @property
    def nodes_of_a_layer(self) -> int:
        """The most nodes that one layer is cut over. Ranks of a stage follow one another, node by node."""
        firsts = range(0, self.tensor_parallel * self.pipeline_parallel, self.tensor_parallel)
        each, last = self.ranks_of_a_node, self.tensor_parallel - 1
        return max((first + last) // each - first // each + 1 for first in firsts)


@dataclass(frozen=True)
class Link:
    """The way between two machines. gbit: bus bandwidth; latency_us: of a small all-reduce; rdma.

    assumed: the latency is neither measured nor stated.
    """

    gbit: float
    latency_us: float
    rdma: bool
    assumed: bool = False

    def seconds(self, size: float) -> float:
        """Time of one message of so many bytes."""
        return self.latency_us / 1e6 + size * 8 / (self.gbit * 1e9)

    def is_fast(self) -> bool:
        """Whether tensor parallelism over it is reasonable."""
        return self.rdma and self.gbit >= FAST_GBIT

    def __str__(self) -> str:
        latency = f"{'an assumed ' if self.assumed else ''}{self.latency_us:.0f} us"
        return f"{self.gbit:.3g} Gbit/s and {latency}{'' if self.rdma else ' without RDMA'}"


@dataclass(frozen=True)
class Cost:
    """Messages of a step over the network. size: bytes of each; milliseconds: of all together, at least."""

    messages: int
    size: int
    milliseconds: float


def measured(result: Mapping[str, Any]) -> Link:
    """The link that a result of all_reduce_proof with figures tells of."""
    return Link(float(result["bus_gbit"]), float(result["latency_us"]), is_rdma(str(result["transport"])))


def stated(network: Network) -> Link | None:
    """The link that the inventory tells of, at its nominal speed, which it will not quite reach; None: of none."""
    if network.gbit is None:
        return None
    rdma = network.rdma is True
    assumed = network.latency_us is None
    latency = (RDMA_LATENCY_US if rdma else TCP_LATENCY_US) if network.latency_us is None else network.latency_us
    return Link(network.gbit, latency, rdma, assumed)


def read(params: Mapping[str, Any]) -> tuple[Model, Cut]:
    """The model and its cut that a module's parameters tell of; see `problems` for whether they make sense."""
    model = Model(params["hidden_size"], params["layers"], params["element_bytes"])
    return model, Cut(params["tensor_parallel"], params["pipeline_parallel"], params["nodes"])


def problems(params: Mapping[str, Any]) -> Problems:
    """What is wrong with these parameters."""
    found = Problems()
    for name, value in params.items():
        found.kind(f"cost.{name}", value, "positive integer", "Correct the value")
    if not found.found and params["tensor_parallel"] * params["pipeline_parallel"] % params["nodes"]:
        wanted = "must be as many ranks on each node: tensor_parallel times pipeline_parallel, divided by nodes"
        found.add("cost.nodes", params["nodes"], wanted, "Correct the value")
    return found


def tensor_parallel(model: Model, ranks: int, link: Link, tokens: int = 1) -> Cost:
    """Two all-reduces a layer and one of the embedding, each a ring through all ranks. tokens: in the step."""
    size = model.activations(tokens)
    messages = 2 * model.layers + 1
    return Cost(messages, size, messages * link.seconds(size * ring_share(ranks)) * 1e3)


def pipeline_parallel(model: Model, stages: int, link: Link, tokens: int = 1) -> Cost:
    """Hidden state and residual, once from each stage to the next."""
    size = 2 * model.activations(tokens)
    return Cost(stages - 1, size, (stages - 1) * link.seconds(size) * 1e3)


def warning(model: Model | None, cut: Cut, link: Link) -> str | None:
    """What it costs that layers are cut over nodes, in words with numbers; None over a fast link, and if none is.

    model: None where it is not known.
    """
    if cut.nodes_of_a_layer == 1 or link.is_fast():
        return None
    said = _numbers(model, cut, link) if model else _no_numbers(cut)
    return f"TP={cut.tensor_parallel} over {cut.nodes_of_a_layer} nodes at {link}: {said}"


def _no_numbers(cut: Cut) -> str:
    return (
        "each layer of each token sends over the network. How long that takes is not known, as no config.json here "
        "tells the model's hidden size and number of layers. Pipeline parallel over the same nodes, as ray-tp-pp.yml "
        f"does it ({_pipelined(cut)}), sends once from each node to the next."
    )


def _numbers(model: Model, cut: Cut, link: Link) -> str:
    token, prompt = (tensor_parallel(model, cut.tensor_parallel, link, tokens) for tokens in (1, PREFILL_TOKENS))
    hop, hops = (pipeline_parallel(model, cut.nodes, link, tokens) for tokens in (1, PREFILL_TOKENS))
    return (
        f"each token needs {token.messages} all-reduces of {_bytes(token.size)} over the network, at least "
        f"{_ms(token)} a token, and {_ms(prompt)} for {PREFILL_TOKENS} tokens of a prompt. Pipeline parallel over the "
        f"same nodes, as ray-tp-pp.yml does it ({_pipelined(cut)}), needs {hop.messages} "
        f"{'message' if hop.messages == 1 else 'messages'} of {_bytes(hop.size)} a token, {_ms(hop)}, and {_ms(hops)} "
        "for the prompt."
    )


def _pipelined(cut: Cut) -> str:
    return f"TP={cut.ranks_of_a_node}, PP={cut.nodes}"


def _bytes(size: int) -> str:
    return f"{size / 1024:.3g} KiB" if size >= 1024 else f"{size} B"


def _ms(cost: Cost) -> str:
    value = cost.milliseconds
    return f"{value:.0f} ms" if value >= 100 else f"{value:.1f} ms" if value >= 1 else f"{value:.2f} ms"
