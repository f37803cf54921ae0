# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks Ray inside a container of this host."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import TIMED_OUT, Docker, Runner, limited
from ansible_collections.tandem.vllm.plugins.module_utils.ray import commands, errors
from ansible_collections.tandem.vllm.plugins.module_utils.ray.clean import COLOUR

# Docker itself may hang; the command within has its own, shorter limit.
DOCKER_SECONDS = 15
LOG_TAIL = 200


@dataclass(frozen=True)
class Look:
    """What a look gave. status_text; nodes_text: None where it was no use to ask; versions: of the cluster, or None.

    problem: why the nodes could not be listed; None when they were, or were not asked for.
    """

    status_text: str
    nodes_text: str | None
    ray_version: str | None
    python_version: str | None
    problem: str | None


class RayContainer:
    """A container with a Ray node in it."""

    def __init__(self, run: Runner, name: str, address: str | None, seconds: int) -> None:
        self._run, self._name, self._address, self._seconds = run, name, address, seconds
        self._docker = Docker(run)

    def look(self) -> Look:
        """One look at the cluster, of three commands at most, each no longer than its seconds."""
        status = self._ask(commands.status(self._name, self._address, self._seconds))
        if errors.find(status.splitlines()) and "Node status" not in status:
            return Look(status, None, None, None, None)
        seen = commands.looked(self._ask(commands.look(self._name, self._address, self._seconds)))
        # The head's versions are the cluster's; releases that do not keep them have only this container's own.
        cluster = seen.get("cluster") or seen
        versions = cluster.get("ray_version"), cluster.get("python_version")
        if seen.get("nodes") is not None:
            return Look(status, json.dumps(seen["nodes"]), *versions, None)
        listed = self._ask(commands.list_nodes(self._name, self._address, self._seconds))
        return Look(status, listed, *versions, seen.get("error"))

    def log(self) -> list[str]:
        """The last lines of the container's own log; empty where there is no such container."""
        if self._docker.container(self._name) is None:
            return []
        log = COLOUR.sub("", self._docker.logs(self._name, LOG_TAIL))
        return [line.rstrip() for line in log.splitlines() if line.strip()]

    def _ask(self, argv: list[str]) -> str:
        status, out, err = self._run(limited(self._seconds + DOCKER_SECONDS, argv))
        text = err + "\n" + out
        if status in TIMED_OUT and "Node status" not in out:
            # In the words of Ray, which was killed before it said them.
            return f"{text}\nTimed out while waiting for GCS: no answer within {self._seconds} s"
        return text
