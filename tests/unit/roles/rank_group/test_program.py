# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keeper's program where it meets the machine: Docker's socket, the engine's /health, the gate, signals."""

from __future__ import annotations

import ast
import json
import os
import signal
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tandem.vllm.tests.unit.roles.rank_group.keepers import (
    MEMBER,
    PROGRAM,
    World,
    load,
    restore_signals,
)

Answers = dict[str, tuple[int, Any]]


class Handler(BaseHTTPRequestHandler):
    """Answers a request line from the server's table."""

    def answer(self) -> None:
        status, body = self.server.answers[f"{self.command} {self.path}"]  # type: ignore[attr-defined]
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data) if status not in (204, 304) else 0))
        self.end_headers()
        if status not in (204, 304):
            self.wfile.write(data)

    do_GET = do_POST = answer  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


class UnixServer(socketserver.UnixStreamServer):
    answers: Answers


class WebServer(HTTPServer):
    answers: Answers


@pytest.fixture
def serve() -> Iterator[Callable[[Any], None]]:
    servers: list[Any] = []

    def start(server: Any) -> None:
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def docker(tmp_path: Path, serve: Callable[[Any], None]) -> tuple[Any, Answers]:
    """The program's way to Docker, and what Docker answers."""
    server = UnixServer(str(tmp_path / "docker.sock"), Handler)
    server.answers = {}
    serve(server)
    return load(), server.answers


def client(program: Any, tmp_path: Path) -> Any:
    return program.Docker(str(tmp_path / "docker.sock"))


# Docker.


def test_a_container_is_inspected(docker: tuple[Any, Answers], tmp_path: Path) -> None:
    program, answers = docker
    answers["GET /containers/a/json"] = (200, {"Id": "1", "State": {"Running": False}})
    answers["GET /containers/b/json"] = (404, {"message": "No such container: b"})
    assert client(program, tmp_path).inspect("a", 5) == {"Id": "1", "State": {"Running": False}}
    assert client(program, tmp_path).inspect("b", 5) is None


@pytest.mark.parametrize("answered", [(500, {"message": "x"}), (200, "no JSON"), (200, "[]"), (200, "")])
def test_an_answer_that_says_nothing_about_a_container(
    docker: tuple[Any, Answers], tmp_path: Path, answered: tuple[int, Any]
) -> None:
    program, answers = docker
    answers["GET /containers/a/json"] = answered
    with pytest.raises(program.DockerError, match=f"Docker answers {answered[0]} when asked for a"):
        client(program, tmp_path).inspect("a", 5)


@pytest.mark.parametrize(
    ("call", "status"), [("start", 204), ("start", 304), ("kill", 204), ("kill", 404), ("kill", 409)]
)
def test_what_is_wanted_and_what_is_so_already(
    docker: tuple[Any, Answers], tmp_path: Path, call: str, status: int
) -> None:
    program, answers = docker
    answers[f"POST /containers/a/{call}"] = (status, {"message": "as it is"})
    getattr(client(program, tmp_path), call)("a")


@pytest.mark.parametrize(
    ("call", "answered", "message"),
    [
        ("start", (404, {"message": "No such container: a"}), "a cannot be started: No such container: a"),
        ("start", (500, ""), "a cannot be started: 500"),
        ("kill", (500, {"message": "permission denied"}), "a cannot be killed: permission denied"),
    ],
)
def test_dockers_refusals_are_told(
    docker: tuple[Any, Answers], tmp_path: Path, call: str, answered: tuple[int, Any], message: str
) -> None:
    program, answers = docker
    answers[f"POST /containers/a/{call}"] = answered
    with pytest.raises(program.DockerError, match=f"^{message}$"):
        getattr(client(program, tmp_path), call)("a")


def test_without_docker(tmp_path: Path) -> None:
    program: Any = load()
    with pytest.raises(program.DockerError, match="Docker does not answer"):
        client(program, tmp_path).start("a")


def test_a_docker_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    program: Any = load()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.bind(str(tmp_path / "docker.sock"))
        silent.listen()
        with pytest.raises(program.DockerError, match="timed out"):
            client(program, tmp_path).inspect("a", 0.05)


# The engine's /health and port, and the gate.


