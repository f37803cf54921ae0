# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Views of a placement that playbooks and roles need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils import containers, release
from ansible_collections.tandem.vllm.plugins.module_utils import placement as pure
from ansible_collections.tandem.vllm.plugins.module_utils.containers import Launch
from ansible_collections.tandem.vllm.plugins.module_utils.placement import Placement
from ansible_collections.tandem.vllm.plugins.module_utils.rank_group import containers as rank_group_containers
from ansible_collections.tandem.vllm.plugins.module_utils.rank_group import keeper
from ansible_collections.tandem.vllm.plugins.module_utils.rank_group.launch import launch_of


def upstreams(placement: Mapping[str, Any]) -> list[dict[str, Any]]:
    return pure.upstreams(Placement.from_dict(placement))


def containers_on(
    placement: Mapping[str, Any],
    node: str,
    image: str,
    engine_key: str,
    key_file: str,
    model_environment: Mapping[str, Mapping[str, str]] | None = None,
    interface: str | None = None,
) -> list[dict[str, Any]]:
    launch = Launch(image, engine_key, key_file, pure.plain(model_environment or {}), interface)
    read = Placement.from_dict(placement)
    return containers.node_containers(read, node, launch) + rank_group_containers.engine_containers(read, node, launch)


def ray_containers_on(
    placement: Mapping[str, Any],
    node: str,
    image: str,
    object_store_bytes: int,
    model_environment: Mapping[str, Mapping[str, str]] | None = None,
    interface: str | None = None,
) -> list[dict[str, Any]]:
    launch = Launch(image, "", "", pure.plain(model_environment or {}), interface)
    return rank_group_containers.ray_containers(Placement.from_dict(placement), node, launch, int(object_store_bytes))


def rank_groups_on(
    placement: Mapping[str, Any], node: str, silence: float, start_timeout: float
) -> list[dict[str, Any]]:
    return keeper.configurations(Placement.from_dict(placement), node, float(silence), float(start_timeout))


def containers_besides(present: list[dict[str, Any]], wanted: list[str]) -> list[dict[str, Any]]:
    return containers.besides(present, wanted)


def rank_group_launch(
    placement: Mapping[str, Any],
    name: str,
    node: str,
    image: str,
    model_environment: Mapping[str, Mapping[str, str]] | None = None,
    interface: str | None = None,
) -> dict[str, Any]:
    launch = Launch(image, "", "", pure.plain(model_environment or {}), interface)
    return launch_of(Placement.from_dict(placement), name, node, launch)


def rank_groups_besides(present: list[dict[str, Any]], placement: Mapping[str, Any], node: str) -> list[dict[str, Any]]:
    return rank_group_containers.besides(present, Placement.from_dict(placement), node)


def pending_containers(results: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return containers.pending(results)


def contract_hosts(names: list[str], hostvars: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "name": str(name),
            "address": hostvars[name].get("tandem_address"),
            "gpus": hostvars[name].get("tandem_gpus"),
            "port": hostvars[name].get("tandem_gateway_port", pure.DEFAULT_GATEWAY_PORT),
        }
        for name in names
    ]


def release_record(
    placement: Mapping[str, Any],
    image: str,
    engines: Mapping[str, list[dict[str, Any]]],
    ray: Mapping[str, Any] | None = None,
    launched: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    return release.release_record(Placement.from_dict(placement), image, engines, ray, launched)


def replica_rows(placement: Mapping[str, Any], engines: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return release.replica_rows(Placement.from_dict(placement), engines)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "contract_hosts": contract_hosts,
            "containers_besides": containers_besides,
            "containers_on": containers_on,
            "pending_containers": pending_containers,
            "rank_group_launch": rank_group_launch,
            "rank_groups_besides": rank_groups_besides,
            "rank_groups_on": rank_groups_on,
            "ray_containers_on": ray_containers_on,
            "release_record": release_record,
            "replica_rows": replica_rows,
            "upstreams": upstreams,
        }
