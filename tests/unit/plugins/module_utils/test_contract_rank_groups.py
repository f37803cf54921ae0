# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replicas over several nodes: what the contract makes of them, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.contract import Contract, read_contract
from ansible_collections.tandem.vllm.plugins.module_utils.placement import Placement, Replica
from ansible_collections.tandem.vllm.plugins.module_utils.problems import Problem
from ansible_collections.tandem.vllm.tests.unit.plugins.module_utils.contracts import (
    LAB,
    SECRETS,
    SITE,
    Change,
    found,
    put,
    replicas,
    set_,
)

TP = replace(SITE, topology="ray_tp")
TP_PP = replace(SITE, topology="ray_tp_pp")
MORE = [{"name": f"gpu{n}", "address": f"192.168.1.1{n}", "gpus": {"count": 4}} for n in (3, 4)]
FOUR_NAMES = ("gpu1", "gpu2", "gpu3", "gpu4")
FOUR = replace(SITE, nodes=[*SITE.nodes, *MORE], inventory_hosts=[*FOUR_NAMES, "backup"])
FOUR_TP = replace(FOUR, topology="ray_tp")
FOUR_TP_PP = replace(FOUR, topology="ray_tp_pp")
LAB_TP = replace(LAB, topology="ray_tp")
BOTH = ("gpu1", "gpu2")

RIGHT: list[Any] = [
    pytest.param(
        LAB_TP, [Replica("chat-node1-x2", ("node1", "node2"), 2, 1, "ray", 8000)], id="ray_tp on two nodes of the lab"
    ),
    pytest.param(
        replace(LAB, topology="ray_tp_pp"),
        [Replica("chat-node1-x2", ("node1", "node2"), 1, 2, "ray", 8000)],
        id="ray_tp_pp on two nodes of the lab",
    ),
    pytest.param(TP, [Replica("chat-gpu1-x2", BOTH, 8, 1, "ray", 8000)], id="ray_tp on two nodes"),
    pytest.param(TP_PP, [Replica("chat-gpu1-x2", BOTH, 4, 2, "ray", 8000)], id="ray_tp_pp on two nodes"),
    pytest.param(FOUR_TP, [Replica("chat-gpu1-x4", FOUR_NAMES, 16, 1, "ray", 8000)], id="ray_tp on four nodes"),
    pytest.param(FOUR_TP_PP, [Replica("chat-gpu1-x4", FOUR_NAMES, 4, 4, "ray", 8000)], id="ray_tp_pp on four nodes"),
    pytest.param(
        replace(FOUR_TP, nodes_per_replica=2),
        [
            Replica("chat-gpu1-x2", BOTH, 8, 1, "ray", 8000),
            Replica("chat-gpu3-x2", ("gpu3", "gpu4"), 8, 1, "ray", 8000),
        ],
        id="ray_tp, two of four nodes each",
    ),
    pytest.param(
        replace(FOUR_TP_PP, nodes_per_replica=2),
        [
            Replica("chat-gpu1-x2", BOTH, 4, 2, "ray", 8000),
            Replica("chat-gpu3-x2", ("gpu3", "gpu4"), 4, 2, "ray", 8000),
        ],
        id="ray_tp_pp, two of four nodes each",
    ),
    pytest.param(
        replace(FOUR_TP, nodes_per_replica=4),
        [Replica("chat-gpu1-x4", FOUR_NAMES, 16, 1, "ray", 8000)],
        id="as many a replica as there are",
    ),
    pytest.param(replace(TP_PP, executor="mp"), [Replica("chat-gpu1-x2", BOTH, 4, 2, "mp", 8000)], id="without Ray"),
    pytest.param(
        replace(TP, executor="ray"), [Replica("chat-gpu1-x2", BOTH, 8, 1, "ray", 8000)], id="with Ray, as stated"
    ),
    pytest.param(
        put("services.0.port", 8100)(TP), [Replica("chat-gpu1-x2", BOTH, 8, 1, "ray", 8100)], id="the service's port"
    ),
    pytest.param(
        put("nodes.1.gpus", {"ids": ["GPU-a", "GPU-b", "GPU-c", "GPU-d"]})(TP),
        [Replica("chat-gpu1-x2", BOTH, 8, 1, "ray", 8000)],
        id="GPUs by index on one node and by UUID on the other",
    ),
    pytest.param(
        replicas(
            {"nodes": ["gpu1", "gpu2"], "tensor_parallel": 4, "pipeline_parallel": 2},
            {"nodes": ["gpu3"], "tensor_parallel": 4},
        )(FOUR),
        [
            Replica("chat-gpu1-x2", BOTH, 4, 2, "ray", 8000),
            Replica("chat-gpu3", ("gpu3",), 4, 1, "mp", 8000, ("0", "1", "2", "3")),
        ],
        id="by hand, beside a replica on one node",
    ),
    pytest.param(
        replicas(
            {"nodes": ["gpu2", "gpu1"], "name": "front", "tensor_parallel": 8, "executor": "mp", "port": 8001},
            {"nodes": ["gpu4", "gpu3"], "tensor_parallel": 2, "pipeline_parallel": 4},
        )(FOUR_TP),
        [
            Replica("front", ("gpu2", "gpu1"), 8, 1, "mp", 8001),
            Replica("chat-gpu4-x2", ("gpu4", "gpu3"), 2, 4, "ray", 8000),
        ],
        id="by hand, in an order and with executors of their own",
    ),
    # How a service is spread that names its replicas is not asked.
    pytest.param(
        replicas({"nodes": ["gpu1"], "tensor_parallel": 4})(replace(TP, nodes=SITE.nodes[:1])),
        [Replica("chat-gpu1", ("gpu1",), 4, 1, "mp", 8000, ("0", "1", "2", "3"))],
        id="by hand, on the only node",
    ),
]


