# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The containers of a placement, as options of community.docker.docker_container."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.placement import (
    Placement,
    Replica,
    Service,
    fingerprint,
    service_release,
)
from ansible_collections.tandem.vllm.plugins.module_utils.vllm_argv import serve_argv

# Nothing that serves may look anything up outside (bundles and models are on the node), and nothing reports home.
OFFLINE_ENVIRONMENT = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
# What `nvidia-ctk cdi generate` calls its devices: this and an index or UUID.
CDI_KIND = "nvidia.com/gpu="
LABEL_ENVIRONMENT = "tandem.environment"
KEY_IN_CONTAINER = "/run/tandem/engine.key"

# vLLM takes its key from an argument or from the environment, and both show (`ps`, `docker inspect`). A root-only file
# read by the shell that becomes vLLM shows in neither.
ENTRYPOINT = ["/bin/sh", "-c", f'VLLM_API_KEY="$(cat {KEY_IN_CONTAINER})" && export VLLM_API_KEY && exec "$@"', "sh"]


@dataclass(frozen=True)
class Launch:
    """What the containers of a placement are made with on one node.

    image: id or reference, as the node has it. engine_key: only its fingerprint is used, as a label, so that a new key
    makes a new container. key_file: the root-only file on the node that holds the key. model_environment: by a model's
    path, variables that its files on this node ask for. interface: the network interface with the node's address.
    """

    image: str
    engine_key: str
    key_file: str
    model_environment: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    interface: str | None = None


def engine_container(
    placement: Placement, service: Service, replica: Replica, node: str, launch: Launch
) -> dict[str, Any]:
    """The container in which vLLM runs on one of a replica's nodes, and how to ask it (url, served_name, task)."""
    limits = service.limits
    return {
        "name": replica.container,
        "replica": replica.name,
        "url": "http://%s:%d" % (placement.api_address(replica), replica.port),
        "served_name": service.model.served_name,
        "task": service.task,
        "image": launch.image,
        "entrypoint": ENTRYPOINT,
        "command": serve_argv(placement, service, replica, node),
        "env": environment(service, launch),
        "mounts": [*mounts(service), _read_only(launch.key_file, KEY_IN_CONTAINER)],
        "device_requests": device_requests(placement.gpus(replica, node), placement.nodes[node].gpu_access),
        "memory": limits.memory,
        "cpus": limits.cpus,
        "labels": {
            LABEL_ENVIRONMENT: placement.environment,
            "tandem.service": service.name,
            "tandem.release": service_release(service, launch.image),
            "tandem.engine_key": fingerprint([placement.environment, service.name, launch.engine_key]),
        },
    }


def replica_container(placement: Placement, service: Service, replica: Replica, launch: Launch) -> dict[str, Any]:
    """Options of the one container of a replica on one node."""
    container = engine_container(placement, service, replica, replica.nodes[0], launch)
    return {
        **container,
        "init": True,
        "published_ports": ["%s:%d:%d" % (placement.api_address(replica), replica.port, replica.port)],
        "shm_size": service.limits.shm_size,
        # An engine that has lost its workers ends with exit code 0: only a policy that does not look at the code helps.
        "restart_policy": "unless-stopped",
        "state": "started",
        "labels": {**container["labels"], "tandem.replica": replica.name},
    }


def environment(service: Service, launch: Launch) -> dict[str, str]:
    """Environment of every process of a service's engine on one node."""
    return {
        **OFFLINE_ENVIRONMENT,
        **launch.model_environment.get(service.model.path, {}),
        **{k: str(v) for k, v in service.environment.items()},
    }


def mounts(service: Service) -> list[dict[str, Any]]:
    """The model's files, as every process of its engine sees them."""
    return [_read_only(service.model.path, service.model.path)]


def _read_only(source: str, target: str) -> dict[str, Any]:
    return {"type": "bind", "source": source, "target": target, "read_only": True}


def device_requests(gpus: Sequence[str], access: str) -> list[dict[str, Any]]:
    """How Docker is asked for GPUs (indices or UUIDs; none on CPU): one request at most. access: of GPU_ACCESS."""
    if not gpus:
        return []
    # Docker keeps a count of 0 where none is given: without it a container would always seem to differ.
    if access == "cdi":
        return [{"driver": "cdi", "count": 0, "device_ids": [CDI_KIND + gpu for gpu in gpus]}]
    return [{"driver": "nvidia", "count": 0, "device_ids": list(gpus), "capabilities": [["gpu"]]}]


def node_containers(placement: Placement, node: str, launch: Launch) -> list[dict[str, Any]]:
    """Container options of every replica that is on this node alone, in the order of the placement."""
    return [
        replica_container(placement, service, replica, launch)
        for service, replica in placement.on_node(node)
        if not replica.is_rank_group
    ]


def besides(present: Sequence[Mapping[str, Any]], wanted: Sequence[str]) -> list[dict[str, Any]]:
    """Of containers as Docker lists them, those with other names than the wanted ones: their name and API's url.

    A container that does not run publishes nothing: its url is "".
    """
    out = []
    for container in present:
        name = container["Names"][0].lstrip("/")
        if name not in wanted:
            published = [p for p in container.get("Ports") or () if p.get("PublicPort")]
            url = "http://{IP}:{PublicPort}".format(**published[0]) if published else ""
            out.append({"name": name, "url": url})
    return out


def pending(results: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """What docker_container, run in check mode over containers, says is to be done: the loop's items by what it takes.

    to_start: not there, not running, or to be updated in place. to_replace: running with other options, so that a
    change interrupts what it serves.
    """
    out: dict[str, list[Any]] = {"to_start": [], "to_replace": []}
    for result in results:
        actions: set[str] = set()
        for action in result.get("actions") or ():
            actions.update(action)
        if actions:
            out["to_replace" if "removed" in actions else "to_start"].append(result["item"])
    return out
