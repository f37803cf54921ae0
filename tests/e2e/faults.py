# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can happen to a rank group on the lab's hosts, and what clients of the gateway see of it.

The group is of node1, its first node, and node2. Nothing here uses Ansible once the lab's variables are read: a group
comes back by itself.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field

from ansible_collections.tandem.vllm.tests.e2e import lab
from ansible_collections.tandem.vllm.tests.e2e.lab import on

GROUP = "chat-node1-x2"
ENGINE = f"tandem-{GROUP}"
MEMBER = f"{ENGINE}.ray"
CUT_S = 30
# Between two questions, and the longest wait for an answer.
INTERVAL_S = 0.5
PATIENCE_S = 20.0


def docker(*command: str) -> None:
    subprocess.run(["docker", *command], check=True, stdout=subprocess.DEVNULL)


def kill(host: str, *pattern: str) -> None:
    """Kill the processes of a lab host that pgrep finds, by their ids."""
    found = on(host, "pgrep", *pattern).output.split()
    assert found, (host, pattern)
    assert on(host, "kill", "-9", *found).status == 0


def cut(host: str) -> None:
    # Not by `docker network disconnect`: after it the interface has another name, which no real one would have.
    assert on(host, "ip", "link", "set", "eth0", "down").status == 0
    time.sleep(CUT_S)
    assert on(host, "ip", "link", "set", "eth0", "up").status == 0


# What happens -> how it is done. Each goes on by itself; `cut` returns when the network is back.
FAULTS: dict[str, Callable[[], object]] = {
    "engine core, kill -9": lambda: kill("node1", "-f", "^VLLM::EngineCor"),
    "API server, kill -9": lambda: kill("node1", "-f", "bin/vllm serve"),
    "rank on the other node, kill -9": lambda: kill("node2", "-f", "^ray::RayWorkerP|^VLLM::Worker"),
    "member's container on the other node": lambda: on("node2", "docker", "kill", MEMBER),
    "member's container on the first node": lambda: on("node1", "docker", "kill", MEMBER),
    "vLLM's container": lambda: on("node1", "docker", "kill", ENGINE),
    "dockerd restart on the other node": lambda: on("node2", "systemctl", "restart", "docker"),
    "dockerd restart on the first node": lambda: on("node1", "systemctl", "restart", "docker"),
    "restart of the other host": lambda: docker("restart", "--time", "2", "tandem-lab-node2"),
    "restart of the first host": lambda: docker("restart", "--time", "2", "tandem-lab-node1"),
    "network of the other node cut for 30 s": lambda: cut("node2"),
    "keeper on the first node, kill -9": lambda: kill("node1", "-f", "tandem/rank_group.py"),
}
# Of these nothing is to be seen: the next keeper takes over.
HARMLESS = {"keeper on the first node, kill -9"}


@dataclass(frozen=True)
class Answer:
    """began, ended: monotonic seconds; status: of HTTP, 0 where there was no answer; body: its beginning."""

    began: float
    ended: float
    status: int
    body: str


@dataclass
class Client:
    """Asks the gateway for a token twice a second, each question in a thread of its own."""

    url: str
    key: str
    model: str
    answers: list[Answer] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    @classmethod
    def of_lab(cls) -> Client:
        given = lab.variables()
        url = "http://{address}:{port}/v1/completions".format(**given)
        return cls(url, given["key"], given["services"][0]["model"]["served_name"])

    def __enter__(self) -> Client:
        self._threads.append(threading.Thread(target=self._go_on, daemon=True))
        self._threads[0].start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        for thread in list(self._threads):
            thread.join(timeout=PATIENCE_S + 5)

    def _go_on(self) -> None:
        while not self._over.wait(INTERVAL_S):
            thread = threading.Thread(target=self.ask, daemon=True)
            thread.start()
            self._threads.append(thread)

    def ask(self) -> Answer:
        body = json.dumps({"model": self.model, "prompt": "Hello", "max_tokens": 1}).encode()
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        began = time.monotonic()
        try:
            request = urllib.request.Request(self.url, data=body, headers=headers)
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                status, text = answer.status, answer.read(300)
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read(300)
        except OSError as error:
            status, text = 0, str(error).encode()
        found = Answer(began, time.monotonic(), status, text.decode(errors="replace"))
        self.answers.append(found)
        return found

    def first(self, wanted: Callable[[Answer], bool], seconds: float) -> Answer | None:
        """The answer that came first of those wanted, waited for so many seconds at most."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found = sorted((a for a in list(self.answers) if wanted(a)), key=lambda a: a.ended)
            if found:
                return found[0]
            time.sleep(0.1)
        return None


@dataclass(frozen=True)
class Outage:
    """told_s: until a client was told 503; back_s: until one was served again; both since the fault, None: never.

    others: what else clients got meanwhile: those whose request was under way.
    """

    fault: str
    told_s: float | None
    back_s: float | None
    others: tuple[int, ...]


def outage(client: Client, fault: str, seconds: float = 400) -> Outage:
    """Let something happen to a group that serves, and see what clients see."""
    began = time.monotonic()
    doing = threading.Thread(target=FAULTS[fault])
    doing.start()
    told = client.first(lambda a: a.began >= began - 1 and a.ended > began and a.status == 503, 60)
    doing.join()
    if told is None:
        return Outage(fault, None, None, ())
    back = client.first(lambda a: a.began > told.ended and a.status == 200, seconds)
    until = back.ended if back else time.monotonic()
    others = sorted({a.status for a in client.answers if began < a.ended <= until} - {200, 503})
    return Outage(fault, round(told.ended - began, 1), round(back.ended - began, 1) if back else None, tuple(others))


def phase(host: str = "node1") -> str:
    """Of the group, as its keeper on a host tells it."""
    told = on(host, "cat", f"/run/tandem/groups/{GROUP}.json")
    return str(json.loads(told.output)["phase"]) if told.status == 0 else "none"


def wait_for(wanted: str, seconds: float = 300) -> float:
    """Seconds until the first node's keeper is in a phase; fails when it does not come."""
    began = time.monotonic()
    while phase() != wanted:
        assert time.monotonic() - began < seconds, (wanted, phase())
        time.sleep(0.2)
    return time.monotonic() - began
