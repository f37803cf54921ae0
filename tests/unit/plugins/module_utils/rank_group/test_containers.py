# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.containers import Launch, node_containers
from ansible_collections.tandem.vllm.plugins.module_utils.placement import Network, Placement, service_release
from ansible_collections.tandem.vllm.plugins.module_utils.rank_group.containers import (
    besides,
    engine_containers,
    ray_containers,
)
from ansible_collections.tandem.vllm.plugins.module_utils.rank_group.ray_start import ENTRYPOINT, start_argv
from ansible_collections.tandem.vllm.plugins.module_utils.vllm_argv import serve_argv
from ansible_collections.tandem.vllm.tests.unit.plugins.module_utils.rank_group.samples import (
    CHAT,
    GROUP,
    IMAGE,
    KEY,
    LAB,
    LAUNCH,
    OBJECT_STORE,
    RANKS,
    RAY,
    WITHOUT_RAY,
)

ENVIRONMENT = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "0",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "TIKTOKEN_ENCODINGS_BASE": "/v",
    "NCCL_DEBUG": "WARN",
}
FOLDER = "/tmp/ray"  # noqa: S108 - in the containers
RAY_ENVIRONMENT = {"VLLM_PORT": "11000", "VLLM_RPC_BASE_PATH": FOLDER, "RAY_USAGE_STATS_ENABLED": "0"}
MODEL = {"type": "bind", "source": "/models/big", "target": "/models/big", "read_only": True}
ENGINE_KEY = {
    "type": "bind",
    "source": "/etc/tandem/engine.key",
    "target": "/run/tandem/engine.key",
    "read_only": True,
}
RAY_FOLDER = {"type": "volume", "source": "tandem-chat-gpu1-x2.ray", "target": FOLDER}
GPUS = {
    "gpu1": [{"driver": "nvidia", "count": 0, "device_ids": ["0", "1", "2", "3"], "capabilities": [["gpu"]]}],
    "gpu2": [
        {
            "driver": "cdi",
            "count": 0,
            "device_ids": ["nvidia.com/gpu=4", "nvidia.com/gpu=5", "nvidia.com/gpu=6", "nvidia.com/gpu=GPU-9f"],
        }
    ],
}
ADDRESSES = {"gpu1": "10.0.0.1", "gpu2": "10.0.0.2"}
LABELS = {
    "tandem.environment": "site",
    "tandem.service": "chat",
    "tandem.rank_group": "chat-gpu1-x2",
    "tandem.executor": "ray",
}
SHELL_ENTRYPOINT = [
    "/bin/sh",
    "-c",
    'VLLM_API_KEY="$(cat /run/tandem/engine.key)" && export VLLM_API_KEY && exec "$@"',
    "sh",
]
# How the engine is asked, on whichever node.
ASKED = {
    "replica": "chat-gpu1-x2",
    "group": "chat-gpu1-x2",
    "url": "http://10.0.0.1:8100",
    "served_name": "big-chat",
    "task": "generate",
}


def engine(placement: Placement, node: str) -> dict[str, Any]:
    """The only engine container of a rank group on a node; its fingerprints are taken out, after a look at them."""
    (options,) = engine_containers(placement, node, LAUNCH)
    labels = dict(options["labels"])
    assert labels.pop("tandem.release") == service_release(placement.services[0], IMAGE)
    assert len(labels.pop("tandem.engine_key")) == 12
    return {**options, "labels": labels}


@pytest.mark.parametrize("node", ["gpu1", "gpu2"])
def test_container_with_a_ray_node(node: str) -> None:
    assert ray_containers(RAY, node, LAUNCH, OBJECT_STORE) == [
        {
            "name": "tandem-chat-gpu1-x2.ray",
            "group": "chat-gpu1-x2",
            "leads": node == "gpu1",
            "address": ADDRESSES[node],
            "expect": {
                "nodes": 2,
                "gpus_per_node": {"10.0.0.1": 4, "10.0.0.2": 4},
                "addresses": ["10.0.0.1", "10.0.0.2"],
                "free_gpus": 8,
            },
            "image": IMAGE,
            "entrypoint": ENTRYPOINT,
            "command": start_argv(ADDRESSES[node], "10.0.0.1", 4, OBJECT_STORE),
            "env": {
                **ENVIRONMENT,
                **RAY_ENVIRONMENT,
                "VLLM_HOST_IP": ADDRESSES[node],
                "NCCL_SOCKET_IFNAME": "=ens1f0",
                "GLOO_SOCKET_IFNAME": "ens1f0",
                "AUTOSCALER_METRIC_PORT": "6390",
                "DASHBOARD_METRIC_PORT": "6391",
            },
            "mounts": [MODEL, RAY_FOLDER],
            "device_requests": GPUS[node],
            "network_mode": "host",
            "ipc_mode": "shareable",
            "init": True,
            "shm_size": "16g",
            "memory": "200g",
            "cpus": 8.0,
            "restart_policy": "no",
            "state": "present",
            "labels": LABELS,
        }
    ]


