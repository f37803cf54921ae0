# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.containers import (
    Launch,
    besides,
    device_requests,
    node_containers,
    pending,
    replica_container,
)
from ansible_collections.tandem.vllm.plugins.module_utils.placement import (
    Limits,
    Model,
    Node,
    Placement,
    Replica,
    Service,
    service_release,
)
from ansible_collections.tandem.vllm.plugins.module_utils.vllm_argv import serve_argv

IMAGE = "sha256:" + "ab" * 32
KEY = "sk-Engine-Key-000003"
GPU = Service(
    "chat",
    Model("/models/big", "big-chat", "5ede1c97"),
    (Replica("chat-gpu1", ("gpu1",), 2, gpus=("2", "GPU-9f")), Replica("chat-gpu2", ("gpu2",), 2, gpus=("0", "1"))),
    engine={"max_model_len": 8192},
    limits=Limits("16g", "200g", 8.0),
    environment={"NCCL_DEBUG": "WARN", "HF_HUB_OFFLINE": "0"},
)
CPU = Service("tiny", Model("/models/tiny", "tiny-embed"), (Replica("tiny-gpu1", ("gpu1",), port=8100),), "embed")
PLACEMENT = Placement("site", {"gpu1": Node("10.0.0.1"), "gpu2": Node("10.0.0.2")}, (GPU, CPU))


def container(service: Service, key: str = KEY) -> dict[str, Any]:
    launch = Launch(IMAGE, key, "/etc/tandem/engine.key")
    return replica_container(PLACEMENT, service, service.replicas[0], launch)


def test_what_the_model_asks_for_is_in_the_environment_and_yields_to_the_service() -> None:
    asked = {GPU.model.path: {"TIKTOKEN_ENCODINGS_BASE": "/v", "NCCL_DEBUG": "INFO"}}
    options = replica_container(PLACEMENT, GPU, GPU.replicas[0], Launch(IMAGE, KEY, "/k", asked))
    assert (options["env"]["TIKTOKEN_ENCODINGS_BASE"], options["env"]["NCCL_DEBUG"]) == ("/v", "WARN")


def test_each_model_has_its_own_environment() -> None:
    variables_of = {GPU.model.path: {"A": "1"}, CPU.model.path: {"B": "1"}}
    asked = node_containers(PLACEMENT, "gpu1", Launch(IMAGE, KEY, "/k", variables_of))
    variables = {options["name"]: [name for name in "AB" if name in options["env"]] for options in asked}
    assert variables == {GPU.replicas[0].container: ["A"], CPU.replicas[0].container: ["B"]}


def without_fingerprints(options: dict[str, Any]) -> dict[str, Any]:
    """The options with both fingerprints taken out, after a look at them."""
    labels = dict(options["labels"])
    assert [len(labels.pop(name)) for name in ("tandem.engine_key", "tandem.release")] == [12, 12]
    return {**options, "labels": labels}


def test_container_with_gpus() -> None:
    assert without_fingerprints(container(GPU)) == {
        "name": "tandem-chat-gpu1",
        "replica": "chat-gpu1",
        "url": "http://10.0.0.1:8000",
        "served_name": "big-chat",
        "task": "generate",
        "image": IMAGE,
        "entrypoint": [
            "/bin/sh",
            "-c",
            'VLLM_API_KEY="$(cat /run/tandem/engine.key)" && export VLLM_API_KEY && exec "$@"',
            "sh",
        ],
        "command": serve_argv(PLACEMENT, GPU, GPU.replicas[0], "gpu1"),
        "env": {
            "DO_NOT_TRACK": "1",
            "HF_HUB_OFFLINE": "0",
            "TRANSFORMERS_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "NCCL_DEBUG": "WARN",
        },
        "mounts": [
            {"type": "bind", "source": "/models/big", "target": "/models/big", "read_only": True},
            {
                "type": "bind",
                "source": "/etc/tandem/engine.key",
                "target": "/run/tandem/engine.key",
                "read_only": True,
            },
        ],
        "init": True,
        "published_ports": ["10.0.0.1:8000:8000"],
        "device_requests": [{"driver": "nvidia", "count": 0, "device_ids": ["2", "GPU-9f"], "capabilities": [["gpu"]]}],
        "shm_size": "16g",
        "memory": "200g",
        "cpus": 8.0,
        "restart_policy": "unless-stopped",
        "state": "started",
        "labels": {"tandem.environment": "site", "tandem.service": "chat", "tandem.replica": "chat-gpu1"},
    }