def eventually(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + 10
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


@pytest.mark.parametrize(("status", "serves", "dead"), [(200, True, False), (503, False, True), (500, False, False)])
def test_what_health_says(serve: Callable[[Any], None], status: int, serves: bool, dead: bool) -> None:
    server = WebServer(("127.0.0.1", 0), Handler)
    server.answers = {"GET /health": (status, "")}
    serve(server)
    health = load()._Health(f"http://127.0.0.1:{server.server_port}/health")
    assert not health.serves(1000)
    health._thread.join(10)
    assert (health.serves(1000.5), health.says_dead(1000.5)) == (serves, dead)


def test_health_is_asked_once_a_second_and_its_last_answer_counts(serve: Callable[[Any], None]) -> None:
    server = WebServer(("127.0.0.1", 0), Handler)
    server.answers = {"GET /health": (200, "")}
    serve(server)
    health = load()._Health(f"http://127.0.0.1:{server.server_port}/health")
    health.serves(1000)
    health._thread.join(10)
    server.answers["GET /health"] = (503, "")
    assert health.serves(1000.9)
    health.serves(1001)
    health._thread.join(10)
    assert health.says_dead(1001.1)


def test_an_engine_that_does_not_listen_is_not_said_to_be_dead() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        health = load()._Health(f"http://127.0.0.1:{closed.getsockname()[1]}/health")
        health.serves(1000)
        health._thread.join(10)
        assert (health.serves(1000.5), health.says_dead(1000.5)) == (False, False)


def test_a_port_that_listens() -> None:
    program: Any = load()
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        where = list(server.getsockname())
        assert not program._listens(where)
        server.listen()
        assert program._listens(where)
    assert program._listens(None)


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        ("echo all is well", ""),
        ("echo a warning; echo 4 of 8 GPUs are free; exit 1", "4 of 8 GPUs are free"),
        ("echo no such container >&2; exit 1", "no such container"),
        ("exit 124", "exit 124"),
    ],
)
def test_what_the_gate_says(script: str, answer: str) -> None:
    gate = load()._Gate(["sh", "-c", script])
    assert eventually(lambda: gate._process.poll() is not None)
    assert gate.answer() == answer


def test_a_gate_that_has_not_answered_yet() -> None:
    gate = load()._Gate(["sleep", "600"])
    assert gate.answer() is None
    gate.end()
    assert gate._process.returncode == -signal.SIGKILL


# The program as a whole.


@pytest.fixture
def restored() -> Iterator[None]:
    yield
    restore_signals()


def run_until(world: World, monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> list[list[str]]:
    """Run the first host's program until it is told something; what it becomes then."""
    program = world.programs[0]
    became: list[list[str]] = []
    sleeps = iter(range(3))
    monkeypatch.setattr(program, "Docker", lambda: world.dockers[0])
    monkeypatch.setattr(program, "_tables", lambda name, argv, needed=False: 0)
    monkeypatch.setattr(program, "TICK_S", 0)
    monkeypatch.setattr(
        program.time, "sleep", lambda seconds: None if next(sleeps, None) is not None else os.kill(os.getpid(), number)
    )
    monkeypatch.setattr(program.os, "execv", lambda path, argv: became.append(argv))
    config = world.folder / "group.json"
    config.write_text(json.dumps({**world.given(0), "addresses": world.addresses[:1]}))
    program.main(str(config))
    return became


def test_told_to_end_it_ends_what_runs(
    worlds: Callable[..., World], monkeypatch: pytest.MonkeyPatch, restored: None
) -> None:
    world = worlds(ray=False, nodes=1)
    world.make_containers()
    assert run_until(world, monkeypatch, signal.SIGTERM) == []
    assert ("start", 0, MEMBER) in world.events
    assert world.running() == []
    assert world.told(0)["phase"] == "stopped"


def test_told_to_reload_it_becomes_the_new_program_and_leaves_what_runs(
    worlds: Callable[..., World], monkeypatch: pytest.MonkeyPatch, restored: None
) -> None:
    world = worlds(ray=False, nodes=1)
    world.make_containers()
    became = run_until(world, monkeypatch, signal.SIGHUP)
    assert became == [[sys.executable, str(PROGRAM), str(world.folder / "group.json")]]
    assert world.running() == [(0, MEMBER)]
    assert world.told(0)["phase"] == "serving"
    world.begin(0)
    assert world.leader.reason == "taken over from an earlier keeper"


def test_it_runs_on_python_3_9_with_the_standard_library_alone() -> None:
    tree = ast.parse(PROGRAM.read_text(), feature_version=(3, 9))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names
