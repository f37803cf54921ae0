# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.placement import (
    Limits,
    Model,
    Network,
    Node,
    Placement,
    Replica,
    Service,
    Spread,
    dual_replica,
    fingerprint,
    gpu_names,
    plain,
    ray_tp,
    ray_tp_pp,
    release,
    service_release,
    upstreams,
)

IMAGE = "sha256:" + "ab" * 32
GPUS = ("0", "1")
CHAT = Service(
    name="chat-a",
    model=Model("/models/chat", "chat-model", "5ede1c97", None),
    replicas=(
        Replica("chat-a-gpu1", ("gpu1",), 2, 1, "mp", 8000, GPUS),
        Replica("chat-a-gpu2", ("gpu2",), 2, 1, "mp", 8001, GPUS),
    ),
    engine={"max_model_len": 8192, "limit_mm_per_prompt": {"image": 2}},
    extra_args={"x": [1, 2]},
    limits=Limits("16g", "200g", 8.0),
    environment={"A": "1"},
)
EMBED = Service("embed", Model("/models/embed", "embedder"), (Replica("embed-gpu2", ("gpu2",), port=8100),), "embed")
PLACEMENT = Placement("site", {"gpu1": Node("10.0.0.1", GPUS), "gpu2": Node("10.0.0.2", GPUS)}, (CHAT, EMBED))
WITH_RAY = Replica("wide-a-x2", ("a", "b"), 2, 2, "ray", 8000)
WITHOUT_RAY = Replica("wide-d-x2", ("d", "c"), 4, 1, "mp", 8001)
ALONE = Replica("wide-e", ("e",), 2, gpus=("1",))
WIDE = Service("wide", Model("/models/wide", "wide-model"), (WITH_RAY, ALONE, WITHOUT_RAY))
WIDE_NODES = {
    "a": Node("10.0.1.1", GPUS),
    "b": Node("10.0.1.2", ("2", "GPU-9f")),
    "c": Node("10.0.1.3", GPUS),
    "d": Node("10.0.1.4", GPUS),
    "e": Node("10.0.1.5", GPUS),
}
GROUPS = Placement("site", WIDE_NODES, (WIDE,))


def test_round_trip() -> None:
    assert Placement.from_dict(PLACEMENT.to_dict()) == replace(
        PLACEMENT, services=(replace(CHAT, extra_args={"x": [1, 2]}), EMBED)
    )
    assert Placement.from_dict(json.loads(json.dumps(PLACEMENT.to_dict()))) == PLACEMENT


def test_the_form_that_playbooks_carry() -> None:
    data = PLACEMENT.to_dict()
    assert list(data) == ["environment", "nodes", "services", "lab", "network"]
    assert data["network"] == {"gbit": None, "latency_us": None, "rdma": None, "minimum_gbit": None}
    described = {"gpus": ["0", "1"], "gpu_model": None, "gpu_memory_gib": None, "gpu_access": "nvidia"}
    assert data["nodes"] == {
        "gpu1": {"address": "10.0.0.1", **described},
        "gpu2": {"address": "10.0.0.2", **described},
    }
    assert data["services"][1] == {
        "name": "embed",
        "model": {"path": "/models/embed", "served_name": "embedder", "revision": None, "manifest": None},
        "replicas": [
            {
                "name": "embed-gpu2",
                "nodes": ["gpu2"],
                "tensor_parallel": 1,
                "pipeline_parallel": 1,
                "executor": "mp",
                "port": 8100,
                "gpus": [],
            }
        ],
        "task": "embed",
        "engine": {},
        "extra_args": {},
        "limits": {"shm_size": "8g", "memory": None, "cpus": None},
        "environment": {},
    }


def test_round_trip_of_rank_groups() -> None:
    data = GROUPS.to_dict()
    assert data["services"][0]["replicas"][0] == {
        "name": "wide-a-x2",
        "nodes": ["a", "b"],
        "tensor_parallel": 2,
        "pipeline_parallel": 2,
        "executor": "ray",
        "port": 8000,
        "gpus": [],
    }
    assert Placement.from_dict(json.loads(json.dumps(data))) == GROUPS


@pytest.mark.parametrize(
    "network", [Network(), Network(25.0), Network(rdma=False), Network(100.0, 25.5, True, 80.0)], ids=str
)
def test_round_trip_of_the_network(network: Network) -> None:
    placement = replace(GROUPS, network=network)
    assert Placement.from_dict(json.loads(json.dumps(placement.to_dict()))) == placement


@pytest.mark.parametrize("data", [{}, {"services": [{}], "nodes": {}, "environment": "x", "lab": True}])
def test_what_is_no_placement(data: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError)):
        Placement.from_dict(data)


def test_containers_and_addresses() -> None:
    assert [r.container for r in CHAT.replicas] == ["tandem-chat-a-gpu1", "tandem-chat-a-gpu2"]
    assert PLACEMENT.api_address(CHAT.replicas[1]) == "10.0.0.2"
    assert PLACEMENT.on_node("gpu1") == [(CHAT, CHAT.replicas[0])]
    assert PLACEMENT.on_node("gpu2") == [(CHAT, CHAT.replicas[1]), (EMBED, EMBED.replicas[0])]
    assert PLACEMENT.on_node("gpu3") == []


