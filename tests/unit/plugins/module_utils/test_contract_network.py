# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an inventory states of the network between the nodes: what the contract makes of it, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.contract import Contract, read_contract
from ansible_collections.tandem.vllm.plugins.module_utils.placement import Network
from ansible_collections.tandem.vllm.plugins.module_utils.problems import Problem
from ansible_collections.tandem.vllm.tests.unit.plugins.module_utils.contracts import LAB, SITE, found, put

KEYS = "gbit, latency_us, minimum_gbit, rdma"
ABOVE_ZERO = "must be a number above zero"
CORRECT = "Correct the value in the inventory"
FLOOR = "State what the measured bandwidth has to reach, or leave it out"


@pytest.mark.parametrize("base", [replace(SITE, topology="ray_tp"), SITE, LAB], ids=["ray_tp", "dual_replica", "lab"])
@pytest.mark.parametrize(
    ("stated", "network"),
    [
        (None, Network()),
        ({}, Network()),
        ({"gbit": 25}, Network(gbit=25.0)),
        ({"gbit": 0.5, "latency_us": 400}, Network(0.5, 400.0)),
        ({"rdma": True}, Network(rdma=True)),
        ({"rdma": False}, Network(rdma=False)),
        ({"minimum_gbit": 15}, Network(minimum_gbit=15.0)),
        ({"gbit": 100, "latency_us": 25.5, "rdma": True, "minimum_gbit": 80}, Network(100.0, 25.5, True, 80.0)),
        ({"gbit": 25, "latency_us": None, "rdma": None, "minimum_gbit": None}, Network(gbit=25.0)),
    ],
)
def test_what_is_stated(base: Contract, stated: Any, network: Network) -> None:
    placement, problems = read_contract(replace(base, network=stated))
    assert [str(problem) for problem in problems.found] == []
    assert placement
    assert placement.network == network


def test_a_number_is_the_same_however_it_is_written() -> None:
    whole, decimal = (read_contract(replace(SITE, network={"gbit": value}))[0] for value in (25, 25.0))
    assert whole
    assert repr(whole) == repr(decimal)


def one(key: str, value: Any, wanted: str) -> Any:
    problem = Problem(f"tandem_network.{key}", repr(value), wanted, CORRECT)
    return pytest.param({key: value}, problem, id=f"{key} {value!r}")


@pytest.mark.parametrize(
    ("stated", "problem"),
    [
        one("gbit", 0, ABOVE_ZERO),
        one("gbit", -25, ABOVE_ZERO),
        one("gbit", "25", ABOVE_ZERO),
        one("gbit", True, ABOVE_ZERO),
        one("latency_us", 0, ABOVE_ZERO),
        one("latency_us", "70 us", ABOVE_ZERO),
        one("minimum_gbit", 0.0, ABOVE_ZERO),
        one("rdma", "yes", "must be true or false"),
        one("rdma", 1, "must be true or false"),
        (
            25,
            Problem("tandem_network", "25", f"must be a mapping with the keys {KEYS}", "Write it as key: value"),
        ),
        (
            {"gbits": 25},
            Problem("tandem_network.gbits", "25", f"unknown key; allowed are {KEYS}", "Did you mean 'gbit'?"),
        ),
        (
            {"gbit": 25, "minimum_gbit": 25},
            Problem(
                "tandem_network.minimum_gbit",
                "25",
                "must be less than gbit, which is 25: no link reaches its nominal speed",
                FLOOR,
            ),
        ),
        (
            {"gbit": 10, "minimum_gbit": 80.5},
            Problem(
                "tandem_network.minimum_gbit",
                "80.5",
                "must be less than gbit, which is 10: no link reaches its nominal speed",
                FLOOR,
            ),
        ),
    ],
)
def test_what_is_refused(stated: Any, problem: Problem) -> None:
    assert found(replace(SITE, network=stated)) == [problem]


def test_all_that_is_wrong_is_told() -> None:
    wrong = found(replace(SITE, network={"gbit": 0, "latency_us": -1, "rdma": "on", "minimum_gbit": 0}))
    assert [problem.variable.partition(".")[2] for problem in wrong] == ["gbit", "latency_us", "rdma", "minimum_gbit"]


@pytest.mark.parametrize(
    ("network", "refused"),
    [(None, False), ({"gbit": 25}, False), ({"rdma": None}, False), ({"rdma": True}, True), ({"rdma": False}, True)],
)
def test_who_says_whether_nccl_may_use_rdma(network: Any, refused: bool) -> None:
    contract = put("services.0.environment", {"NCCL_IB_DISABLE": 1})(replace(SITE, network=network))
    wanted = "cannot be set here: it follows from tandem_network.rdma"
    problem = Problem("tandem_services[0].environment.NCCL_IB_DISABLE", "(hidden)", wanted, "Remove it")
    assert found(contract) == ([problem] if refused else [])
