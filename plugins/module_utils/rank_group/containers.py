# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The containers of rank groups, as options of community.docker.docker_container.

They are made, and not started: the group's keepers on its nodes start and stop them, all or none.
With Ray each node has a container with a Ray node, and the first has vLLM in another that shares the namespaces and
folders which a Ray driver and its node must have in common. Without Ray each node has a container with vLLM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils import containers
from ansible_collections.tandem.vllm.plugins.module_utils.containers import Launch
from ansible_collections.tandem.vllm.plugins.module_utils.placement import RAY_SUFFIX, Placement, Replica, Service
from ansible_collections.tandem.vllm.plugins.module_utils.rank_group import ports
from ansible_collections.tandem.vllm.plugins.module_utils.rank_group.ray_start import ENTRYPOINT, start_argv

LABEL = "tandem.rank_group"
LABEL_EXECUTOR = "tandem.executor"
# What NCCL needs in a container to use InfiniBand or RoCE, without the rights of a privileged one: the devices, and
# leave to lock the memory that they read and write. Docker keeps the permissions of a device that has none as rwm.
RDMA_OPTIONS = {
    "devices": ["/dev/infiniband:/dev/infiniband:rwm"],
    "capabilities": ["IPC_LOCK"],
    "ulimits": ["memlock:-1:-1"],
}
RAY_FOLDER = "/tmp/ray"  # noqa: S108 - where Ray keeps its sessions, in the containers


def ray_containers(placement: Placement, node: str, launch: Launch, object_store_bytes: int) -> list[dict[str, Any]]:
    """The containers with the Ray nodes of a node: one for a rank group with Ray, else none."""
    return [
        _ray_container(placement, service, replica, node, launch, object_store_bytes)
        for service, replica in placement.rank_groups(node)
        if replica.ray_container
    ]


def engine_containers(placement: Placement, node: str, launch: Launch) -> list[dict[str, Any]]:
    """The containers with vLLM of a node's rank groups: with Ray on the group's first node only."""
    out = []
    for service, replica in placement.rank_groups(node):
        if replica.ray_container is None:
            out.append(_rank_container(placement, service, replica, node, launch))
        elif node == replica.nodes[0]:
            out.append(_driver_container(placement, service, replica, node, launch))
    return out


def member_container(
    placement: Placement,
    service: Service,
    replica: Replica,
    node: str,
    launch: Launch,
    object_store_bytes: int = 0,
) -> dict[str, Any]:
    """The container in which a rank group's ranks run on one of its nodes."""
    if replica.ray_container:
        return _ray_container(placement, service, replica, node, launch, object_store_bytes)
    return _rank_container(placement, service, replica, node, launch)


def _ray_container(
    placement: Placement, service: Service, replica: Replica, node: str, launch: Launch, object_store_bytes: int
) -> dict[str, Any]:
    address = placement.nodes[node].address
    gpus = placement.gpus(replica, node)
    # Without GPUs, in the lab, each node counts as one.
    in_ray = {placement.nodes[name].address: max(1, len(placement.gpus(replica, name))) for name in replica.nodes}
    return {
        **_alone(service),
        **_rdma_options(placement, gpus),
        "name": replica.ray_container,
        "group": replica.name,
        "leads": node == replica.nodes[0],
        "address": address,
        # Of ray_cluster_info.
        "expect": {
            "nodes": len(in_ray),
            "gpus_per_node": in_ray,
            "addresses": list(in_ray),
            "free_gpus": sum(in_ray.values()),
        },
        "image": launch.image,
        "entrypoint": ENTRYPOINT,
        "command": start_argv(address, placement.api_address(replica), in_ray[address], object_store_bytes),
        "env": {
            **containers.environment(service, launch),
            **_rank_environment(address, launch),
            **_rdma_environment(placement, gpus),
            **_shared_environment(replica),
            "AUTOSCALER_METRIC_PORT": str(ports.AUTOSCALER_METRICS),
            "DASHBOARD_METRIC_PORT": str(ports.DASHBOARD_METRICS),
        },
        "mounts": [*containers.mounts(service), _ray_folder(replica)],
        "device_requests": containers.device_requests(gpus, placement.nodes[node].gpu_access),
        "ipc_mode": "shareable",
        "memory": service.limits.memory,
        "cpus": service.limits.cpus,
        "labels": {
            containers.LABEL_ENVIRONMENT: placement.environment,
            **_labels(replica),
            "tandem.service": service.name,
        },
    }


