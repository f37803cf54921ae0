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
    Node,
    Placement,
    Replica,
    Service,
    dual_replica,
    fingerprint,
    gpu_names,
    plain,
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


def test_round_trip() -> None:
    assert Placement.from_dict(PLACEMENT.to_dict()) == replace(
        PLACEMENT, services=(replace(CHAT, extra_args={"x": [1, 2]}), EMBED)
    )
    assert Placement.from_dict(json.loads(json.dumps(PLACEMENT.to_dict()))) == PLACEMENT


def test_the_form_that_playbooks_carry() -> None:
    data = PLACEMENT.to_dict()
    assert list(data) == ["environment", "nodes", "services", "lab"]
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
    assert dual_replica(CHAT, nodes) == (
        Replica("chat-a-a", ("a",), 3, 1, "mp", 8000, ("0", "1", "2")),
        Replica("chat-a-b", ("b",), 1, 1, "mp", 8000, ()),
    )


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
    assert release(PLACEMENT, IMAGE) == "2acee06db357"
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
