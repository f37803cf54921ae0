# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts a transport proof's container on this host, and collects what it told."""

from __future__ import annotations

import calendar
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import TIMED_OUT, Docker, Runner, limited
from ansible_collections.tandem.vllm.plugins.module_utils.transport.failure import Ended
from ansible_collections.tandem.vllm.plugins.module_utils.transport.launch import LABEL_KEY, LABEL_VALUE

DOCKER_SECONDS = 60
# Of each rank's log, NCCL's part is some hundred lines.
LOG_TAIL = 50000


@dataclass(frozen=True)
class Collected:
    """A container that was collected. left: why it could not be removed; None when it is gone."""

    ended: Ended
    log: str
    left: str | None


def _age(started_at: str) -> float:
    """Seconds since a time as Docker writes it, in UTC."""
    return time.time() - calendar.timegm(time.strptime(started_at[:19], "%Y-%m-%dT%H:%M:%S"))


class ProofContainer:
    """The container of one name on this host."""

    def __init__(self, run: Runner, name: str) -> None:
        self._run, self._name = run, name
        self._docker = Docker(run)

    def is_anothers(self) -> bool:
        """Whether there is a container of that name that is no proof."""
        form = '{{index .Config.Labels "' + LABEL_KEY + '"}}'
        argv = ["docker", "container", "inspect", "--format", form, self._name]
        status, out, _err = self._run(limited(DOCKER_SECONDS, argv))
        return status == 0 and out.strip() != LABEL_VALUE

    def start(self, argv: Sequence[str]) -> str | None:
        """Start it by its `docker run` command line, in place of one that was left; None, or what Docker said."""
        left = self._docker.remove(self._name)
        if left:
            return left
        status, out, err = self._run(limited(DOCKER_SECONDS, argv))
        if status == 0:
            return None
        # One that could not be started is there nevertheless.
        self._docker.remove(self._name)
        return err.strip() or out.strip() or f"docker run ended with exit status {status}"

    def running(self, seconds: int, limit: int) -> str | None:
        """Wait for its end, for so many seconds: its log while it may run on, None when it ended or is over its limit.

        limit: seconds from its start.
        """
        status, _out, _err = self._run(limited(seconds, ["docker", "wait", self._name]))
        state = self._docker.container(self._name) if status in TIMED_OUT else None
        if state is None or _age(state.started_at) >= limit:
            return None
        return self._docker.logs(self._name, LOG_TAIL)

    def collect(self, seconds: int) -> Collected:
        """Wait for its end, for so many seconds at most, read its log and remove it."""
        left: str | None = None
        try:
            status, _out, err = self._run(limited(seconds, ["docker", "wait", self._name]))
            state = self._docker.container(self._name)
            if state is None:
                return Collected(Ended(False, error=err.strip()), "", None)
            log = self._docker.logs(self._name, LOG_TAIL)
        finally:
            left = self._docker.remove(self._name)
        ended = Ended(
            True, status in TIMED_OUT and state.status == "running", state.exit_code, state.oom_killed, state.error
        )
        return Collected(ended, log, left)
