# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.rank_group.keeper import configurations
from ansible_collections.tandem.vllm.plugins.module_utils.rank_group.ray_start import gate_argv
from ansible_collections.tandem.vllm.tests.unit.plugins.module_utils.rank_group.samples import LAB, RAY, WITHOUT_RAY

ADDRESSES = ["10.0.0.1", "10.0.0.2"]
COMMON = {
    "group": "chat-gpu1-x2",
    "addresses": ADDRESSES,
    "port": 6389,
    "silence_s": 4.0,
    "start_limit_s": 1800.0,
    "firewall": {"tcp": ["6379:6391", "10002:10999", "11000:11099"], "udp": ["6389"]},
}
FOLLOWS: dict[str, Any] = {"rank": 1, "listening": None, "gate": None, "engine": None, "health": None}


def test_with_ray_on_the_first_node() -> None:
    assert configurations(RAY, "gpu1", 4.0, 1800.0) == [
        {
            **COMMON,
            "rank": 0,
            "member": "tandem-chat-gpu1-x2.ray",
            "listening": ["10.0.0.1", 6379],
            "gate": gate_argv("tandem-chat-gpu1-x2.ray", ADDRESSES, 8),
            "engine": "tandem-chat-gpu1-x2",
            "health": "http://10.0.0.1:8100/health",
        }
    ]


def test_with_ray_on_the_other_node() -> None:
    assert configurations(RAY, "gpu2", 4.0, 1800.0) == [{**COMMON, **FOLLOWS, "member": "tandem-chat-gpu1-x2.ray"}]


def test_without_ray_on_the_first_node() -> None:
    """The engine is the member: nothing is waited for, as the ranks find each other."""
    assert configurations(WITHOUT_RAY, "gpu1", 4.0, 1800.0) == [
        {
            **COMMON,
            "rank": 0,
            "member": "tandem-chat-gpu1-x2",
            "listening": None,
            "gate": None,
            "engine": None,
            "health": "http://10.0.0.1:8100/health",
        }
    ]


def test_without_ray_on_the_other_node() -> None:
    assert configurations(WITHOUT_RAY, "gpu2", 4.0, 1800.0) == [{**COMMON, **FOLLOWS, "member": "tandem-chat-gpu1-x2"}]


def test_each_node_of_a_lab_counts_as_a_gpu() -> None:
    (configuration,) = configurations(LAB, "node1", 4.0, 60.0)
    assert configuration["gate"] == gate_argv("tandem-tiny-node1-x2.ray", ["10.0.1.1", "10.0.1.2"], 2)


@pytest.mark.parametrize("node", ["gpu3", "gpu9"])
def test_a_node_without_a_rank_has_nothing_to_keep(node: str) -> None:
    assert configurations(RAY, node, 4.0, 1800.0) == []


@pytest.mark.parametrize("node", ["gpu1", "gpu2"])
def test_a_configuration_can_be_written(node: str) -> None:
    told = configurations(RAY, node, 4.0, 1800.0)
    assert json.loads(json.dumps(told)) == told