def _driver_container(
    placement: Placement, service: Service, replica: Replica, node: str, launch: Launch
) -> dict[str, Any]:
    """vLLM's API server and engine core, which are a Ray driver. The ranks themselves run in the Ray containers.

    Interface names are left to those: vLLM would carry the driver's over to ranks on hosts that call them otherwise.
    """
    container = containers.engine_container(placement, service, replica, node, launch)
    address = placement.nodes[node].address
    beside = f"container:{replica.ray_container}"
    return {
        **container,
        "env": {
            **container["env"],
            "RAY_ADDRESS": f"{address}:{ports.GCS}",
            "VLLM_HOST_IP": address,
            **_shared_environment(replica),
        },
        "mounts": [*container["mounts"], _ray_folder(replica)],
        "network_mode": beside,
        "ipc_mode": beside,
        "pid_mode": beside,
        # The Ray container's process 1 takes care of orphans.
        "init": False,
        "restart_policy": "no",
        "state": "present",
        "group": replica.name,
        "labels": {**container["labels"], **_labels(replica)},
    }


def _rank_container(
    placement: Placement, service: Service, replica: Replica, node: str, launch: Launch
) -> dict[str, Any]:
    container = containers.engine_container(placement, service, replica, node, launch)
    gpus = placement.gpus(replica, node)
    return {
        **container,
        **_alone(service),
        **_rdma_options(placement, gpus),
        "env": {
            **container["env"],
            **_rank_environment(placement.nodes[node].address, launch),
            **_rdma_environment(placement, gpus),
            **_shared_environment(replica),
        },
        "group": replica.name,
        "labels": {**container["labels"], **_labels(replica)},
    }


def _alone(service: Service) -> dict[str, Any]:
    """Of a container that has its host's network and nothing else of anybody."""
    return {
        "network_mode": "host",
        "init": True,
        "shm_size": service.limits.shm_size,
        "restart_policy": "no",
        "state": "present",
    }


def _rank_environment(address: str, launch: Launch) -> dict[str, str]:
    """What a rank must be told of its own node."""
    interface = launch.interface
    names = {"NCCL_SOCKET_IFNAME": f"={interface}", "GLOO_SOCKET_IFNAME": interface} if interface else {}
    return {"VLLM_HOST_IP": address, **names}


def _rdma_options(placement: Placement, gpus: Sequence[str]) -> dict[str, list[str]]:
    """Only ranks with GPUs talk over NCCL."""
    return RDMA_OPTIONS if placement.network.rdma and gpus else {}


def _rdma_environment(placement: Placement, gpus: Sequence[str]) -> dict[str, str]:
    """Where nothing is stated of RDMA, NCCL decides."""
    return {"NCCL_IB_DISABLE": "1"} if placement.network.rdma is False and gpus else {}


def _shared_environment(replica: Replica) -> dict[str, str]:
    """The same on all of a group's nodes."""
    shared = {"VLLM_PORT": str(ports.VLLM[0])}
    if replica.ray_container:
        # Sockets between the driver and the ranks on its own node: each looks for them where the other can, too.
        shared["VLLM_RPC_BASE_PATH"] = RAY_FOLDER
        shared["RAY_USAGE_STATS_ENABLED"] = "0"
    return shared


def _ray_folder(replica: Replica) -> dict[str, Any]:
    return {"type": "volume", "source": replica.ray_container, "target": RAY_FOLDER}


def _labels(replica: Replica) -> dict[str, str]:
    return {LABEL: replica.name, LABEL_EXECUTOR: replica.executor}


def besides(present: Sequence[Mapping[str, Any]], placement: Placement, node: str) -> list[dict[str, Any]]:
    """Of containers as Docker lists them, those of rank groups that the placement does not have on a node, by group.

    A group with another executor has other containers and is another one. Each {group, containers, volumes}: the names,
    those first that use another's namespaces.
    """
    wanted = [_labels(replica) for _service, replica in placement.rank_groups(node)]
    found: dict[str, list[str]] = {}
    for container in present:
        labels = container.get("Labels") or {}
        group = labels.get(LABEL)
        if group and {LABEL: group, LABEL_EXECUTOR: labels.get(LABEL_EXECUTOR)} not in wanted:
            found.setdefault(group, []).append(container["Names"][0].lstrip("/"))
    return [
        {
            "group": group,
            "containers": sorted(names, key=lambda name: (RAY_SUFFIX in name, name)),
            # Also of a container that was put aside, under a longer name.
            "volumes": sorted({name.rpartition(RAY_SUFFIX)[0] + RAY_SUFFIX for name in names if RAY_SUFFIX in name}),
        }
        for group, names in sorted(found.items())
    ]
