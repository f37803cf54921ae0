# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts of a rank group on loopback addresses, with the keeper's own program on each and fakes round it."""

from __future__ import annotations

import importlib.util
import json
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[4]
PROGRAM = ROOT / "roles/rank_group/files/rank_group.py"
GROUP = "chat-node-a-x3"
MEMBER = "tandem-chat.ray"
ENGINE = "tandem-chat"
SILENCE_S = 3.0
START_LIMIT_S = 600.0
REFUSED = "4 of 8 GPUs are free"


SPEC = importlib.util.spec_from_file_location("rank_group", PROGRAM)
assert SPEC is not None
assert isinstance(SPEC.loader, SourceFileLoader)
CODE = SPEC.loader.get_code("rank_group")


def load() -> ModuleType:
    """The keeper's program, each time anew: every host has its own. Compiled once, as that takes longest."""
    assert SPEC is not None
    assert CODE is not None
    module = importlib.util.module_from_spec(SPEC)
    exec(CODE, module.__dict__)  # noqa: S102 - what the loader does
    return module


def free_udp_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class FakeDocker:
    """One host's Docker. A container's process is a real one, so that its pid and its birth are real."""

    def __init__(self, error: type[Exception], happened: Callable[[str, str], None] = lambda what, name: None) -> None:
        self.error = error
        self.happened = happened
        self.processes: dict[str, subprocess.Popen[bytes] | None] = {}
        self.ids: dict[str, str] = {}
        self.answers = True
        self.kills = True
        self.refuses: set[str] = set()
        self.may_start = threading.Event()
        self.may_start.set()
        self.patience: list[float] = []

    # What the keeper asks of it.

    def inspect(self, name: str, timeout: float) -> dict[str, Any] | None:
        self.patience.append(timeout)
        self.needs(self.answers)
        if name not in self.processes:
            return None
        return {"Id": self.ids[name], "State": {"Running": self.runs(name), "Pid": self.pid(name)}}

    def start(self, name: str) -> None:
        self.may_start.wait(20)
        self.needs(self.answers and name in self.processes and name not in self.refuses)
        if not self.runs(name):
            self.processes[name] = subprocess.Popen(["sleep", "600"])
            self.happened("start", name)

    def kill(self, name: str) -> None:
        self.needs(self.answers and self.kills)
        if self.runs(name):
            self.end(name)
            self.happened("kill", name)

    def needs(self, met: bool) -> None:
        if not met:
            raise self.error("Docker does not answer, or refuses")

    # What happens on the host.

    def make(self, *names: str) -> None:
        for name in names:
            self.processes[name] = None
            self.ids[name] = f"{len(self.ids) + 1:064x}"

    def rename(self, old: str, new: str) -> None:
        self.processes[new], self.ids[new] = self.processes.pop(old), self.ids[old]

    def end(self, name: str) -> None:
        process = self.processes[name]
        assert process
        process.kill()
        process.wait()

    def restart(self, name: str) -> None:
        """By somebody who is not the keeper."""
        if self.runs(name):
            self.end(name)
        self.processes[name] = subprocess.Popen(["sleep", "600"])

    def runs(self, name: str) -> bool:
        process = self.processes.get(name)
        return process is not None and process.poll() is None

    def pid(self, name: str) -> int:
        process = self.processes.get(name)
        return process.pid if process is not None and self.runs(name) else 0

    def running(self) -> list[str]:
        return sorted(name for name in self.processes if self.runs(name))

    def clean_up(self) -> None:
        self.may_start.set()
        for name in self.running():
            self.end(name)


class FakeHealth:
    """An engine that answers what the world says, at once."""

    def __init__(self, world: World) -> None:
        self._world = world

    def serves(self, now: float) -> bool:
        return self._world.status == 200

    def says_dead(self, now: float) -> bool:
        return self._world.status == 503