def placed(contract: Contract) -> Placement:
    placement, problems = read_contract(contract)
    assert [str(problem) for problem in problems.found] == []
    assert placement
    return placement


@pytest.mark.parametrize(("contract", "wanted"), RIGHT)
def test_replicas(contract: Contract, wanted: list[Replica]) -> None:
    placement = placed(contract)
    assert list(placement.services[0].replicas) == wanted
    assert Placement.from_dict(placement.to_dict()) == placement


@pytest.mark.parametrize("topology", ["ray_tp", "ray_tp_pp"])
def test_only_the_replicas_differ_from_those_of_dual_replica(topology: str) -> None:
    one, other = placed(SITE), placed(replace(SITE, topology=topology))
    same = replace(other.services[0], replicas=one.services[0].replicas)
    assert replace(other, services=(same,)) == one


SIZE = "must be a whole number, 2 or more, that divides the %d nodes of tandem_nodes"
CORRECT_SIZE = "Correct it, or leave it out and write the replicas by hand (tandem_services[].replicas)"
EXECUTOR = "must be one of mp, ray"
CHOOSE = "Correct it in the inventory"
ALONE = "has another replica (%s), but %s spans nodes and needs each for itself"
OWN_NODES = "Give it nodes of its own"
KEPT = "is among the ports that the nodes of %s keep for one another (6379 to 6391, 10002 to 10999, 11000 to 11099)"
OTHER_PORT = "Choose another port"
USUAL = "Tensor parallel over the GPUs of a node times pipeline parallel over nodes is the usual way"
R = "tandem_services[0].replicas[0]."
GROUP = {"nodes": ["gpu1", "gpu2"], "tensor_parallel": 4, "pipeline_parallel": 2}


def size(base: Contract, value: Any, shown: str) -> Any:
    nodes = len(base.nodes)
    problem = Problem("tandem_nodes_per_replica", shown, SIZE % nodes, CORRECT_SIZE)
    return pytest.param(base, set_(nodes_per_replica=value), problem, id=f"{shown} of {nodes} nodes a replica")


def world(entry: dict[str, Any], shown: str, wanted: str, name: str = "chat-gpu1-x2") -> Any:
    variable = f"tandem_services[chat].replicas[{name}].tensor_parallel × pipeline_parallel"
    return pytest.param(SITE, replicas(entry), Problem(variable, repr(shown), wanted, USUAL), id=f"{shown} GPUs")


