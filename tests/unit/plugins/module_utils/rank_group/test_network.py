# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.placement import Network, Placement
from ansible_collections.tandem.vllm.plugins.module_utils.rank_group.network import cut, shape, shapes, warnings
from ansible_collections.tandem.vllm.plugins.module_utils.transport.cost import Cut, Model
from ansible_collections.tandem.vllm.tests.unit.plugins.module_utils.rank_group.samples import (
    CHAT,
    GROUP,
    LAB,
    RAY,
    SINGLE,
)

# What decides, of the config.json of models as they are published.
LLAMA = {"model_type": "llama", "hidden_size": 8192, "num_hidden_layers": 80, "torch_dtype": "bfloat16"}
GEMMA = {
    "model_type": "gemma3",
    "text_config": {"hidden_size": 5376, "num_hidden_layers": 62},
    "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27},
    "torch_dtype": "bfloat16",
}
GPT2 = {"model_type": "gpt2", "n_embd": 1600, "n_layer": 48}
CHATGLM = {"model_type": "chatglm", "hidden_size": 4096, "num_layers": 40, "torch_dtype": "float16"}
WIDE = {**LLAMA, "torch_dtype": "float32"}

CROSSING = replace(GROUP, tensor_parallel=8, pipeline_parallel=1)
SLOW = Network(gbit=25.0)


def placed(network: Network, *replicas: Any) -> Placement:
    return replace(RAY, services=(replace(CHAT, replicas=replicas),), network=network)


@pytest.mark.parametrize(
    ("config", "dtype", "wanted"),
    [
        (LLAMA, None, Model(8192, 80, 2)),
        (LLAMA, "auto", Model(8192, 80, 2)),
        (LLAMA, "half", Model(8192, 80, 2)),
        (LLAMA, "float32", Model(8192, 80, 4)),
        (LLAMA, "float", Model(8192, 80, 4)),
        # vLLM takes 16 bit for it.
        (WIDE, None, Model(8192, 80, 2)),
        (GEMMA, None, Model(5376, 62, 2)),
        (GPT2, None, Model(1600, 48, 2)),
        (CHATGLM, None, Model(4096, 40, 2)),
        ({"model_type": "whisper", "d_model": 1280, "num_hidden_layers": 32}, None, Model(1280, 32, 2)),
        ({}, None, None),
        ({"hidden_size": 8192}, None, None),
        ({"hidden_size": 8192, "num_hidden_layers": "80"}, None, None),
        ({"hidden_size": 0, "num_hidden_layers": 80}, None, None),
        ({"hidden_size": None, "n_embd": 1600, "n_layer": 48}, None, Model(1600, 48, 2)),
        ("no such directory on the node", None, None),
        (None, None, None),
    ],
)
def test_shape(config: Any, dtype: str | None, wanted: Model | None) -> None:
    assert shape(config, dtype) == wanted


def test_shapes_of_a_node() -> None:
    assert shapes(RAY, "gpu1", {"/models/big": LLAMA}) == {"/models/big": Model(8192, 80)}
    assert shapes(RAY, "gpu1", {"/models/big": "no such directory on the node"}) == {"/models/big": None}
    assert shapes(RAY, "gpu1", {}) == {"/models/big": None}
    assert shapes(replace(RAY, services=()), "gpu1", {}) == {}
    wide = replace(RAY, services=(replace(CHAT, engine={"dtype": "float32"}),))
    assert shapes(wide, "gpu1", {"/models/big": LLAMA}) == {"/models/big": Model(8192, 80, 4)}


def test_how_a_group_is_cut() -> None:
    assert (cut(GROUP), cut(CROSSING)) == (Cut(4, 2, 2), Cut(8, 1, 2))


def test_the_warning_of_a_slow_network() -> None:
    (said,) = warnings(placed(SLOW, CROSSING), "gpu1", {"/models/big": Model(8192, 80)})
    assert said.startswith(
        "chat-gpu1-x2, as tandem_network has it: TP=8 over 2 nodes at 25 Gbit/s and an assumed 70 us without RDMA: "
        "each token needs 161 all-reduces of 16 KiB"
    )
    assert "as ray-tp-pp.yml does it (TP=4, PP=2)" in said


def test_a_model_that_is_not_there_is_warned_of_without_numbers() -> None:
    (said,) = warnings(placed(SLOW, CROSSING), "gpu1", {"/models/big": None})
    assert "How long that takes is not known" in said


def test_each_node_of_the_lab_has_one_rank() -> None:
    (said,) = warnings(replace(LAB, network=Network(gbit=1.0, latency_us=400.0)), "node1", {"/models/tiny": None})
    assert said.startswith("tiny-node1-x2, as tandem_network has it: TP=2 over 2 nodes at 1 Gbit/s and 400 us without")


@pytest.mark.parametrize(
    ("placement", "node"),
    [
        pytest.param(placed(SLOW, CROSSING, SINGLE), "gpu2", id="not the first node"),
        pytest.param(placed(SLOW, CROSSING, SINGLE), "gpu3", id="a replica on one node"),
        pytest.param(placed(SLOW, GROUP), "gpu1", id="tensor parallel within nodes"),
        pytest.param(placed(Network(), CROSSING), "gpu1", id="nothing stated"),
        pytest.param(placed(Network(rdma=False), CROSSING), "gpu1", id="no speed stated"),
        pytest.param(placed(Network(100.0, rdma=True), CROSSING), "gpu1", id="a fast network"),
    ],
)
def test_no_warning(placement: Placement, node: str) -> None:
    assert warnings(placement, node, {"/models/big": Model(8192, 80)}) == []
