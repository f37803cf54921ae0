# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.tandem.vllm.plugins.filter.node_identity import FilterModule

FILTERS = FilterModule().filters()
FIXTURES = Path(__file__).parents[3] / "fixtures/identity"
EXPECTED = {"addresses": {"node1": "10.89.70.11", "node2": "10.89.70.12"}, "gpus": {"node1": 1, "node2": 1}}


def facts(name: str) -> Any:
    return json.loads((FIXTURES / name).read_text())


def nodes(second: str) -> dict[str, Any]:
    return {"node1": facts("node1.txt"), "node2": facts(second)}


def test_all_is_well() -> None:
    right, cluster = nodes("node2.txt"), facts("cluster.txt")
    found = FILTERS["rank_group_problems"](right, cluster, EXPECTED)
    assert found == []
    assert FILTERS["rank_group_message"](found) == ""
    said = FILTERS["rank_group_unchecked"](right, cluster, EXPECTED)
    assert said == ["node1, node2: the contract gives no GPUs, so nothing about GPUs was checked"]


def test_problems() -> None:
    found = FILTERS["rank_group_problems"](nodes("node2-wrong-address.txt"), facts("cluster.txt"), EXPECTED)
    assert {problem["node"] for problem in found} == {"node2"}
    assert "address that Ray advertises" in [problem["what"] for problem in found]
    assert FILTERS["rank_group_message"](found).startswith("The nodes of the rank group are not what they should be:\n")
    assert FILTERS["rank_group_message"](found[:1], "No").startswith("No: node2: VLLM_HOST_IP = 10.89.70.11, as on")


def test_without_ray() -> None:
    assert FILTERS["rank_group_problems"](nodes("node2.txt"), None, EXPECTED) == []


@pytest.mark.parametrize("expected", [{}, {"addresses": {}}, [], None])
@pytest.mark.parametrize("name", ["rank_group_problems", "rank_group_unchecked"])
def test_nothing_to_compare_with_is_no_pass(name: str, expected: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="expected must be"):
        FILTERS[name](nodes("node2.txt"), None, expected)
