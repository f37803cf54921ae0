# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The containers of a placement, as options of community.docker.docker_container."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def replica_container(
    placement: Placement,
    service: Service,
    replica: Replica,
    image: str,
    engine_key: str,
    key_file: str,
    model_environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Container options of a replica on one node, and how to ask it (url, served_name, task).

    image: id or reference, as the node has it. engine_key: only its fingerprint is used, as a label, so that a new key
    makes a new container. key_file: the root-only file on the node that holds the key. model_environment: variables
    that the model's files on this node ask for.
    """
    limits = service.limits
    return {
        "name": replica.container,
        "replica": replica.name,
        "url": "http://%s:%d" % (placement.api_address(replica), replica.port),
        "served_name": service.model.served_name,
        "task": service.task,
        "image": image,
        "entrypoint": ENTRYPOINT,
        "command": serve_argv(service, replica),
        "env": {
            **OFFLINE_ENVIRONMENT,
            **(model_environment or {}),
            **{k: str(v) for k, v in service.environment.items()},
        },
        "mounts": [
            {"type": "bind", "source": service.model.path, "target": service.model.path, "read_only": True},
            {"type": "bind", "source": key_file, "target": KEY_IN_CONTAINER, "read_only": True},
        ],
        "published_ports": ["%s:%d:%d" % (placement.api_address(replica), replica.port, replica.port)],
        "device_requests": device_requests(replica.gpus, placement.nodes[replica.nodes[0]].gpu_access),
        "shm_size": limits.shm_size,
        "memory": limits.memory,
        "cpus": limits.cpus,
        "labels": {
            LABEL_ENVIRONMENT: placement.environment,
            "tandem.service": service.name,
            "tandem.replica": replica.name,
            "tandem.release": service_release(service, image),
            "tandem.engine_key": fingerprint([placement.environment, service.name, engine_key]),
        },
    }


def device_requests(gpus: Sequence[str], access: str) -> list[dict[str, Any]]:
    """How Docker is asked for GPUs (indices or UUIDs; none on CPU): one request at most. access: of GPU_ACCESS."""
    if not gpus:
        return []
    # Docker keeps a count of 0 where none is given: without it a container would always seem to differ.
    if access == "cdi":
        return [{"driver": "cdi", "count": 0, "device_ids": [CDI_KIND + gpu for gpu in gpus]}]
    return [{"driver": "nvidia", "count": 0, "device_ids": list(gpus), "capabilities": [["gpu"]]}]


def node_containers(
    placement: Placement,
    node: str,
    image: str,
    engine_key: str,
    key_file: str,
    model_environment: Mapping[str, Mapping[str, str]] | None = None,
) -> list[dict[str, Any]]:
    """Container options of every replica on a node, in the order of the placement.

    model_environment: per model path the variables that the model's files on this node ask for.
    """
    by_path = model_environment or {}
    return [
        replica_container(placement, service, replica, image, engine_key, key_file, by_path.get(service.model.path))
        for service, replica in placement.on_node(node)
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
