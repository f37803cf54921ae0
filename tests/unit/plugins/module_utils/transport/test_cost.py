# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.placement import Network
from ansible_collections.tandem.vllm.plugins.module_utils.transport.cost import (
    Cut,
    Link,
    Model,
    measured,
    pipeline_parallel,
    problems,
    read,
    stated,
    tensor_parallel,
    warning,
)

# A 70B model: hidden size, layers.
LARGE = Model(8192, 80)
LINKS = {
    "1 GbE": Link(0.88, 400, False),
    "10 GbE": Link(8.8, 100, False),
    "25 GbE": Link(20.8, 70, False),
    "100 Gb RDMA": Link(88, 25, True),
}


@pytest.mark.parametrize(
    ("link", "tokens", "tensor_ms", "pipeline_ms"),
    [
        ("1 GbE", 1, 88, 0.698),
        ("1 GbE", 2048, 49176, 610.5),
        ("10 GbE", 1, 18.5, 0.1298),
        ("10 GbE", 32, 93, 1.053),
        ("25 GbE", 1, 12.3, 0.0826),
        ("25 GbE", 2048, 2089, 25.88),
        ("100 Gb RDMA", 32, 11.7, 0.1203),
        ("100 Gb RDMA", 256, 65.4, 0.788),
    ],
)
def test_a_large_model_on_two_machines(link: str, tokens: int, tensor_ms: float, pipeline_ms: float) -> None:
    tensor = tensor_parallel(LARGE, 2, LINKS[link], tokens)
    pipeline = pipeline_parallel(LARGE, 2, LINKS[link], tokens)
    assert (tensor.messages, tensor.size) == (161, tokens * 16384)
    assert (pipeline.messages, pipeline.size) == (1, tokens * 32768)
    assert tensor.milliseconds == pytest.approx(tensor_ms, rel=0.005)
    assert pipeline.milliseconds == pytest.approx(pipeline_ms, rel=0.001)


def test_more_ranks_send_more() -> None:
    # 2 (n - 1) / n of the message: 1.75 times for eight ranks, over a link with no latency.
    link = Link(16.0, 0, False)
    assert tensor_parallel(LARGE, 8, link).milliseconds == pytest.approx(
        1.75 * tensor_parallel(LARGE, 2, link).milliseconds
    )
    assert pipeline_parallel(LARGE, 4, link).messages == 3


def test_an_element_of_four_bytes_is_twice_as_much() -> None:
    assert tensor_parallel(Model(8192, 80, 4), 2, LINKS["1 GbE"]).size == 32768


TP8 = Cut(8, 1, 2)


@pytest.mark.parametrize(
    ("cut", "each", "nodes"),
    [
        (Cut(8, 1, 2), 4, 2),
        (Cut(4, 2, 2), 4, 1),
        (Cut(2, 4, 2), 4, 1),
        (Cut(16, 1, 4), 4, 4),
        (Cut(8, 2, 4), 4, 2),
        (Cut(4, 4, 4), 4, 1),
        # Stages that end within a node: the second of them has ranks on both.
        (Cut(4, 3, 2), 6, 2),
        (Cut(2, 6, 3), 4, 1),
        # The lab, with one rank a node.
        (Cut(2, 1, 2), 1, 2),
        (Cut(1, 2, 2), 1, 1),
    ],
)
def test_how_many_nodes_a_layer_is_cut_over(cut: Cut, each: int, nodes: int) -> None:
    assert (cut.ranks_of_a_node, cut.nodes_of_a_layer) == (each, nodes)


def test_the_warning_has_the_numbers() -> None:
    assert warning(LARGE, TP8, LINKS["25 GbE"]) == (
        "TP=8 over 2 nodes at 20.8 Gbit/s and 70 us without RDMA: each token needs 161 all-reduces of 16 KiB over the "
        "network, at least 13.0 ms a token, and 3647 ms for 2048 tokens of a prompt. Pipeline parallel over the same "
        "nodes, as ray-tp-pp.yml does it (TP=4, PP=2), needs 1 message of 32 KiB a token, 0.08 ms, and 25.9 ms for the "
        "prompt."
    )