def test_container_with_the_ray_driver() -> None:
    """vLLM itself, in the namespaces of the Ray node beside it, and with no interface of its own to name."""
    beside = "container:tandem-chat-gpu1-x2.ray"
    assert engine(RAY, "gpu1") == {
        **ASKED,
        "name": "tandem-chat-gpu1-x2",
        "image": IMAGE,
        "entrypoint": SHELL_ENTRYPOINT,
        "command": serve_argv(RAY, CHAT, GROUP, "gpu1"),
        "env": {**ENVIRONMENT, **RAY_ENVIRONMENT, "RAY_ADDRESS": "10.0.0.1:6379", "VLLM_HOST_IP": "10.0.0.1"},
        "mounts": [MODEL, ENGINE_KEY, RAY_FOLDER],
        "device_requests": GPUS["gpu1"],
        "network_mode": beside,
        "ipc_mode": beside,
        "pid_mode": beside,
        "init": False,
        "memory": "200g",
        "cpus": 8.0,
        "restart_policy": "no",
        "state": "present",
        "labels": LABELS,
    }


def test_with_ray_only_the_first_node_has_an_engine() -> None:
    assert engine_containers(RAY, "gpu2", LAUNCH) == []


@pytest.mark.parametrize("node", ["gpu1", "gpu2"])
def test_container_with_a_rank(node: str) -> None:
    assert engine(WITHOUT_RAY, node) == {
        **ASKED,
        "name": "tandem-chat-gpu1-x2",
        "image": IMAGE,
        "entrypoint": SHELL_ENTRYPOINT,
        "command": serve_argv(WITHOUT_RAY, CHAT, RANKS, node),
        "env": {
            **ENVIRONMENT,
            "VLLM_PORT": "11000",
            "VLLM_HOST_IP": ADDRESSES[node],
            "NCCL_SOCKET_IFNAME": "=ens1f0",
            "GLOO_SOCKET_IFNAME": "ens1f0",
        },
        "mounts": [MODEL, ENGINE_KEY],
        "device_requests": GPUS[node],
        "network_mode": "host",
        "init": True,
        "shm_size": "16g",
        "memory": "200g",
        "cpus": 8.0,
        "restart_policy": "no",
        "state": "present",
        "labels": {**LABELS, "tandem.executor": "mp"},
    }


def test_without_ray_no_ray_container() -> None:
    assert [ray_containers(WITHOUT_RAY, node, LAUNCH, OBJECT_STORE) for node in WITHOUT_RAY.nodes] == [[], [], []]


def test_a_replica_on_one_node_is_no_rank_group() -> None:
    assert ray_containers(RAY, "gpu3", LAUNCH, OBJECT_STORE) == []
    assert engine_containers(RAY, "gpu3", LAUNCH) == []
    assert [options["name"] for options in node_containers(RAY, "gpu3", LAUNCH)] == ["tandem-chat-gpu3"]
    assert node_containers(RAY, "gpu1", LAUNCH) == []


def test_each_node_of_a_lab_counts_as_a_gpu() -> None:
    (options,) = ray_containers(LAB, "node2", LAUNCH, OBJECT_STORE)
    assert options["command"] == start_argv("10.0.1.2", "10.0.1.1", 1, OBJECT_STORE)
    assert options["expect"]["gpus_per_node"] == {"10.0.1.1": 1, "10.0.1.2": 1}
    assert options["device_requests"] == []


def test_an_unknown_interface_is_not_named() -> None:
    launch = replace(LAUNCH, interface=None)
    (ray,) = ray_containers(RAY, "gpu1", launch, OBJECT_STORE)
    (rank,) = engine_containers(WITHOUT_RAY, "gpu1", launch)
    assert [name for name in (*ray["env"], *rank["env"]) if name.endswith("_IFNAME")] == []


def test_what_a_node_must_be_told_wins_over_the_service() -> None:
    service = replace(CHAT, environment={"VLLM_HOST_IP": "10.9.9.9", "RAY_ADDRESS": "auto", "VLLM_PORT": "1"})
    (options,) = engine_containers(replace(RAY, services=(service,)), "gpu1", LAUNCH)
    told = {name: options["env"][name] for name in service.environment}
    assert told == {"VLLM_HOST_IP": "10.0.0.1", "RAY_ADDRESS": "10.0.0.1:6379", "VLLM_PORT": "11000"}


def test_the_key_is_nowhere_but_changes_the_engine_alone() -> None:
    made = [*engine_containers(RAY, "gpu1", LAUNCH), *ray_containers(RAY, "gpu1", LAUNCH, OBJECT_STORE)]
    assert KEY not in json.dumps(made)
    other = replace(LAUNCH, engine_key=KEY + "x")
    assert engine_containers(RAY, "gpu1", other)[0]["labels"] != made[0]["labels"]
    assert ray_containers(RAY, "gpu1", other, OBJECT_STORE) == made[1:]


def test_ray_has_no_api_key() -> None:
    """Who may run Ray tasks may read what the Ray container can read."""
    (options,) = ray_containers(RAY, "gpu1", Launch(IMAGE, "", ""), OBJECT_STORE)
    assert [mount["target"] for mount in options["mounts"]] == ["/models/big", FOLDER]


