# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The placement: what runs where. Every role and the gateway are told only this value.

A placement holds nodes and services; a service is one model under one served name with one or more replicas;
a replica is one copy of the model on one node or, as a rank group, on several.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

TASKS = ("generate", "embed", "score")
EXECUTORS = ("mp", "ray")
# How a container is given its GPUs: by Docker's device driver "nvidia" (the container toolkit's hook), or by CDI.
GPU_ACCESS = ("nvidia", "cdi")
# No name of a replica holds a dot.
RAY_SUFFIX = ".ray"
DEFAULT_PORT = 8000
DEFAULT_GATEWAY_PORT = 8080
# The systemd unit of the gateway: its processes may hold the gateway's port.
GATEWAY_UNIT = "tandem-gateway.service"


@dataclass(frozen=True)
class Node:
    """A machine that runs replicas.

    address: the private address that vLLM binds to and the gateway reaches.
    gpus: device indices or UUIDs, as strings; empty where the lab runs on CPU.
    gpu_model: what the name of each of them contains; gpu_memory_gib: its nominal memory; None: not stated.
    gpu_access: one of GPU_ACCESS.
    """

    address: str
    gpus: tuple[str, ...] = ()
    gpu_model: str | None = None
    gpu_memory_gib: float | None = None
    gpu_access: str = "nvidia"


@dataclass(frozen=True)
class Model:
    """A model directory on the nodes (absolute path) and the name clients call it by."""

    path: str
    served_name: str
    revision: str | None = None
    manifest: str | None = None


@dataclass(frozen=True)
class Limits:
    """What a container may use. Sizes as Docker writes them ("16g"); None: no limit; cpus: a number of cores."""

    shm_size: str = "8g"
    memory: str | None = None
    cpus: float | None = None


@dataclass(frozen=True)
class Replica:
    """One copy of a service's model.

    gpus: device indices or UUIDs used on its node; empty on CPU, and for a rank group, which has its nodes whole.
    port: TCP port of its API on the first node's private address.
    """

    name: str
    nodes: tuple[str, ...]
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    executor: str = "mp"
    port: int = DEFAULT_PORT
    gpus: tuple[str, ...] = ()

    @property
    def is_rank_group(self) -> bool:
        """Whether its ranks are on several nodes, so that it starts, serves and ends as a whole."""
        return len(self.nodes) > 1

    @property
    def container(self) -> str:
        """Name of the container in which vLLM runs, on each of its nodes: the one place that knows it."""
        return "tandem-" + self.name

    @property
    def ray_container(self) -> str | None:
        """Name of the container with a Ray node on each of a rank group's nodes; None where vLLM runs without Ray."""
        return self.container + RAY_SUFFIX if self.is_rank_group and self.executor == "ray" else None


@dataclass(frozen=True)
class Service:
    """One model under one served name, with its engine settings (vLLM's own names) and its replicas."""

    name: str
    model: Model
    replicas: tuple[Replica, ...]
    task: str = "generate"
    engine: Mapping[str, Any] = field(default_factory=dict)
    extra_args: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Network:
    """What the inventory states of the network between the nodes; None: nothing.

    gbit: nominal speed; latency_us: of a small all-reduce; rdma: whether ranks must use it (True) or may not (False);
    minimum_gbit: what the measured bandwidth has to reach.
    """

    gbit: float | None = None
    latency_us: float | None = None
    rdma: bool | None = None
    minimum_gbit: float | None = None


@dataclass(frozen=True)
class Placement:
    """Everything that is deployed for one environment. lab: CPU engine, nothing about GPUs is checked."""

    environment: str
    nodes: Mapping[str, Node]
    services: tuple[Service, ...]
    lab: bool = False
    network: Network = field(default_factory=Network)

    def to_dict(self) -> dict[str, Any]:
        """The form playbooks, roles and records carry: plain dicts and lists."""
        data: dict[str, Any] = plain(asdict(self))
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Placement:
        """Inverse of to_dict; raises KeyError or TypeError when the value is not a placement."""
        data = plain(data)
        services = []
        for service in data["services"]:
            replicas = tuple(
                Replica(**{**r, "nodes": tuple(r["nodes"]), "gpus": tuple(r["gpus"])}) for r in service["replicas"]
            )
            services.append(
                Service(
                    **{
                        **service,
                        "model": Model(**service["model"]),
                        "limits": Limits(**service["limits"]),
                        "replicas": replicas,
                    }
                )
            )
        nodes = {name: Node(**{**n, "gpus": tuple(n["gpus"])}) for name, n in data["nodes"].items()}
        network = Network(**data.get("network", {}))
        return cls(data["environment"], nodes, tuple(services), bool(data["lab"]), network)

    def on_node(self, node: str) -> list[tuple[Service, Replica]]:
        """The replicas that have a rank on this node, in the order of the placement."""
        return [(s, r) for s in self.services for r in s.replicas if node in r.nodes]

    def api_address(self, replica: Replica) -> str:
        """Private address on which a replica's API listens: its first node's."""
        return self.nodes[replica.nodes[0]].address

    def gpus(self, replica: Replica, node: str) -> tuple[str, ...]:
        """The GPUs that a replica uses on one of its nodes; empty on CPU."""
        return self.nodes[node].gpus if replica.is_rank_group else replica.gpus

    def rank_groups(self, node: str | None = None) -> list[tuple[Service, Replica]]:
        """The replicas over several nodes, in the order of the placement; with `node` those that have a rank there."""
        return [
            (s, r) for s in self.services for r in s.replicas if r.is_rank_group and (node is None or node in r.nodes)
        ]