@pytest.mark.parametrize(
    ("replica", "is_group", "container", "ray_container"),
    [
        (WITH_RAY, True, "tandem-wide-a-x2", "tandem-wide-a-x2.ray"),
        (WITHOUT_RAY, True, "tandem-wide-d-x2", None),
        (ALONE, False, "tandem-wide-e", None),
        # Ray is for several nodes.
        (replace(ALONE, executor="ray"), False, "tandem-wide-e", None),
    ],
)
def test_containers_of_rank_groups(replica: Replica, is_group: bool, container: str, ray_container: str | None) -> None:
    assert (replica.is_rank_group, replica.container, replica.ray_container) == (is_group, container, ray_container)


def test_gpus_of_a_replica_on_a_node() -> None:
    """A rank group has all of its nodes; a replica on one node those that it names."""
    assert GROUPS.gpus(WITH_RAY, "a") == GPUS
    assert GROUPS.gpus(WITH_RAY, "b") == ("2", "GPU-9f")
    assert GROUPS.gpus(ALONE, "e") == ("1",)


def test_rank_groups() -> None:
    first, second = (WIDE, WITH_RAY), (WIDE, WITHOUT_RAY)
    assert GROUPS.rank_groups() == [first, second]
    assert {node: GROUPS.rank_groups(node) for node in WIDE_NODES} == {
        "a": [first],
        "b": [first],
        "c": [second],
        "d": [second],
        "e": [],
    }
    assert PLACEMENT.rank_groups() == []


def test_a_rank_group_is_on_each_of_its_nodes_and_reached_on_the_first() -> None:
    assert [GROUPS.on_node(node) for node in ("a", "b")] == [[(WIDE, WITH_RAY)]] * 2
    assert [GROUPS.api_address(replica) for replica in WIDE.replicas] == ["10.0.1.1", "10.0.1.5", "10.0.1.4"]
    assert upstreams(GROUPS)[0]["servers"] == [
        {"replica": "wide-a-x2", "node": "a", "address": "10.0.1.1", "port": 8000},
        {"replica": "wide-e", "node": "e", "address": "10.0.1.5", "port": 8000},
        {"replica": "wide-d-x2", "node": "d", "address": "10.0.1.4", "port": 8001},
    ]


def test_upstreams() -> None:
    assert upstreams(PLACEMENT) == [
        {
            "name": "tandem_chat_a",
            "service": "chat-a",
            "served_name": "chat-model",
            "task": "generate",
            "servers": [
                {"replica": "chat-a-gpu1", "node": "gpu1", "address": "10.0.0.1", "port": 8000},
                {"replica": "chat-a-gpu2", "node": "gpu2", "address": "10.0.0.2", "port": 8001},
            ],
        },
        {
            "name": "tandem_embed",
            "service": "embed",
            "served_name": "embedder",
            "task": "embed",
            "servers": [{"replica": "embed-gpu2", "node": "gpu2", "address": "10.0.0.2", "port": 8100}],
        },
    ]


def test_dual_replica_takes_what_each_node_has() -> None:
    nodes = {"a": Node("10.0.0.1", ("0", "1", "2")), "b": Node("10.0.0.2")}
    assert dual_replica(CHAT, nodes, Spread()) == (
        Replica("chat-a-a", ("a",), 3, 1, "mp", 8000, ("0", "1", "2")),
        Replica("chat-a-b", ("b",), 1, 1, "mp", 8000, ()),
    )


def spread_nodes(count: int, gpus: int) -> dict[str, Node]:
    ids = tuple(str(gpu) for gpu in range(gpus))
    return {f"n{number}": Node(f"10.0.0.{number}", ids) for number in range(1, count + 1)}


# Nodes, GPUs of each, how they are spread -> nodes of each replica, tensor parallel, pipeline parallel.
SPREADS: list[Any] = [
    (ray_tp, 2, 4, Spread(), [(("n1", "n2"), 8, 1)]),
    (ray_tp_pp, 2, 4, Spread(), [(("n1", "n2"), 4, 2)]),
    (ray_tp, 3, 1, Spread(), [(("n1", "n2", "n3"), 3, 1)]),
    (ray_tp_pp, 3, 1, Spread(), [(("n1", "n2", "n3"), 1, 3)]),
    (ray_tp, 4, 8, Spread(2), [(("n1", "n2"), 16, 1), (("n3", "n4"), 16, 1)]),
    (ray_tp_pp, 4, 8, Spread(2), [(("n1", "n2"), 8, 2), (("n3", "n4"), 8, 2)]),
    (ray_tp_pp, 4, 8, Spread(4), [(("n1", "n2", "n3", "n4"), 8, 4)]),
    # Without GPUs, in the lab, each node has one rank.
    (ray_tp, 2, 0, Spread(), [(("n1", "n2"), 2, 1)]),
    (ray_tp_pp, 2, 0, Spread(), [(("n1", "n2"), 1, 2)]),
]