RDMA = {
    "devices": ["/dev/infiniband:/dev/infiniband:rwm"],
    "capabilities": ["IPC_LOCK"],
    "ulimits": ["memlock:-1:-1"],
}


def over(placement: Placement, rdma: bool | None, node: str) -> list[dict[str, Any]]:
    """The containers of a node's rank groups: with Ray the Ray node's first."""
    networked = replace(placement, network=Network(rdma=rdma))
    return [*ray_containers(networked, node, LAUNCH, OBJECT_STORE), *engine_containers(networked, node, LAUNCH)]


@pytest.mark.parametrize("node", ["gpu1", "gpu2"])
@pytest.mark.parametrize("placement", [RAY, WITHOUT_RAY], ids=["ray", "mp"])
def test_ranks_get_what_rdma_needs(placement: Placement, node: str) -> None:
    """The Ray driver is no rank."""
    member, *driver = over(placement, True, node)
    plain, *plain_driver = over(placement, None, node)
    assert member == {**plain, **RDMA}
    assert driver == plain_driver
    assert not [key for options in (plain, *driver) for key in options if key in {*RDMA, "privileged"}]


@pytest.mark.parametrize("node", ["gpu1", "gpu2"])
@pytest.mark.parametrize("placement", [RAY, WITHOUT_RAY], ids=["ray", "mp"])
def test_ranks_without_rdma(placement: Placement, node: str) -> None:
    member, *driver = over(placement, False, node)
    plain, *plain_driver = over(placement, None, node)
    assert member == {**plain, "env": {**plain["env"], "NCCL_IB_DISABLE": "1"}}
    assert driver == plain_driver
    assert "NCCL_IB_DISABLE" not in plain["env"]


@pytest.mark.parametrize("rdma", [True, False])
def test_without_gpus_there_is_nothing_for_rdma(rdma: bool) -> None:
    assert over(LAB, rdma, "node2") == over(LAB, None, "node2")


@pytest.mark.parametrize("rdma", [True, False])
def test_a_replica_on_one_node_gets_nothing_for_rdma(rdma: bool) -> None:
    networked = replace(RAY, network=Network(rdma=rdma))
    assert node_containers(networked, "gpu3", LAUNCH) == node_containers(RAY, "gpu3", LAUNCH)


def listed(name: str, group: str | None, executor: str = "ray") -> dict[str, Any]:
    labels = {"tandem.rank_group": group, "tandem.executor": executor} if group else {}
    return {"Names": ["/" + name], "Labels": {"tandem.environment": "site", **labels}}


def test_rank_groups_besides_the_wanted_ones() -> None:
    present = [
        listed("tandem-chat-gpu1-x2.ray", "chat-gpu1-x2"),
        listed("tandem-old-gpu3-x2.ray", "old-gpu3-x2"),
        listed("tandem-old-gpu3-x2", "old-gpu3-x2"),
        listed("tandem-mp-gpu5-x2", "mp-gpu5-x2", "mp"),
        listed("tandem-chat-gpu7", None),
        {"Names": ["/someone-elses"], "Labels": None},
        {"Names": ["/anybodys"]},
    ]
    # A container goes before the one whose namespaces it uses.
    assert besides(present, RAY, "gpu1") == [
        {"group": "mp-gpu5-x2", "containers": ["tandem-mp-gpu5-x2"], "volumes": []},
        {
            "group": "old-gpu3-x2",
            "containers": ["tandem-old-gpu3-x2", "tandem-old-gpu3-x2.ray"],
            "volumes": ["tandem-old-gpu3-x2.ray"],
        },
    ]
    assert besides(present[:1], RAY, "gpu1") == []


def test_the_same_group_with_another_executor_is_another_one() -> None:
    present = [listed("tandem-chat-gpu1-x2", "chat-gpu1-x2", "mp")]
    assert besides(present, WITHOUT_RAY, "gpu1") == []
    assert besides(present, RAY, "gpu1") == [
        {"group": "chat-gpu1-x2", "containers": ["tandem-chat-gpu1-x2"], "volumes": []}
    ]


def test_a_group_of_other_nodes_is_not_wanted_here() -> None:
    present = [listed("tandem-chat-gpu1-x2", "chat-gpu1-x2")]
    assert [found["group"] for found in besides(present, RAY, "gpu3")] == ["chat-gpu1-x2"]


def test_a_container_put_aside_belongs_to_its_group() -> None:
    present = [
        listed("tandem-old-gpu3-x2.ray.previous", "old-gpu3-x2"),
        listed("tandem-old-gpu3-x2.previous", "old-gpu3-x2"),
    ]
    assert besides(present, RAY, "gpu1") == [
        {
            "group": "old-gpu3-x2",
            "containers": ["tandem-old-gpu3-x2.previous", "tandem-old-gpu3-x2.ray.previous"],
            "volumes": ["tandem-old-gpu3-x2.ray"],
        }
    ]
