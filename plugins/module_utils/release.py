# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a deployment ran: the record that is kept of it, and the table that is shown of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.placement import (
    Placement,
    Replica,
    Service,
    release,
    service_release,
)
from ansible_collections.tandem.vllm.plugins.module_utils.vllm_argv import serve_argv

# Per node what vllm_engine_info returned of each of its replicas.
Engines = Mapping[str, Sequence[Mapping[str, Any]]]


def _replicas(placement: Placement, engines: Engines) -> Iterator[tuple[Service, Replica, Mapping[str, Any]]]:
    """Each replica with what its engine said; nothing ({}) where it was not asked."""
    for service in placement.services:
        for replica in service.replicas:
            said = [e for e in engines.get(replica.nodes[0], ()) if e.get("container") == replica.container]
            yield service, replica, said[0] if said else {}


def release_record(
    placement: Placement,
    image: str,
    engines: Engines,
    ray: Mapping[str, Any] | None = None,
    launched: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Enough to tell later what ran, and to run the same again. Holds no key.

    ray: {version, extras} that was added to the image, or None. launched: per node the image that its containers were
    made of, where that is not `image` itself: one made on the node, or the same by its id.
    """
    launched = launched or {}
    return {
        "schema": 1,
        "release": release(placement, image, ray),
        "image": image,
        "ray": dict(ray) if ray else None,
        "placement": placement.to_dict(),
        "replicas": [
            {
                "replica": replica.name,
                "container": replica.container,
                "image": launched.get(replica.nodes[0], image),
                "service_release": service_release(service, launched.get(replica.nodes[0], image)),
                "argv": serve_argv(placement, service, replica, replica.nodes[0]),
                "vllm_version": said.get("vllm_version"),
                "kv_cache_tokens": said.get("kv_cache_tokens"),
            }
            for service, replica, said in _replicas(placement, engines)
        ],
    }


def replica_rows(placement: Placement, engines: Engines) -> list[dict[str, Any]]:
    """A row a replica, for the table at the end of a deployment."""
    return [
        {
            "service": service.name,
            "model": service.model.served_name,
            "replica": replica.name,
            "node": ", ".join(replica.nodes),
            "gpus": "; ".join(filter(None, (", ".join(placement.gpus(replica, n)) for n in replica.nodes)))
            or "none (CPU)",
            "vllm": said.get("vllm_version") or "?",
            "kv_tokens": "{:,}".format(said["kv_cache_tokens"]) if said.get("kv_cache_tokens") else "?",
            "state": said.get("state") or "not asked",
        }
        for service, replica, said in _replicas(placement, engines)
    ]