def test_a_small_model_over_a_throttled_link() -> None:
    said = warning(Model(256, 4), Cut(3, 1, 3), Link(0.929, 2825, False))
    assert said is not None
    assert said.startswith("TP=3 over 3 nodes at 0.929 Gbit/s and 2825 us without RDMA: ")
    assert "9 all-reduces of 512 B over the network, at least 25.5 ms a token" in said
    assert "(TP=1, PP=3), needs 2 messages of 1 KiB a token, 5.7 ms" in said


def test_stages_over_several_nodes_each() -> None:
    said = warning(LARGE, Cut(8, 2, 4), LINKS["25 GbE"])
    assert said is not None
    assert said.startswith("TP=8 over 2 nodes at ")
    assert "(TP=4, PP=4), needs 3 messages of 32 KiB a token, 0.25 ms" in said


def test_a_model_that_is_not_known() -> None:
    assert warning(None, TP8, Link(25, 70, False, assumed=True)) == (
        "TP=8 over 2 nodes at 25 Gbit/s and an assumed 70 us without RDMA: each layer of each token sends over the "
        "network. How long that takes is not known, as no config.json here tells the model's hidden size and number of "
        "layers. Pipeline parallel over the same nodes, as ray-tp-pp.yml does it (TP=4, PP=2), sends once from each "
        "node to the next."
    )


@pytest.mark.parametrize("model", [LARGE, None])
@pytest.mark.parametrize(
    ("gbit", "rdma", "cut", "warns"),
    [
        (88, True, TP8, False),
        (79, True, TP8, True),
        (88, False, TP8, True),
        (380, True, TP8, False),
        (0.9, False, Cut(4, 2, 2), False),
        (0.9, False, Cut(8, 2, 4), True),
    ],
)
def test_when_there_is_a_warning(model: Model | None, gbit: float, rdma: bool, cut: Cut, warns: bool) -> None:
    assert (warning(model, cut, Link(gbit, 25, rdma)) is not None) is warns


@pytest.mark.parametrize(
    ("network", "link"),
    [
        (Network(), None),
        (Network(latency_us=70.0, rdma=True), None),
        (Network(gbit=25.0), Link(25.0, 70.0, False, assumed=True)),
        (Network(gbit=25.0, rdma=False), Link(25.0, 70.0, False, assumed=True)),
        (Network(gbit=100.0, rdma=True), Link(100.0, 25.0, True, assumed=True)),
        (Network(1.0, 400.0, False), Link(1.0, 400.0, False)),
    ],
)
def test_the_link_that_the_contract_states(network: Network, link: Link | None) -> None:
    assert stated(network) == link


COST = {
    "hidden_size": 8192,
    "layers": 80,
    "element_bytes": 2,
    "tensor_parallel": 8,
    "pipeline_parallel": 1,
    "nodes": 2,
}


def test_what_a_module_is_told() -> None:
    assert read(COST) == (LARGE, TP8)
    assert problems(COST).found == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"layers": 0}, "cost.layers = 0: must be a whole number above zero"),
        ({"nodes": 0}, "cost.nodes = 0: must be a whole number above zero"),
        ({"nodes": 3}, "cost.nodes = 3: must be as many ranks on each node"),
    ],
)
def test_what_a_module_may_not_be_told(more: dict[str, Any], said: str) -> None:
    (problem,) = problems({**COST, **more}).found
    assert str(problem).startswith(said)


@pytest.mark.parametrize(("transport", "rdma"), [("NET/IB", True), ("NET/Socket", False), ("gloo/tcp", False)])
def test_the_link_that_a_proof_measured(transport: str, rdma: bool) -> None:
    assert measured({"bus_gbit": 14.755, "latency_us": 60.0, "transport": transport}) == Link(14.755, 60.0, rdma)
