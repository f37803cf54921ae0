# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps a rank group together: all of its containers run and belong to the same start, or none runs.

One keeper a node, run by systemd with the group's configuration file. The one of the first node leads. It gives each
start an id. The others tell it twice a second, in a UDP datagram, which start their container belongs to, and are
answered which one they are to run, or none. Whatever ends, does not answer or belongs to another start ends the
whole start: all containers are killed, and when every node has said that its own is gone, the next start begins.
A node that hears nothing of the leader kills its own container, and waits.

Containers that do not exist are waited for: that is how a deployment holds a group, by renaming them. A keeper that
is restarted (SIGHUP, or a crash) takes over the start that runs; one that is stopped (SIGTERM) ends it.

Python 3.9, standard library only. Messages go to the journal; `<state folder>/<group>.json` tells how things are.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from typing import Any

STATE_FOLDER = Path("/run/tandem/groups")
DOCKER_SOCKET = "/var/run/docker.sock"
TICK_S = 0.5
# Between two looks at which containers there are; whether the known ones live is looked at in each tick.
NAMES_S = 2.0
# How long Docker may take: for such a look, in which the others hear nothing; for what has to be known; for a start.
LOOK_S = 1.0
ASK_S = 20.0
START_S = 120.0
# Longest time from a container's start to a listening port, and from there until the gate lets the engine start.
LISTEN_S = 120.0
GATE_S = 180.0
# What a gate may need beyond that which is asking then; it has limits of its own.
GATE_ANSWER_S = 90.0
# Waits before the starts that follow one another without serving in between.
PAUSES_S = (0.0, 0.0, 5.0, 15.0, 30.0, 60.0)
CHAIN = "TANDEM-RANK-GROUP"


class DockerError(Exception):
    """Docker does not answer, or refuses."""


