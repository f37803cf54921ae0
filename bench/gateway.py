# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the gateway costs: streams direct and through nginx, against the same backend, in one run on this machine.

nginx runs with the configuration that the role nginx_gateway renders; only its addresses and directories are of this
run. It is alone on one core; the backend (tests/fakes/openai_server.py) and the client are on another. A stream is 65
chunks: 64 of 139 bytes and [DONE]. Latency is measured with paced chunks, so that queues of a full core are not taken
for the gateway's doing; throughput is measured without pauses. Direct and gateway take turns; the table shows medians
over the rounds. On a machine that does other work at the time, only that work is measured.

Time to first byte and to first token count from the moment a client wants to send: where a connection has to be made
first, that is in it. Run it with the Python of `make dev`; nginx has to be installed. Nothing is installed or left
behind.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import select
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import yaml

ROOT = Path(__file__).resolve().parent.parent
ROLE = ROOT / "roles/nginx_gateway"
KEY = "sk-bench-0123456789abcdef"
ENGINE_KEY = "engine-bench-0123456789"
BODY = json.dumps({"model": "fake", "stream": True, "max_tokens": 64, "prompt": "Hello " * 64}).encode()
TARGET_MS = 0.3
PRIORITY = 20
NEW_CONNECTIONS = False  # --new-connections


def settings(port: int, backend: int, place: Path, overrides: dict[str, Any]) -> dict[str, Any]:
    """The role's variables: its own defaults and constants, with this run's addresses and directories."""
    values: dict[str, Any] = {}
    for name in ("defaults", "vars"):
        values.update(yaml.safe_load((ROLE / name / "main.yml").read_text()))
    server = {"replica": "fake-0", "node": "fake", "address": "127.0.0.1", "port": backend}
    values.update(
        nginx_gateway_listen_address="127.0.0.1",
        nginx_gateway_port=port,
        nginx_gateway_api_keys=[{"name": "bench", "key": KEY}, {"name": "other", "key": KEY.upper()}],
        nginx_gateway_engine_key=ENGINE_KEY,
        # What `auto` makes of the one core that nginx has here.
        nginx_gateway_worker_processes=1,
        nginx_gateway_upstreams=[
            {"name": "tandem_fake", "service": "fake", "served_name": "fake", "task": "generate", "servers": [server]}
        ],
        __nginx_gateway_user="root" if os.geteuid() == 0 else "nobody",
        __nginx_gateway_log_directory=str(place),
        __nginx_gateway_cache_directory=str(place),
        __nginx_gateway_pid_file=str(place / "nginx.pid"),
    )
    return {**values, **overrides}


def render(place: Path, values: dict[str, Any]) -> None:
    """Write the role's three configuration files, rendered as Ansible does."""
    environment = jinja2.Environment(  # noqa: S701 - nginx configuration, not HTML
        loader=jinja2.FileSystemLoader(ROLE / "templates"),
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["regex_escape"] = re.escape
    # Constants of the role refer to its variables.
    for error in values["__nginx_gateway_errors"]:
        error["message"] = environment.from_string(error["message"]).render(values)
    for name in ("nginx.conf", "upstreams.conf", "keys.conf"):
        (place / name).write_text(environment.get_template(name + ".j2").render(values))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def pinned(cores: set[int]) -> Callable[[], None]:
    """For a child: on certain cores, and below the client where that has real-time priority."""

    def apply() -> None:
        os.sched_setaffinity(0, cores)
        if os.sched_getscheduler(0) == os.SCHED_FIFO:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY - 1))

    return apply