@pytest.mark.parametrize("executor", ["ray", "mp"])
@pytest.mark.parametrize(("topology", "nodes", "gpus", "spread", "wanted"), SPREADS)
def test_topologies_with_rank_groups(
    topology: Any, nodes: int, gpus: int, spread: Spread, wanted: list[Any], executor: str
) -> None:
    made = topology(CHAT, spread_nodes(nodes, gpus), replace(spread, executor=executor))
    assert list(made) == [
        Replica(f"chat-a-{names[0]}-x{len(names)}", names, tensor, pipeline, executor)
        for names, tensor, pipeline in wanted
    ]


def test_ray_is_the_executor_that_nobody_has_to_name() -> None:
    assert Spread() == Spread(None, "ray")


def test_new_nodes_leave_the_groups_that_are_there() -> None:
    before, after = (ray_tp(CHAT, spread_nodes(count, 4), Spread(2)) for count in (4, 6))
    assert after[:2] == before


CHANGES: dict[str, Service] = {
    "engine": replace(CHAT, engine={**CHAT.engine, "max_model_len": 4096}),
    "extra_args": replace(CHAT, extra_args={"x": [2, 1]}),
    "limits": replace(CHAT, limits=replace(CHAT.limits, memory="100g")),
    "environment": replace(CHAT, environment={"A": "2"}),
    "revision": replace(CHAT, model=replace(CHAT.model, revision="ffff")),
    "path": replace(CHAT, model=replace(CHAT.model, path="/models/other")),
    "task": replace(CHAT, task="score"),
}


@pytest.mark.parametrize("changed", list(CHANGES.values()), ids=list(CHANGES))
def test_releases_change_with_every_setting(changed: Service) -> None:
    assert service_release(changed, IMAGE) != service_release(CHAT, IMAGE)
    assert release(replace(PLACEMENT, services=(changed, EMBED)), IMAGE) != release(PLACEMENT, IMAGE)


def test_releases_change_with_the_image() -> None:
    assert service_release(CHAT, IMAGE) != service_release(CHAT, "sha256:" + "cd" * 32)
    assert release(PLACEMENT, IMAGE) != release(PLACEMENT, "sha256:" + "cd" * 32)


def test_the_network_leaves_the_release_of_a_service() -> None:
    rdma = replace(PLACEMENT, network=Network(rdma=True))
    assert release(rdma, IMAGE) != release(PLACEMENT, IMAGE)
    assert service_release(rdma.services[0], IMAGE) == service_release(CHAT, IMAGE)


def test_a_new_node_leaves_the_release_of_a_service() -> None:
    nodes = {**PLACEMENT.nodes, "gpu3": Node("10.0.0.3", GPUS)}
    more = replace(CHAT, replicas=(*CHAT.replicas, Replica("chat-a-gpu3", ("gpu3",), 2, gpus=GPUS)))
    assert service_release(more, IMAGE) == service_release(CHAT, IMAGE)
    grown = Placement("site", nodes, (more, EMBED))
    assert release(grown, IMAGE) != release(PLACEMENT, IMAGE)
    assert grown.services[0].replicas[:2] == CHAT.replicas


def test_releases_are_stable() -> None:
    """Pinned: another id for the same settings would replace every container of every site."""
    assert service_release(CHAT, IMAGE) == "24dfa39c8a5d"
    assert release(PLACEMENT, IMAGE) == "041ce0f09dd0"
    turned = replace(CHAT, engine=dict(reversed(CHAT.engine.items())))
    assert service_release(turned, IMAGE) == service_release(CHAT, IMAGE)
    again = Placement.from_dict(json.loads(json.dumps(PLACEMENT.to_dict())))
    assert service_release(again.services[0], IMAGE) == service_release(CHAT, IMAGE)
    assert release(again, IMAGE) == release(PLACEMENT, IMAGE)


def test_fingerprint() -> None:
    # printf '{"a":1,"b":[true,null]}' | sha256sum
    assert fingerprint({"b": [True, None], "a": 1}) == "1cc69c7fa236"
    assert fingerprint({"b": [True, None], "a": 1}, 4) == "1cc69c7fa236"[:4]


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ({"count": 3}, ("0", "1", "2")),
        ({"ids": [2, "GPU-9f"]}, ("2", "GPU-9f")),
        ({"ids": None, "count": 1}, ("0",)),
        ({}, ()),
    ],
)
def test_gpu_names(value: dict[str, Any], names: tuple[str, ...]) -> None:
    assert gpu_names(value) == names


def test_plain_copies() -> None:
    inner = {"b": (1, {"c": None})}
    copied = plain({1: inner})
    assert copied == {"1": {"b": [1, {"c": None}]}}
    inner["b"] = ()
    assert copied == {"1": {"b": [1, {"c": None}]}}
