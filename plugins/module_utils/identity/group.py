# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes of a rank group as they were looked at, what they should be, and one thing that is wrong with one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

UNKNOWN = "not known: "


@dataclass(frozen=True)
class Finding:
    """One thing wrong. node: its name; what; found and wanted: in words; remedy: what to do."""

    node: str
    what: str
    found: str
    wanted: str
    remedy: str

    def to_dict(self) -> dict[str, str]:
        """The finding as the filter returns it."""
        return asdict(self)


def not_known(node: str, what: str, reason: str | None, remedy: str) -> Finding:
    """What could not be looked at is no pass."""
    return Finding(node, what, UNKNOWN + (reason or "nothing was said"), "must be known", remedy)


@dataclass(frozen=True)
class Group:
    """addresses: of the nodes, the head first; gpus: how many each has; nodes: facts of node_identity_info; cluster:
    facts of ray_cluster_info, None where the group does without Ray.
    """

    addresses: Mapping[str, str]
    gpus: Mapping[str, int]
    nodes: Mapping[str, Mapping[str, Any]]
    cluster: Mapping[str, Any] | None

    @property
    def names(self) -> list[str]:
        """The nodes, the head first."""
        return list(self.addresses)

    @property
    def head(self) -> str:
        """The head, whose word counts where there is no majority."""
        return self.names[0]

    def looked_at(self, name: str) -> bool:
        """Whether there are facts of the node."""
        return "interfaces" in self.nodes.get(name, {})

    def container(self, name: str) -> Mapping[str, Any] | None:
        """Facts of the node's container; None where none was looked at."""
        found: Mapping[str, Any] | None = self.nodes.get(name, {}).get("container")
        return found

    def running(self) -> dict[str, Mapping[str, Any]]:
        """The containers that run, by node."""
        found = {name: self.container(name) for name in self.names}
        return {name: container for name, container in found.items() if container and container["running"]}

    def peers(self, name: str) -> list[str]:
        """Addresses of the other nodes."""
        return [address for other, address in self.addresses.items() if other != name]

    def ray_nodes(self, address: str) -> list[Mapping[str, Any]]:
        """Live nodes of the cluster with an address."""
        listed: Sequence[Mapping[str, Any]] = (self.cluster or {}).get("node_list") or ()
        return [node for node in listed if node["alive"] and node["ip"] == address]