CASES: list[Any] = [
    size(FOUR_TP, 1, "1"),
    size(FOUR_TP, 3, "3"),
    size(FOUR_TP, 8, "8"),
    size(FOUR_TP, 0, "0"),
    size(FOUR_TP_PP, -2, "-2"),
    size(FOUR_TP_PP, "two", "'two'"),
    size(TP, 2.0, "2.0"),
    size(TP, True, "True"),
    # It is wrong whatever is made of it.
    size(SITE, 3, "3"),
    pytest.param(
        TP, set_(executor="slurm"), Problem("tandem_executor", "'slurm'", EXECUTOR, CHOOSE), id="unknown executor"
    ),
    pytest.param(SITE, set_(executor=1), Problem("tandem_executor", "1", EXECUTOR, CHOOSE), id="executor a number"),
    pytest.param(
        replace(TP, nodes=SITE.nodes[:1]),
        set_(),
        Problem(
            "group tandem_nodes",
            "'gpu1'",
            "must hold two machines or more: ray-tp spreads a replica over several",
            "Add hosts, or choose dual-replica",
        ),
        id="ray_tp on one node",
    ),
    pytest.param(
        replace(TP_PP, nodes=SITE.nodes[:1]),
        set_(),
        Problem(
            "group tandem_nodes",
            "'gpu1'",
            "must hold two machines or more: ray-tp-pp spreads a replica over several",
            "Add hosts, or choose dual-replica",
        ),
        id="ray_tp_pp on one node",
    ),
    pytest.param(
        SITE,
        replicas({"nodes": ["gpu1"], "tensor_parallel": 4, "executor": "ray"}),
        Problem(
            R + "executor",
            "'ray'",
            "must be mp on one node: Ray is for replicas over several",
            "Leave it out, or name more nodes",
        ),
        id="Ray on one node",
    ),
    pytest.param(
        SITE,
        replicas({**GROUP, "executor": "slurm"}),
        Problem(R + "executor", "'slurm'", EXECUTOR, CHOOSE),
        id="unknown executor of a replica",
    ),
    pytest.param(
        SITE,
        replicas({**GROUP, "nodes": ["gpu1", "gpu1"]}),
        Problem(R + "nodes", "['gpu1', 'gpu1']", "must be different nodes", "Name each node once"),
        id="a node twice in a replica",
    ),
    pytest.param(
        SITE,
        replicas({**GROUP, "nodes": ["gpu1", "gpu7"]}),
        Problem(R + "nodes", "'gpu7'", "is no host of this inventory; nodes are gpu1, gpu2", "Correct the name"),
        id="an unknown node beside a known one",
    ),
    pytest.param(
        SITE,
        replicas({**GROUP, "nodes": ["backup", "gpu1"]}),
        Problem(
            R + "nodes",
            "'backup'",
            "is not in the group tandem_nodes (gpu1, gpu2)",
            "Add it to the group, or choose another",
        ),
        id="a host of no group beside a node",
    ),
    pytest.param(
        SITE,
        replicas({**GROUP, "gpus": [0, 1, 2, 3]}),
        Problem(
            R + "gpus",
            "[0, 1, 2, 3]",
            "cannot be set for a replica over several nodes: it has all GPUs of each of them",
            "Remove it; tandem_gpus.ids says which GPUs a node has",
        ),
        id="GPUs named for a replica over two nodes",
    ),
    pytest.param(
        FOUR,
        replicas(GROUP, {"nodes": ["gpu2"], "tensor_parallel": 4}),
        Problem("tandem_services[].replicas[].nodes", "'gpu2'", ALONE % ("chat-gpu2", "chat-gpu1-x2"), OWN_NODES),
        id="a node shared with a replica on one node",
    ),
    pytest.param(
        FOUR,
        replicas({"nodes": ["gpu1"], "tensor_parallel": 4, "port": 8001}, GROUP),
        Problem("tandem_services[].replicas[].nodes", "'gpu1'", ALONE % ("chat-gpu1", "chat-gpu1-x2"), OWN_NODES),
        id="the first node shared with a replica on one node",
    ),
    pytest.param(
        FOUR,
        replicas(GROUP, {**GROUP, "nodes": ["gpu3", "gpu2"]}),
        Problem("tandem_services[].replicas[].nodes", "'gpu2'", ALONE % ("chat-gpu3-x2", "chat-gpu1-x2"), OWN_NODES),
        id="a node in two groups",
    ),
    pytest.param(
        TP,
        put("nodes.1.gpus", {"count": 2}),
        Problem(
            "tandem_gpus",
            "'gpu1: 4, gpu2: 2'",
            "must be as many on each node of chat-gpu1-x2",
            "Choose the same number with tandem_gpus.ids, or other nodes",
        ),
        id="unequal GPU counts",
    ),
    pytest.param(
        LAB_TP,
        put("nodes.0.gpus", {"count": 1}),
        Problem(
            "tandem_gpus",
            "'node1: 1, node2: 0'",
            "must be as many on each node of chat-node1-x2",
            "Choose the same number with tandem_gpus.ids, or other nodes",
        ),
        id="GPUs on one node and none on the other",
    ),
    world({"nodes": ["gpu1", "gpu2"]}, "1 × 1", "must make 8, the GPUs of gpu1, gpu2"),
    world({"nodes": ["gpu1", "gpu2"], "tensor_parallel": 4}, "4 × 1", "must make 8, the GPUs of gpu1, gpu2"),
    world(
        {"nodes": ["gpu2", "gpu1"], "tensor_parallel": 8, "pipeline_parallel": 2, "name": "wide"},
        "8 × 2",
        "must make 8, the GPUs of gpu2, gpu1",
        "wide",
    ),
    pytest.param(
        LAB,
        replicas({"nodes": ["node1", "node2"], "tensor_parallel": 4}),
        Problem(
            "tandem_services[chat].replicas[chat-node1-x2].tensor_parallel × pipeline_parallel",
            "'4 × 1'",
            "must make 2, the GPUs of node1, node2",
            USUAL,
        ),
        id="more ranks than nodes in the lab",
    ),
    *[
        pytest.param(
            TP,
            put("services.0.port", port),
            Problem("tandem_services[].port", str(port), KEPT % "chat-gpu1-x2", OTHER_PORT),
            id=f"the API on {port}",
        )
        for port in (6379, 6391, 10002, 10999, 11000, 11099)
    ],
    pytest.param(
        TP,
        put("gateways.0.port", 10500),
        Problem("gpu1: tandem_gateway_port", "10500", KEPT % "chat-gpu1-x2", OTHER_PORT),
        id="a gateway on a node, on a port of the ranks",
    ),
    pytest.param(
        TP,
        put("services.0.port", 8080),
        Problem(
            "tandem_services[].port",
            "8080",
            "is used twice on gpu1: by the gateway gpu1 and by replica chat-gpu1-x2",
            "Give one of them another port",
        ),
        id="the gateway's port",
    ),
    *[
        pytest.param(
            TP,
            put("services.0.environment", {name: SECRETS[2]}),
            Problem(
                f"tandem_services[0].environment.{name}",
                "(hidden)",
                f"cannot be set here: it follows from {owner}",
                "Remove it",
            ),
            id=name,
        )
        for name, owner in {
            "VLLM_HOST_IP": "the node's tandem_address",
            "NCCL_SOCKET_IFNAME": "the node's tandem_address",
            "GLOO_SOCKET_IFNAME": "the node's tandem_address",
            "VLLM_PORT": "the ports of rank groups",
            "VLLM_RPC_BASE_PATH": "the placement",
            "RAY_ADDRESS": "the placement",
        }.items()
    ],
]