@contextlib.contextmanager
def running(command: list[str], cores: set[int]) -> Iterator[subprocess.Popen[str]]:
    """A process on certain cores, ended afterwards."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=pinned(cores))  # noqa: PLW1509 - no threads here
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


@dataclass
class Round:
    """The streams of one round. Times in seconds."""

    first_byte: list[float] = field(default_factory=list)
    first_token: list[float] = field(default_factory=list)
    failed: int = 0
    wall: float = 0.0


class Client:
    """One client on a non-blocking socket: a stream at a time, on the same connection as long as the server lets it."""

    def __init__(self, port: int, start_at: float) -> None:
        self.port, self.start_at = port, start_at
        self.socket: socket.socket | None = None
        self.answer = bytearray()
        self.started = self.first_byte = self.first_token = 0.0

    def start(self, request: bytes) -> int:
        """Send a request, over a new connection where there is none; returns the descriptor to wait for."""
        self.answer, self.first_byte, self.first_token = bytearray(), 0.0, 0.0
        self.started = time.perf_counter()
        if self.socket is None:
            # Not create_connection: its look-up of the name would be counted as the gateway's.
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            self.socket.connect(("127.0.0.1", self.port))
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socket.setblocking(False)
        self.socket.send(request)
        return self.socket.fileno()

    def read(self, result: Round) -> bool:
        """Take what has come; whether the stream is over."""
        if self.socket is None:
            raise RuntimeError("no stream was started")
        data = self.socket.recv(65536)
        now = time.perf_counter()
        self.first_byte = self.first_byte or now
        self.answer += data
        if not self.first_token and b"data: " in self.answer:
            self.first_token = now
        whole = self.answer.endswith(b"\r\n0\r\n\r\n")
        if data and not whole:
            return False
        if whole and self.answer.startswith(b"HTTP/1.1 200 ") and b"data: [DONE]" in self.answer:
            result.first_byte.append(self.first_byte - self.started)
            result.first_token.append(self.first_token - self.started)
        else:
            result.failed += 1
        if not data or NEW_CONNECTIONS or b"Connection: close" in self.answer[:1000]:
            self.close()
        return True

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None


def measure(port: int, key: str, concurrency: int, streams: int, length: float) -> Round:
    """`streams` streams by `concurrency` clients, which begin spread over the length of one stream (seconds)."""
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n"
    )
    request = head.encode() + BODY
    result, begun, left = Round(), time.perf_counter(), streams
    idle = [Client(port, begun + number * length / concurrency) for number in range(concurrency)]
    busy: dict[int, Client] = {}
    with select.epoll() as poll:
        while busy or (left and idle):
            now = time.perf_counter()
            while left and idle and idle[0].start_at <= now:
                client = idle.pop(0)
                descriptor = client.start(request)
                busy[descriptor] = client
                poll.register(descriptor, select.EPOLLIN)
                left -= 1
            pause = max(0.0, idle[0].start_at - now) if left and idle else 10.0
            for descriptor, _events in poll.poll(pause):
                client = busy[descriptor]
                if client.read(result):
                    del busy[descriptor]
                    if client.socket is not None:
                        poll.unregister(descriptor)
                    client.start_at = 0.0
                    idle.insert(0, client)
    result.wall = time.perf_counter() - begun
    for client in idle:
        client.close()
    return result


def percentiles(times: list[float]) -> dict[str, float]:
    """p50, p90 and p99 in milliseconds."""
    ordered = sorted(times)
    return {f"p{p}": round(ordered[min(len(ordered) - 1, len(ordered) * p // 100)] * 1000, 3) for p in (50, 90, 99)}


def summary(rounds: list[Round]) -> dict[str, Any]:
    """Medians over the rounds."""

    def median(pick: Callable[[Round], dict[str, float]]) -> dict[str, float]:
        each = [pick(r) for r in rounds]
        return {name: round(statistics.median(e[name] for e in each), 3) for name in each[0]}

    return {
        "ttfb_ms": median(lambda r: percentiles(r.first_byte)),
        "ttft_ms": median(lambda r: percentiles(r.first_token)),
        "streams_per_s": round(statistics.median(len(r.first_byte) / r.wall for r in rounds), 1),
        "failed": sum(r.failed for r in rounds),
    }


def compare(
    ends: dict[str, tuple[int, str]], concurrency: int, streams: int, rounds: int, length: float
) -> dict[str, Any]:
    """Direct and gateway in turns."""
    each: dict[str, list[Round]] = {name: [] for name in ends}
    for port, key in ends.values():
        measure(port, key, concurrency, max(concurrency, streams // 10), length)
    for number in range(rounds):
        for name in sorted(ends, reverse=number % 2 == 1):
            each[name].append(measure(*ends[name], concurrency, streams, length))
    return {name: summary(found) for name, found in each.items()}


def table(results: list[dict[str, Any]]) -> str:
    columns = [
        "concurrency",
        "chunks every",
        "TTFT p50 / p90 / p99 direct, ms",
        "through the gateway, ms",
        "added p50, ms",
        "streams/s direct",
        "through the gateway",
        "ratio",
    ]
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for r in results:
        shown = {name: " / ".join(f"{v:.2f}" for v in r[name]["ttft_ms"].values()) for name in ("direct", "gateway")}
        rate = {name: r[name]["streams_per_s"] for name in ("direct", "gateway")}
        pace = f"{r['delay_ms']:g} ms" if r["delay_ms"] else "no pause"
        lines.append(
            f"| {r['concurrency']} | {pace} | {shown['direct']} | {shown['gateway']} | {r['added_ttft_p50_ms']:.2f} "
            f"| {rate['direct']:.0f} | {rate['gateway']:.0f} | {rate['gateway'] / rate['direct']:.2f} |"
        )
    return "\n".join(lines)


def listening(backend: subprocess.Popen[str]) -> int:
    """The port that the backend says it listens on."""
    line = backend.stdout.readline() if backend.stdout else ""
    if not line.startswith("listening"):
        raise SystemExit("the backend did not start")
    return int(line.split()[-1])


def wait_for(port: int) -> None:
    for _attempt in range(100):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise SystemExit(f"nothing listens on 127.0.0.1:{port}")


def benchmark(given: argparse.Namespace, place: Path) -> list[dict[str, Any]]:
    """Start backend and gateway for each pace, and compare."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise SystemExit("needs two cores: one for nginx alone")
    rest, alone = {cores[0]}, {cores[1]}
    os.sched_setaffinity(0, rest)
    if given.realtime:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    results = []
    # Without a pause everything is limited by the core that client and backend share: throughput, not latency.
    plan = [(1, 2.0), (16, 2.0), (128, 20.0), (1, 0.0), (16, 0.0), (128, 0.0)]
    for concurrency, delay in plan:
        streams = given.streams if not delay else max(given.streams // 4, concurrency * 4)
        if concurrency == 1 and delay:
            streams = given.streams // 8
        fake = [sys.executable, str(ROOT / "tests/fakes/openai_server.py"), "--forget", "--api-key", ENGINE_KEY]
        with running([*fake, "--delay-ms", str(delay)], rest) as backend:
            direct, port = listening(backend), free_port()
            render(place, settings(port, direct, place, given.set))
            nginx = [given.nginx, "-c", str(place / "nginx.conf"), "-g", "daemon off;"]
            with running(nginx, alone):
                wait_for(port)
                ends = {"direct": (direct, ENGINE_KEY), "gateway": (port, KEY)}
                found = compare(ends, concurrency, streams, given.rounds, 65 * delay / 1000)
        added = found["gateway"]["ttft_ms"]["p50"] - found["direct"]["ttft_ms"]["p50"]
        results.append({"concurrency": concurrency, "delay_ms": delay, **found, "added_ttft_p50_ms": round(added, 3)})
        print(f"c={concurrency}, chunks every {delay:g} ms: added TTFT {added:.2f} ms", file=sys.stderr, flush=True)
    return results


def assignment(text: str) -> tuple[str, Any]:
    name, _equals, value = text.partition("=")
    return name, yaml.safe_load(value)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nginx", default=shutil.which("nginx") or "/usr/sbin/nginx")
    parser.add_argument("--streams", type=int, default=2000, help="streams a round without pauses; fewer are paced")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument(
        "--set", type=assignment, action="append", default=[], metavar="VARIABLE=VALUE", help="a role variable"
    )
    parser.add_argument("--new-connections", action="store_true", help="one a stream, direct as well, as curl does")
    parser.add_argument("--realtime", action="store_true", help="real-time priority, for a busy machine (needs root)")
    parser.add_argument("--check", action="store_true", help="end 1 when a stream failed or the target is missed")
    given = parser.parse_args()
    given.set = dict(given.set)
    globals()["NEW_CONNECTIONS"] = given.new_connections
    if not os.access(given.nginx, os.X_OK):
        raise SystemExit(f"no nginx at {given.nginx}: install it (Debian: nginx-light) or name it with --nginx")
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as place:
        results = benchmark(given, Path(place))
    version = (
        subprocess.run([given.nginx, "-v"], capture_output=True, text=True, check=True)
        .stderr.strip()
        .rpartition("/")[2]
    )
    report = {
        "nginx": version,
        "load_average": os.getloadavg(),
        "rounds": given.rounds,
        "set": given.set,
        "new_connections": given.new_connections,
        "results": results,
    }
    failed = sum(r[name]["failed"] for r in results for name in ("direct", "gateway"))
    missed = [r for r in results if r["delay_ms"] and r["concurrency"] <= 16 and r["added_ttft_p50_ms"] > TARGET_MS]
    print(table(results))
    print(
        f"\nnginx {version}; failed streams: {failed}; target, at most {TARGET_MS} ms added at concurrency 1 and 16:",
        end=" ",
    )
    print("missed" if missed else "met")
    if given.json:
        given.json.write_text(json.dumps(report, indent=2) + "\n")
    return 1 if given.check and (failed or missed) else 0


if __name__ == "__main__":
    sys.exit(main())