class _Local(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Docker:
    """The few calls of Docker's API that are needed: a client program each time would cost more than all the rest."""

    def __init__(self, path: str = DOCKER_SOCKET) -> None:
        self._path = path

    def _call(self, method: str, path: str, timeout: float = ASK_S) -> tuple[int, Any]:
        connection = _Local(self._path, timeout)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise DockerError(f"Docker does not answer: {error}") from None
        finally:
            connection.close()
        try:
            return answer.status, json.loads(body) if body.strip() else None
        except ValueError:
            return answer.status, None

    def inspect(self, name: str, timeout: float) -> dict[str, Any] | None:
        """A container, or None where there is none."""
        status, body = self._call("GET", f"/containers/{name}/json", timeout)
        if status == 404:
            return None
        if status != 200 or not isinstance(body, dict):
            raise DockerError(f"Docker answers {status} when asked for {name}")
        return body

    def start(self, name: str) -> None:
        status, body = self._call("POST", f"/containers/{name}/start", START_S)
        if status not in (204, 304):
            raise DockerError(f"{name} cannot be started: {(body or {}).get('message', status)}")

    def kill(self, name: str) -> None:
        """End a container at once; one that does not run is fine."""
        status, body = self._call("POST", f"/containers/{name}/kill")
        if status not in (204, 404, 409):
            raise DockerError(f"{name} cannot be killed: {(body or {}).get('message', status)}")


class Container:
    """One container by its name: whether it is there, and whether the process that it was started with lives.

    Of a running one only its process is looked at, twice a second; Docker is asked now and then, and when that is gone.
    """

    def __init__(self, docker: Docker, name: str) -> None:
        self.name = name
        self.exists = False
        self.id = ""
        self.error: str | None = None
        self._docker = docker
        self._pid = 0
        self._birth = ""
        self._asked = 0.0

    @property
    def runs(self) -> bool:
        return self._birth != "" and _birth(self._pid) == self._birth

    @property
    def birth(self) -> str:
        """Tells this run of the container from every other; empty when it does not run."""
        return f"{self._pid}/{self._birth}" if self.runs else ""

    def look(self, now: float, force: bool = False) -> None:
        """Find out how it is; what Docker does not answer stays as it was."""
        if not force and now - self._asked < NAMES_S and (self.runs or not self._pid):
            return
        self._asked = now
        try:
            found = self._docker.inspect(self.name, ASK_S if force else LOOK_S)
        except DockerError as error:
            self.error = str(error)
            return
        self.error = None
        self.exists = found is not None
        self.id = str((found or {}).get("Id", ""))
        state = (found or {}).get("State") or {}
        self._pid = int(state.get("Pid") or 0) if state.get("Running") else 0
        self._birth = _birth(self._pid)

    def start(self, now: float) -> None:
        self._docker.start(self.name)
        self.look(now, force=True)

    def start_beside(self) -> _Start:
        return _Start(self._docker, self.name)

    def kill(self, now: float) -> None:
        """End it, and look whether it is gone. Asks Docker only when it runs as far as is known."""
        if self.runs:
            self._docker.kill(self.name)
        self.look(now, force=True)


class _Start:
    """Has Docker start a container beside the ticks: with many GPUs that takes longer than the others may hear nothing.

    How the container is then, has to be looked for.
    """

    def __init__(self, docker: Docker, name: str) -> None:
        self.error = ""
        self._thread = threading.Thread(target=self._start, args=(docker, name), daemon=True)
        self._thread.start()

    def _start(self, docker: Docker, name: str) -> None:
        try:
            docker.start(name)
        except DockerError as error:
            self.error = str(error)

    def is_over(self, patience: float = 0) -> bool:
        self._thread.join(patience)
        return not self._thread.is_alive()


def _birth(pid: int) -> str:
    """When a process began, in ticks since the boot; empty when it is gone or a zombie."""
    if pid <= 0:
        return ""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


class Keeper:
    """What leader and follower have in common."""

    def __init__(self, given: dict[str, Any], docker: Docker) -> None:
        self.given = given
        self.group: str = given["group"]
        self.addresses: list[str] = given["addresses"]
        self.rank: int = given["rank"]
        self.silence: float = given["silence_s"]
        self.member = Container(docker, given["member"])
        self.start_id = ""
        self.member_birth = ""
        self.phase = ""
        self.reason = ""
        self._said = ""
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def to(self, phase: str, reason: str) -> None:
        """Enter a phase, and say why."""
        if (phase, reason) != (self.phase, self.reason):
            self.phase, self.reason = phase, reason
            print(f"{phase}: {reason}" if reason else phase, flush=True)
            self.save()

    def facts(self) -> dict[str, Any]:
        return {"start_id": self.start_id, "member_birth": self.member_birth}

    def save(self) -> None:
        """Tell the rest of the host, and the next keeper, how things are."""
        STATE_FOLDER.mkdir(parents=True, exist_ok=True)
        file = STATE_FOLDER / f"{self.group}.json"
        new = file.with_suffix(".new")
        told = {"phase": self.phase, "reason": self.reason, "since": time.time(), "rank": self.rank, **self.facts()}
        new.write_text(json.dumps(told) + "\n")
        new.replace(file)

    def earlier(self) -> dict[str, Any]:
        """What an earlier keeper left of this boot; /run is empty after one."""
        try:
            found = json.loads((STATE_FOLDER / f"{self.group}.json").read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def complain(self, message: str) -> None:
        """Say what is wrong, once."""
        if message != self._said:
            self._said = message
            print(message, flush=True)

    def datagrams(self) -> list[tuple[dict[str, Any], tuple[str, int]]]:
        """What has come in, of the group's own addresses."""
        out: list[tuple[dict[str, Any], tuple[str, int]]] = []
        while True:
            try:
                data, sender = self.socket.recvfrom(2048)
            except OSError:
                # Nothing more for now.
                return out
            if sender[0] not in self.addresses:
                continue
            try:
                told = json.loads(data)
            except (ValueError, RecursionError):
                continue
            if isinstance(told, dict) and told.get("group") == self.group:
                out.append((told, sender))

    def send(self, told: dict[str, Any], to: tuple[str, int]) -> None:
        try:
            self.socket.sendto(json.dumps({"group": self.group, **told}).encode(), to)
        except OSError as error:
            self.complain(f"cannot reach {to[0]}: {error.strerror}")

    def end(self, container: Container, now: float) -> bool:
        """Kill a container; whether it is gone."""
        try:
            container.kill(now)
        except DockerError as error:
            self.complain(str(error))
        return not container.runs

    def containers(self) -> list[Container]:
        """This node's, the one first that uses another's namespaces."""
        return [self.member]

    def look(self, now: float) -> None:
        """Find out how this node's containers are."""
        for container in self.containers():
            container.look(now)
            if container.error:
                self.complain(container.error)

    def tick(self, now: float) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError


class Follower(Keeper):
    """Runs what the leader says, and nothing when it says nothing."""

    def __init__(self, given: dict[str, Any], docker: Docker, now: float) -> None:
        super().__init__(given, docker)
        self.socket.bind((self.addresses[self.rank], 0))
        self.socket.setblocking(False)
        self.heard = now
        before = self.earlier()
        # Never begun twice: what has ended of a start does not come back to it.
        self.last_start: str = before.get("start_id", "")
        self.member.look(now, force=True)
        if before.get("member_birth") and before["member_birth"] == self.member.birth:
            self.start_id, self.member_birth = before["start_id"], self.member.birth
            self.to("up", f"start {self.start_id}, taken over from an earlier keeper")

    def state(self) -> str:
        if self.phase == "stopped":
            return "stopped"
        if not self.member.exists:
            return "absent"
        if self.member.runs and self.start_id and self.member.birth == self.member_birth:
            return "up"
        return "running" if self.member.runs else "down"

    def tick(self, now: float) -> None:
        self.look(now)
        wanted = self.listen(now)
        is_alone = now - self.heard > self.silence
        if is_alone:
            wanted = ""
        if wanted and wanted != self.last_start and self.member.exists:
            self.run(wanted, now)
        elif wanted == "" and (self.member.runs or self.start_id) and self.end(self.member, now):
            self.start_id = ""
        if is_alone:
            self.to("alone", f"nothing heard of {self.addresses[0]} for {self.silence:g} s")
        elif wanted is not None and not self.member.exists:
            self.to("absent", f"there is no container {self.member.name}")
        elif wanted == "" and not self.member.runs:
            self.to("down", "the leader says so")
        self.report()

    def listen(self, now: float) -> str | None:
        """The start that the leader wants, empty for none; None when it has said nothing."""
        wanted: str | None = None
        for told, sender in self.datagrams():
            if sender == (self.addresses[0], self.given["port"]) and isinstance(told.get("start_id"), str):
                self.heard, wanted = now, told["start_id"]
        return wanted

    def report(self) -> None:
        told = {"rank": self.rank, "start_id": self.start_id, "state": self.state()}
        self.send(told, (self.addresses[0], self.given["port"]))

    def run(self, start_id: str, now: float) -> None:
        """Begin a start: what ran before is not part of it."""
        if self.member.runs and not self.end(self.member, now):
            return
        try:
            self.member.start(now)
        except DockerError as error:
            # Told as a container that has ended: the leader begins anew.
            self.complain(str(error))
        self.start_id = self.last_start = start_id
        self.member_birth = self.member.birth
        self.to("up" if self.member.runs else "down", f"start {start_id}")

    def stop(self) -> None:
        self.end(self.member, time.monotonic())
        self.start_id = ""
        self.to("stopped", "the service was stopped")
        self.report()


class Leader(Keeper):
    """Begins starts and ends them.

    Phases: waiting (for containers to be there), clearing (until all are gone), starting (until all members run),
    ready (members run; the engine may start), loading (until the engine serves), serving.
    """

    def __init__(self, given: dict[str, Any], docker: Docker, now: float) -> None:
        super().__init__(given, docker)
        self.socket.bind((self.addresses[0], given["port"]))
        self.socket.setblocking(False)
        self.engine = Container(docker, given["engine"]) if given["engine"] else None
        self.engine_birth = ""
        self.others: dict[int, dict[str, Any]] = {rank: {} for rank in range(1, len(self.addresses))}
        self.entered = now
        self.failures = 0
        self.pause_until = now
        self.is_listening = False
        self.gate: _Gate | None = None
        self.engine_start: _Start | None = None
        self.health = _Health(given["health"])
        self.member.look(now, force=True)
        if self.engine:
            self.engine.look(now, force=True)
        before = self.earlier()
        takes_over = (
            before.get("phase") in ("ready", "loading", "serving")
            and before.get("member_birth") == self.member.birth != ""
        )
        if takes_over:
            self.start_id, self.member_birth = before["start_id"], before["member_birth"]
            # Whether it still is the engine that runs is found out in the first tick.
            self.engine_birth = before["engine_birth"]
            self.failures = before["failures"]
            # As if all had just been heard of: those that are not there are found out after the silence.
            self.others = {rank: {"at": now, "start_id": self.start_id, "state": "up"} for rank in self.others}
            self.enter(before["phase"], "taken over from an earlier keeper", now)
        else:
            self.enter("clearing", "begins", now)

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "engine_birth": self.engine_birth, "failures": self.failures}

    def enter(self, phase: str, reason: str, now: float) -> None:
        self.entered = now
        self.to(phase, reason)

    def tick(self, now: float) -> None:
        senders = self.listen(now)
        self.look(now)
        if self.phase in ("starting", "ready", "loading", "serving"):
            reason = self.fault(now)
            if reason:
                self.fail(reason, now)
        # Not before it is known whether the start goes on.
        wanted = self.start_id if self.members_are_wanted() else ""
        for sender in senders:
            self.send({"start_id": wanted}, sender)
        getattr(self, self.phase)(now)

    def containers(self) -> list[Container]:
        return [self.engine, self.member] if self.engine else [self.member]

    def listen(self, now: float) -> set[tuple[str, int]]:
        """Take in what the others have said; who is to be answered."""
        senders = set()
        for told, sender in self.datagrams():
            rank = told.get("rank")
            if isinstance(rank, int) and rank in self.others and self.addresses[rank] == sender[0]:
                self.others[rank] = {"at": now, "start_id": told.get("start_id"), "state": told.get("state")}
                senders.add(sender)
        return senders

    def members_are_wanted(self) -> bool:
        """Whether the others are to run: when this node's own member is there for them to find."""
        return self.phase in ("ready", "loading", "serving") or (self.phase == "starting" and self.is_listening)

    def fault(self, now: float) -> str | None:
        """Why the start that runs is over; None when it is not."""
        if not self.member.runs or self.member.birth != self.member_birth:
            return f"{self.member.name} has ended" if self.member.exists else f"{self.member.name} was taken away"
        for rank, told in self.others.items():
            if self.phase == "starting" and told.get("start_id") != self.start_id:
                continue
            silent = now - told.get("at", 0)
            if silent > self.silence:
                return f"nothing heard of {self.addresses[rank]} for {self.silence:g} s"
            if told.get("start_id") != self.start_id or told.get("state") != "up":
                return f"the member on {self.addresses[rank]} has ended"
        return None

    def fail(self, reason: str, now: float) -> None:
        """End the start. The first one after a time of serving is followed by the next at once."""
        self.failures = 0 if self.phase == "serving" else self.failures + 1
        pause = PAUSES_S[min(self.failures, len(PAUSES_S) - 1)]
        self.pause_until = now + pause
        self.enter("clearing", reason + (f"; the next start is in {pause:g} s at the earliest" if pause else ""), now)

    # What is done in each phase.

    def clearing(self, now: float) -> None:
        self.start_id, self.engine_birth = "", ""
        # Asked first: an engine that comes up in between is seen, and killed in the next tick.
        if self.engine_start and self.engine_start.is_over():
            self.engine_start = None
        gone = [self.end(container, now) for container in self.containers()]
        self.end_gate()
        if not all(gone) or self.engine_start or now < self.pause_until:
            return
        if not self.others_besides("down", "absent", now=now):
            self.enter("waiting", "", now)
            self.waiting(now)

    def end_gate(self) -> None:
        if self.gate:
            self.gate.end()
            self.gate = None

    def others_besides(self, *states: str, now: float) -> list[str]:
        """Addresses of the nodes that do not say that they are in one of these states, or say nothing."""
        return [
            self.addresses[rank]
            for rank, told in self.others.items()
            if told.get("state") not in states or now - told["at"] > self.silence
        ]

    def waiting(self, now: float) -> None:
        lack = ([] if self.member.exists else [self.addresses[0]]) + self.others_besides("down", now=now)
        if lack:
            self.to("waiting", "for the containers on " + ", ".join(lack))
            return
        # What runs was not started by this keeper, or not seen by it before.
        if not all(self.end(container, now) for container in self.containers() if container.runs):
            return
        self.start_id = uuid.uuid4().hex[:8]
        self.is_listening = False
        try:
            self.member.start(now)
        except DockerError as error:
            self.fail(str(error), now)
            return
        self.member_birth = self.member.birth
        # What an earlier engine answered says nothing of the next.
        self.health = _Health(self.given["health"])
        self.enter("starting", f"start {self.start_id}", now)

    def starting(self, now: float) -> None:
        self.is_listening = self.is_listening or _listens(self.given["listening"])
        others = [told.get("start_id") == self.start_id and told.get("state") == "up" for told in self.others.values()]
        if self.is_listening and all(others):
            self.enter("ready" if self.engine else "loading", "all members run", now)
        elif now - self.entered > LISTEN_S:
            where = "the members do not all run" if self.is_listening else f"{self.given['listening']} does not listen"
            self.fail(f"after {LISTEN_S:g} s {where}", now)

    def ready(self, now: float) -> None:
        """Members run. The engine starts when there is one, and the gate lets it."""
        if not self.engine:
            return
        if self.engine_start:
            if self.engine_start.is_over():
                self.follow_engine(self.engine, self.engine_start.error, now)
            return
        if not self.engine.exists:
            self.to("ready", f"there is no container {self.engine.name}")
        elif self.engine.runs:
            # Not started by this keeper: nobody knows what it found.
            self.end(self.engine, now)
        elif now >= self.pause_until:
            self.ask_gate(self.engine, now)
            return
        # The gate is not asked yet: its time begins when it is.
        self.end_gate()
        self.entered = now

    def ask_gate(self, engine: Container, now: float) -> None:
        self.gate = self.gate or _Gate(self.given["gate"])
        answer = self.gate.answer()
        if answer is not None:
            self.gate = None
        if answer == "":
            self.to("ready", f"Docker starts {engine.name}")
            self.engine_start = engine.start_beside()
        elif now - self.entered > GATE_S + (GATE_ANSWER_S if answer is None else 0):
            self.fail(f"not fit for the engine after {GATE_S:g} s: {answer or 'no answer'}", now)
        elif answer:
            self.to("ready", f"not fit for the engine: {answer}")

    def follow_engine(self, engine: Container, error: str, now: float) -> None:
        """Docker has started the engine, or refused to."""
        self.engine_start = None
        engine.look(now, force=True)
        if error:
            self.fail(error, now)
            return
        self.engine_birth = engine.birth
        self.health = _Health(self.given["health"])
        self.enter("loading", f"{engine.name} starts", now)

    def loading(self, now: float) -> None:
        if self.engine_has_ended(now):
            return
        if self.health.serves(now):
            self.failures = 0
            self.enter("serving", "", now)
        elif now - self.entered > self.given["start_limit_s"]:
            self.fail(f"not serving {self.given['start_limit_s']:g} s after the start", now)

    def serving(self, now: float) -> None:
        if not self.engine_has_ended(now) and self.health.says_dead(now):
            self.fail("the engine says that it is dead", now)

    def engine_has_ended(self, now: float) -> bool:
        """Whether the engine's container is no longer the one that was started. The members stay."""
        if not self.engine or (self.engine.runs and self.engine.birth == self.engine_birth):
            return False
        self.engine_birth = ""
        self.failures = 0 if self.phase == "serving" else self.failures + 1
        pause = PAUSES_S[min(self.failures, len(PAUSES_S) - 1)]
        self.pause_until = now + pause
        self.enter("ready", f"{self.engine.name} has ended", now)
        return True

    def stop(self) -> None:
        now = time.monotonic()
        self.end_gate()
        if self.engine and self.engine_start:
            self.engine_start.is_over(ASK_S)
            self.engine.look(now, force=True)
        for container in self.containers():
            self.end(container, now)
        self.enter("stopped", "the service was stopped", now)
        # The others hear nothing any more, and end theirs.


class _Gate:
    """A command that says whether the engine may start: run beside the ticks, as it takes seconds."""

    def __init__(self, argv: list[str]) -> None:
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def answer(self) -> str | None:
        """None while it runs; empty for yes, else the reason."""
        if self._process.poll() is None:
            return None
        said = (self._process.communicate()[0] or "").strip()
        return "" if self._process.returncode == 0 else said.rpartition("\n")[2] or f"exit {self._process.returncode}"

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


class _Health:
    """Asks the engine's /health beside the ticks, a question at a time."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._asked = 0.0
        self._status = 0
        self._thread: threading.Thread | None = None

    def _ask(self) -> None:
        # No proxy: it is this host's own address.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(self._url, timeout=10) as answer:
                self._status = answer.status
        except urllib.error.HTTPError as error:
            self._status = error.code
        except (OSError, http.client.HTTPException):
            self._status = 0

    def _look(self, now: float) -> int:
        if self._thread is None or (not self._thread.is_alive() and now - self._asked >= 1):
            self._asked = now
            self._thread = threading.Thread(target=self._ask, daemon=True)
            self._thread.start()
        return self._status

    def serves(self, now: float) -> bool:
        return self._look(now) == 200

    def says_dead(self, now: float) -> bool:
        """vLLM answers 503 when its engine has died. No answer says nothing: a busy server is not a dead one."""
        return self._look(now) == 503


def _listens(where: list[Any] | None) -> bool:
    if where is None:
        return True
    try:
        with socket.create_connection((where[0], where[1]), timeout=1):
            return True
    except OSError:
        return False


class Firewall:
    """Lets only the group's own nodes reach its ports: Ray and torch listen on all addresses of a host.

    Most of their ports are told beforehand. Of the others, which they choose themselves, those are found that the
    group's processes listen on, on all addresses.
    """

    def __init__(self, given: dict[str, Any], containers: list[Container]) -> None:
        self._containers = containers
        self._given = given
        self._found: set[int] = set()
        self._looked = 0.0
        self._ranges: list[tuple[int, int]] = []
        for text in given["firewall"]["tcp"]:
            first, _colon, last = text.partition(":")
            self._ranges.append((int(first), int(last or first)))

    def close(self) -> None:
        """Close what is told beforehand. What an earlier keeper closed besides is this one's to look after."""
        told = [(protocol, ports) for protocol, ranges in self._given["firewall"].items() for ports in ranges]
        for program, addresses in (("iptables", self._given["addresses"]), ("ip6tables", [])):
            rules = [["-i", "lo", "-j", "RETURN"], *[["-s", address, "-j", "RETURN"] for address in addresses]]
            _chain(program, [*rules, ["-j", "DROP"]])
            for protocol, ports in told:
                _close(program, protocol, ports)
            for protocol, ports in _closed(program).difference(told):
                if protocol == "tcp" and ports.isdigit():
                    self._found.add(int(ports))
                else:
                    _tables(program, ["-D", *_rule(protocol, ports)])

    def open(self) -> None:
        """Leave no rule: nothing of the group runs here any more."""
        for program in ("iptables", "ip6tables"):
            for protocol, ports in _closed(program):
                _tables(program, ["-D", *_rule(protocol, ports)])
            _tables(program, ["-F", CHAIN])
            _tables(program, ["-X", CHAIN])

    def look(self, now: float, often: bool) -> None:
        """Close what the processes chose themselves; open what nobody listens on any more. often: while they start."""
        if now - self._looked < (1.0 if often else 10.0):
            return
        self._looked = now
        listening = _wild_ports({c.id for c in self._containers if c.runs})
        told = {port for port in listening for first, last in self._ranges if first <= port <= last}
        chosen = listening - told
        for program in ("iptables", "ip6tables"):
            for port in chosen - self._found:
                _close(program, "tcp", str(port))
            for port in self._found - chosen:
                _tables(program, ["-D", *_rule("tcp", str(port))])
        self._found = chosen


def _wild_ports(ids: set[str]) -> set[int]:
    """TCP ports on which processes of these containers listen on all of the host's addresses."""
    inodes: dict[str, int] = {}
    for table in ("tcp", "tcp6"):
        for line in _text(f"/proc/net/{table}").splitlines()[1:]:
            columns = line.split()
            address, _colon, port = columns[1].partition(":")
            if columns[3] == "0A" and not address.strip("0"):
                inodes[columns[9]] = int(port, 16)
    found: set[int] = set()
    for process in Path("/proc").iterdir() if inodes and ids else ():
        if not process.name.isdigit() or not any(name in _text(f"{process}/cgroup") for name in ids):
            continue
        links = _links(process / "fd")
        found |= {inodes[link[8:-1]] for link in links if link.startswith("socket:[") and link[8:-1] in inodes}
    return found


def _links(folder: Path) -> list[str]:
    """Where the links of a folder of /proc lead, which goes away with its process, and any link before that."""
    found: list[str] = []
    with contextlib.suppress(OSError):
        for link in folder.iterdir():
            with contextlib.suppress(OSError):
                found.append(os.readlink(link))
    return found


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _rule(protocol: str, ports: str) -> list[str]:
    return ["INPUT", "-p", protocol, "--dport", ports, "-j", CHAIN]


def _closed(program: str) -> set[tuple[str, str]]:
    """What leads to the chain: protocol and ports."""
    found = set()
    for line in _shown(program, "INPUT").splitlines():
        words = line.split()
        if words[-1:] == [CHAIN] and "-p" in words and "--dport" in words:
            found.add((words[words.index("-p") + 1], words[words.index("--dport") + 1]))
    return found


def _close(program: str, protocol: str, ports: str) -> None:
    if _tables(program, ["-C", *_rule(protocol, ports)]) != 0:
        _tables(program, ["-I", *_rule(protocol, ports)], needed=program == "iptables")


def _chain(program: str, rules: list[list[str]]) -> None:
    """Make the chain, and fill it anew where it holds something else."""
    _tables(program, ["-N", CHAIN])
    shown = _shown(program, CHAIN)
    if shown.count("\n-A ") != len(rules) or any(_tables(program, ["-C", CHAIN, *rule]) for rule in rules):
        _tables(program, ["-F", CHAIN])
        for rule in rules:
            _tables(program, ["-A", CHAIN, *rule], needed=program == "iptables")


def _shown(program: str, chain: str) -> str:
    try:
        return subprocess.run([program, "-w", "-S", chain], capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


def _tables(program: str, argv: list[str], needed: bool = False) -> int:
    try:
        done = subprocess.run([program, "-w", *argv], capture_output=True, text=True, check=False)
    except OSError as error:
        if needed:
            print(f"the ports of the group are open to everybody: {program}: {error.strerror}", flush=True)
        return 1
    if needed and done.returncode != 0:
        print(f"the ports of the group are open to everybody: {program}: {done.stderr.strip()}", flush=True)
    return done.returncode


def main(path: str) -> None:
    """Keep the group of a configuration file together until told to stop."""
    given = json.loads(Path(path).read_text())
    now = time.monotonic()
    keeper: Keeper = Follower(given, Docker(), now) if given["rank"] else Leader(given, Docker(), now)
    firewall = Firewall(given, keeper.containers())
    firewall.close()
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: told.append(number))
    signal.signal(signal.SIGHUP, lambda number, _frame: told.append(number))
    while not told:
        now = time.monotonic()
        keeper.tick(now)
        firewall.look(now, often=keeper.phase != "serving")
        time.sleep(TICK_S)
    if signal.SIGTERM in told:
        keeper.stop()
        firewall.open()
        return
    # A new program or configuration takes over what runs.
    keeper.save()
    keeper.socket.close()
    os.execv(sys.executable, [sys.executable, __file__, path])  # noqa: S606


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