@pytest.mark.parametrize(("base", "change", "problem"), CASES)
def test_wrong_contract(base: Contract, change: Change, problem: Problem) -> None:
    assert found(change(base)) == [problem]


@pytest.mark.parametrize("port", [6378, 6392, 8000, 8001, 10001, 11100])
def test_ports_beside_those_of_the_ranks(port: int) -> None:
    assert found(put("services.0.port", port)(TP)) == []


@pytest.mark.parametrize(
    "contract",
    [
        # A replica on one node keeps no ports.
        put("services.0.port", 10500)(SITE),
        # Nor do hosts that are no nodes of the group.
        replace(LAB_TP, gateways=[{"name": "gateway", "address": "10.89.70.10", "port": 10500}]),
    ],
    ids=["no group", "a gateway elsewhere"],
)
def test_ports_are_kept_on_nodes_of_groups_only(contract: Contract) -> None:
    assert found(contract) == []


def test_a_wrong_spread_hides_no_other_problem() -> None:
    contract = put("services.0.port", 0)(replace(FOUR_TP, nodes_per_replica=3, executor="slurm"))
    assert [problem.variable for problem in found(contract)] == [
        "tandem_executor",
        "tandem_nodes_per_replica",
        "tandem_services[0].port",
    ]


def test_a_service_that_names_no_replicas_must_be_the_only_one() -> None:
    second = {"name": "other", "model": {"path": "/m", "served_name": "m", "revision": "1"}}
    contract = replace(TP, services=[*TP.services, second])
    assert [problem.variable for problem in found(contract)] == ["tandem_services"]
