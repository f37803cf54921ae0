# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what the proof's program told: figures, and errors of its ranks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.transport.script import MARK, SMALL_BYTES


@dataclass(frozen=True)
class Size:
    """All-reduces of one size. seconds: the median; sent: what interfaces sent meanwhile, in bytes."""

    bytes: int
    runs: int
    seconds: float
    sent: Mapping[str, int]

    def algorithm_gbit(self) -> float:
        """Size over time, in Gbit/s."""
        return self.bytes * 8 / self.seconds / 1e9

    def bus_gbit(self, world: int) -> float:
        """What a ring of ranks sends over each link in that time, in Gbit/s: comparable with the link's speed."""
        return self.algorithm_gbit() * ring_share(world)


@dataclass(frozen=True)
class Figures:
    """What a rank measured. nccl: version, of PyTorch; named: the interface that gloo was told to use."""

    world: int
    torch: str
    nccl: str | None
    named: str | None
    latency_us: float
    sizes: tuple[Size, ...]


@dataclass(frozen=True)
class RankError:
    """Why a rank failed. missing: ranks that had not come; stopped: only because another had failed before."""

    rank: int
    stage: str
    error: str
    missing: tuple[int, ...]
    stopped: bool


@dataclass(frozen=True)
class Stage:
    """How far a rank is. missing: ranks that have not come yet."""

    name: str
    missing: tuple[int, ...] = ()


@dataclass(frozen=True)
class Told:
    """All that was told on one node. stage: the last one."""

    figures: Figures | None
    errors: tuple[RankError, ...]
    stage: Stage | None = None


def ring_share(world: int) -> float:
    """How often each rank sends the message in a ring all-reduce: 2 (n - 1) / n times."""
    return 2 * (world - 1) / world


def parse(log: str) -> Told:
    """Read a container's log."""
    figures: Figures | None = None
    stage: Stage | None = None
    errors = []
    for line in log.splitlines():
        if not line.startswith(MARK):
            continue
        try:
            told: dict[str, Any] = json.loads(line[len(MARK) :])
        except ValueError:  # a line that another one broke into
            continue
        if "error" in told:
            errors.append(_error(told))
        elif "sizes" in told:
            figures = _figures(told)
        else:
            stage = Stage(told["stage"], tuple(told.get("missing") or ()))
    return Told(figures, tuple(errors), stage)


def _error(told: Mapping[str, Any]) -> RankError:
    missing = tuple(told.get("missing") or ())
    return RankError(told["rank"], told["stage"], told["error"], missing, bool(told.get("stopped")))


def _figures(told: Mapping[str, Any]) -> Figures:
    sizes = [Size(row["size_bytes"], row["runs"], row["seconds"], row["sent"]) for row in told["sizes"]]
    small = next(size for size in sizes if size.bytes == SMALL_BYTES)
    return Figures(
        world=told["world_size"],
        torch=told["torch"],
        nccl=told["nccl"],
        named=told["named"],
        latency_us=small.seconds * 1e6,
        sizes=tuple(size for size in sizes if size is not small),
    )