@pytest.mark.parametrize(
    ("gpus", "access", "requests"),
    [
        ((), "nvidia", []),
        ((), "cdi", []),
        (("0", "1"), "nvidia", [{"driver": "nvidia", "count": 0, "device_ids": ["0", "1"], "capabilities": [["gpu"]]}]),
        (
            ("0", "GPU-9f"),
            "cdi",
            [{"driver": "cdi", "count": 0, "device_ids": ["nvidia.com/gpu=0", "nvidia.com/gpu=GPU-9f"]}],
        ),
    ],
)
def test_how_gpus_are_asked_for(gpus: tuple[str, ...], access: str, requests: list[dict[str, Any]]) -> None:
    assert device_requests(gpus, access) == requests


def test_container_on_cpu() -> None:
    options = container(CPU)
    picked = ("name", "url", "task", "published_ports", "device_requests", "shm_size", "memory", "cpus", "env")
    assert {key: options[key] for key in picked} == {
        "name": "tandem-tiny-gpu1",
        "url": "http://10.0.0.1:8100",
        "task": "embed",
        "published_ports": ["10.0.0.1:8100:8100"],
        "device_requests": [],
        "shm_size": "8g",
        "memory": None,
        "cpus": None,
        "env": {
            "DO_NOT_TRACK": "1",
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
        },
    }
    assert "--port=8100" in options["command"]


def test_the_key_is_nowhere_but_changes_the_container() -> None:
    options = container(GPU)
    assert KEY not in json.dumps(options)
    other = container(GPU, KEY + "x")
    assert options["labels"].pop("tandem.engine_key") != other["labels"].pop("tandem.engine_key")
    assert options == other


def test_one_key_has_another_label_in_each_service_and_environment() -> None:
    elsewhere = replace(PLACEMENT, environment="other")
    labels = {
        container(GPU)["labels"]["tandem.engine_key"],
        container(CPU)["labels"]["tandem.engine_key"],
        replica_container(elsewhere, GPU, GPU.replicas[0], Launch(IMAGE, KEY, "/k"))["labels"]["tandem.engine_key"],
    }
    assert len(labels) == 3


def test_release_label() -> None:
    assert container(GPU)["labels"]["tandem.release"] == service_release(GPU, IMAGE)


def test_containers_of_a_node() -> None:
    names = {
        node: [c["name"] for c in node_containers(PLACEMENT, node, Launch(IMAGE, KEY, "/k"))]
        for node in ("gpu1", "gpu2", "gpu3")
    }
    assert names == {"gpu1": ["tandem-chat-gpu1", "tandem-tiny-gpu1"], "gpu2": ["tandem-chat-gpu2"], "gpu3": []}


def test_containers_besides_the_wanted_ones() -> None:
    port = {"IP": "10.0.0.1", "PrivatePort": 8000, "PublicPort": 8001, "Type": "tcp"}
    inside = {"PrivatePort": 9000, "Type": "tcp"}
    present = [
        {"Names": ["/tandem-a"], "Ports": [port]},
        {"Names": ["/tandem-b"], "Ports": [inside, port]},
        {"Names": ["/tandem-c"], "Ports": [inside]},
        {"Names": ["/tandem-d"], "Ports": None},
        {"Names": ["/tandem-e"]},
    ]
    assert besides(present, ["tandem-a", "tandem-x"]) == [
        {"name": "tandem-b", "url": "http://10.0.0.1:8001"},
        {"name": "tandem-c", "url": ""},
        {"name": "tandem-d", "url": ""},
        {"name": "tandem-e", "url": ""},
    ]
    assert besides([], []) == []


@pytest.mark.parametrize(
    ("actions", "group"),
    [
        ([{"created": "Created container"}, {"started": "abc"}], "to_start"),
        ([{"started": "abc"}], "to_start"),
        ([{"update": "abc", "update_parameters": {"Memory": 1}}], "to_start"),
        ([{"stopped": "abc"}, {"removed": "abc"}, {"created": "x"}, {"started": "y"}], "to_replace"),
        ([], None),
        (None, None),
    ],
)
def test_pending(actions: Any, group: str | None) -> None:
    result = {"item": {"name": "tandem-a"}, **({} if actions is None else {"actions": actions})}
    wanted: dict[str, list[Any]] = {"to_start": [], "to_replace": []}
    if group:
        wanted[group].append({"name": "tandem-a"})
    assert pending([result]) == wanted


def test_pending_keeps_the_order() -> None:
    results = [{"item": n, "actions": [{a: "x"}]} for n, a in ((1, "removed"), (2, "started"), (3, "removed"))]
    assert pending(results) == {"to_start": [2], "to_replace": [1, 3]}