class World:
    """The hosts of a group, and a clock. The first host leads; with Ray it has the engine in a container of its own."""

    def __init__(self, folder: Path, nodes: int = 3, ray: bool = True) -> None:
        self.now = 1000.0
        self.folder = folder
        self.ray = ray
        self.addresses = [f"127.0.0.{number}" for number in range(1, nodes + 1)]
        self.port = free_udp_port()
        self.listens = True
        self.status = 200
        self.gate_answers = True
        # (start or kill, rank, container), as it happened; what somebody else does is not in it.
        self.events: list[tuple[str, int, str]] = []
        self.cut_off: set[int] = set()
        self.programs = [self._program(rank) for rank in range(nodes)]
        self.dockers = [self._docker(rank) for rank in range(nodes)]
        self.keepers: dict[int, Any] = {}
        # What each keeper has said, in order: phases that are left within a tick too.
        self.said: dict[int, list[tuple[str, str]]] = {}

    def _program(self, rank: int) -> Any:
        program: Any = load()
        program.STATE_FOLDER = self.folder / f"node{rank}"
        program._Health = lambda url: FakeHealth(self)
        program._listens = lambda where: self.listens
        return program

    def _docker(self, rank: int) -> FakeDocker:
        error = self.programs[rank].DockerError
        return FakeDocker(error, lambda what, name: self.events.append((what, rank, name)))

    def given(self, rank: int) -> dict[str, Any]:
        leads_ray = self.ray and rank == 0
        return {
            "group": GROUP,
            "rank": rank,
            "addresses": self.addresses,
            "port": self.port,
            "silence_s": SILENCE_S,
            "start_limit_s": START_LIMIT_S,
            "member": MEMBER,
            "listening": [self.addresses[0], 6379] if leads_ray else None,
            "gate": self.gate if leads_ray else None,
            "engine": ENGINE if leads_ray else None,
            "health": "http://127.0.0.1:8000/health" if rank == 0 else None,
            "firewall": {"tcp": ["6379:6391"], "udp": ["6389"]},
        }

    @property
    def gate(self) -> list[str]:
        return ["sh", "-c", f"test -e {self.folder}/free || {{ echo warning; echo {REFUSED}; exit 1; }}"]

    def gate_allows(self, allows: bool = True) -> None:
        if allows:
            (self.folder / "free").touch()
        else:
            (self.folder / "free").unlink(missing_ok=True)

    def make_containers(self) -> None:
        for rank, docker in enumerate(self.dockers):
            docker.make(*([ENGINE, MEMBER] if self.ray and rank == 0 else [MEMBER]))

    def begin(self, rank: int) -> None:
        """Start a host's keeper; where one runs, it ends as in a crash."""
        if rank in self.keepers:
            self.keepers[rank].socket.close()
        program = self.programs[rank]
        kind = program.Follower if rank else program.Leader
        keeper = self.keepers[rank] = kind(self.given(rank), self.dockers[rank], self.now)
        said = self.said[rank] = [(keeper.phase, keeper.reason)]
        to = keeper.to

        def say(phase: str, reason: str) -> None:
            said.append((phase, reason))
            to(phase, reason)

        keeper.to = say

    def begin_all(self) -> None:
        for rank in range(len(self.addresses)):
            self.begin(rank)

    # Time.

    def step(self, seconds: float = 0.5) -> None:
        """A tick of every keeper that is not cut off. What is beside the ticks is waited for, not timed."""
        self.now += seconds
        leader = self.keepers.get(0)
        if leader and leader.gate and self.gate_answers:
            leader.gate._process.wait(20)
        if leader and leader.engine_start and self.dockers[0].may_start.is_set():
            assert leader.engine_start.is_over(20)
        for rank in sorted(self.keepers):
            if rank not in self.cut_off:
                self.keepers[rank].tick(self.now)

    def settle(self, seconds: float, step: float = 0.5) -> None:
        until = self.now + seconds
        while self.now < until:
            self.step(step)

    def until(self, phase: str, seconds: float = 30, rank: int = 0, step: float = 0.5) -> float:
        """Go on until a keeper is in a phase, or has been in the last tick; how long it took."""
        began, known = self.now, len(self.said[rank])
        while phase not in [self.keepers[rank].phase, *(said for said, _reason in self.said[rank][known:])]:
            assert self.now - began <= seconds, f"{self.keepers[rank].phase}: {self.keepers[rank].reason}"
            self.step(step)
        return self.now - began

    def ends(self, seconds: float = 3) -> str:
        """Go on until the start is over; why it is."""
        self.until("clearing", seconds)
        return [reason for phase, reason in self.said[0] if phase == "clearing"][-1]

    # How things are.

    @property
    def leader(self) -> Any:
        return self.keepers[0]

    def start_ids(self) -> set[str]:
        return {keeper.start_id for keeper in self.keepers.values()}

    def pids(self) -> dict[tuple[int, str], int]:
        names = [(rank, name) for rank, docker in enumerate(self.dockers) for name in docker.processes]
        return {(rank, name): self.dockers[rank].pid(name) for rank, name in names}

    def running(self) -> list[tuple[int, str]]:
        return [place for place, pid in self.pids().items() if pid]

    def told(self, rank: int) -> dict[str, Any]:
        """The state file of a host."""
        found = json.loads((self.programs[rank].STATE_FOLDER / f"{GROUP}.json").read_text())
        assert isinstance(found, dict)
        return found

    def clean_up(self) -> None:
        for keeper in self.keepers.values():
            keeper.socket.close()
            if getattr(keeper, "gate", None):
                keeper.gate.end()
        for docker in self.dockers:
            docker.clean_up()


def one_start(world: World) -> str:
    """The id of the start to which everything that runs belongs, all of it."""
    (start_id,) = world.start_ids()
    assert start_id
    assert all(world.pids().values())
    return str(start_id)


def runs_again_as_a_whole(world: World, before: dict[tuple[int, str], int], events: int) -> None:
    """Of the containers before nothing runs, and no new one was started before the last of them was gone."""
    since = world.events[events:]
    first = next(number for number, (what, _rank, _name) in enumerate(since) if what == "start")
    assert all(what == "start" for what, _rank, _name in since[first:])
    assert not set(before.values()) & set(world.pids().values())
    assert all(world.pids().values())


def restore_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