@dataclass(frozen=True)
class Spread:
    """How a topology with rank groups spreads a service: nodes of each group (None: all of them), and its executor."""

    nodes_per_replica: int | None = None
    executor: str = "ray"


def dual_replica(service: Service, nodes: Mapping[str, Node], _spread: Spread) -> tuple[Replica, ...]:
    """The default placement of the dual-replica topology: one replica a node, tensor parallel over that node's GPUs.

    Replicas are named after their node, so that adding or removing a node leaves the others as they are.
    """
    return tuple(
        Replica(
            name=f"{service.name}-{name}",
            nodes=(name,),
            tensor_parallel=max(1, len(node.gpus)),
            gpus=node.gpus,
        )
        for name, node in nodes.items()
    )


def ray_tp(service: Service, nodes: Mapping[str, Node], spread: Spread) -> tuple[Replica, ...]:
    """One replica over all nodes, or one per `nodes_per_replica` of them: tensor parallel over all of its GPUs."""
    return _rank_groups(service, nodes, spread, pipelined=False)


def ray_tp_pp(service: Service, nodes: Mapping[str, Node], spread: Spread) -> tuple[Replica, ...]:
    """As ray_tp, but tensor parallel over the GPUs of a node, and pipeline parallel over nodes."""
    return _rank_groups(service, nodes, spread, pipelined=True)


def _rank_groups(service: Service, nodes: Mapping[str, Node], spread: Spread, pipelined: bool) -> tuple[Replica, ...]:
    """Named after their first node and their size."""
    names = list(nodes)
    size = spread.nodes_per_replica or len(names)
    out = []
    for start in range(0, len(names), size):
        members = names[start : start + size]
        each = max(1, len(nodes[members[0]].gpus))
        out.append(
            Replica(
                name=f"{service.name}-{members[0]}-x{len(members)}",
                nodes=tuple(members),
                tensor_parallel=each if pipelined else each * len(members),
                pipeline_parallel=len(members) if pipelined else 1,
                executor=spread.executor,
            )
        )
    return tuple(out)


def upstreams(placement: Placement) -> list[dict[str, Any]]:
    """What a gateway routes to: one upstream a service, one server a replica, in the order of the placement."""
    return [
        {
            "name": "tandem_" + service.name.replace("-", "_"),
            "service": service.name,
            "served_name": service.model.served_name,
            "task": service.task,
            "servers": [
                {
                    "replica": replica.name,
                    "node": replica.nodes[0],
                    "address": placement.api_address(replica),
                    "port": replica.port,
                }
                for replica in service.replicas
            ],
        }
        for service in placement.services
    ]


def service_release(service: Service, image: str) -> str:
    """Short id of what a service runs: image, model and every setting, but not where its replicas are.

    Containers carry it as a label. Replicas are left out so that a new node does not touch the others' containers.
    """
    return fingerprint({**asdict(service), "replicas": None, "image": image})


def release(placement: Placement, image: str, ray: Mapping[str, Any] | None = None) -> str:
    """Short id of a whole deployment: the name of its release record.

    ray: {version, extras} that is added to the image, or None.
    """
    added = {"ray": [ray["version"], sorted(ray.get("extras") or ())]} if ray else {}
    return fingerprint({"placement": placement.to_dict(), "image": image, **added})


def plain(value: Any) -> Any:
    """A copy made of dict, list and scalars only: Ansible's own containers cannot be copied by their type."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def fingerprint(value: Any, length: int = 12) -> str:
    """First hexadecimal digits of the SHA-256 of a value in canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def gpu_names(value: Mapping[str, Any]) -> tuple[str, ...]:
    """The device names of a node's `tandem_gpus`: its `ids`, or indices 0..count-1."""
    ids: Sequence[Any] = value.get("ids") or range(int(value.get("count", 0)))
    return tuple(str(i) for i in ids)
