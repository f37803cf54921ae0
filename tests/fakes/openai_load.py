# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bounded load on an OpenAI-shaped server, for tests: every request is judged, the sum is printed as JSON.

A request has failed when its answer is not 200, breaks off, or is a stream without [DONE]. Keep-alive clients look
whether their connection was closed before they use it again, as real ones do, and never send a request twice. Standard
library only, Python 3.9 and later. The key is read from the environment variable OPENAI_API_KEY.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Load:
    """What is sent, and what came of it."""

    host: str
    port: int
    path: str
    body: bytes
    key: str
    seconds: float
    keepalive: bool
    until: float = 0.0
    requests: int = 0
    failed: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    replicas: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    first_chunk: list[float] = field(default_factory=list)
    last_chunk: list[float] = field(default_factory=list)

    async def client(self) -> None:
        """One client: one request after the other."""
        connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        while time.monotonic() < self.until:
            started = time.monotonic()
            self.requests += 1
            try:
                if connection is None or connection[0].at_eof():
                    connection = await asyncio.open_connection(self.host, self.port)
                goes_on = await asyncio.wait_for(self.request(*connection), 120)
            except (asyncio.TimeoutError, OSError, EOFError, ValueError) as error:  # noqa: UP041 - another type before Python 3.11
                self.failed += 1
                self.reasons["%s: %s" % (type(error).__name__, error)] += 1
                goes_on = False
                await asyncio.sleep(0.05)
            self.slowest = max(self.slowest, time.monotonic() - started)
            if not goes_on and connection is not None:
                connection[1].close()
                connection = None
        if connection is not None:
            connection[1].close()

    async def request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Send one request and read its answer whole; whether the connection stays open."""
        fields = [
            "POST %s HTTP/1.1" % self.path,
            "Host: " + self.host,
            "Authorization: Bearer " + self.key,
            "Content-Type: application/json",
            "Content-Length: %d" % len(self.body),
        ] + ([] if self.keepalive else ["Connection: close"])
        writer.write("\r\n".join([*fields, "", ""]).encode() + self.body)
        await writer.drain()
        sent = time.monotonic()
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _colon, value in (line.partition(":") for line in lines[1:])}
        if headers.get("transfer-encoding") == "chunked":
            answer = await self.chunks(reader, time.monotonic() - sent)
        else:
            answer = await reader.readexactly(int(headers.get("content-length", "0")))
        status = int(lines[0].split(" ")[1])
        if status != 200:
            raise ValueError("status %d" % status)
        if "text/event-stream" in headers.get("content-type", "") and b"data: [DONE]" not in answer[-64:]:
            raise ValueError("stream without [DONE]")
        self.replicas[headers.get("x-fake-name", "?")] += 1
        return self.keepalive and headers.get("connection", "").lower() != "close"

    async def chunks(self, reader: asyncio.StreamReader, spent: float) -> bytes:
        """A chunked body, whole; notes when its first and its last chunk came. spent: seconds since sending."""
        parts: list[bytes] = []
        began = time.monotonic() - spent
        while True:
            size = int((await reader.readuntil(b"\r\n")).strip(), 16)
            part = await reader.readexactly(size + 2)
            if size == 0:
                self.last_chunk.append(time.monotonic() - began)
                return b"".join(parts)
            if not parts:
                self.first_chunk.append(time.monotonic() - began)
            parts.append(part[:-2])

    def stop(self) -> None:
        """Start no further request."""
        self.until = 0.0

    async def run(self, concurrency: int) -> dict[str, Any]:
        """Load for `seconds`, or until SIGTERM, and say what came of it. Requests that run are finished."""
        self.until = time.monotonic() + self.seconds
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.stop)
        await asyncio.gather(*(self.client() for _client in range(concurrency)))
        return {
            "requests": self.requests,
            "failed": self.failed,
            "reasons": dict(self.reasons),
            "replicas": dict(self.replicas),
            "slowest_s": round(self.slowest, 3),
            "first_chunk_s": round(statistics.median(self.first_chunk), 3) if self.first_chunk else None,
            "last_chunk_s": round(statistics.median(self.last_chunk), 3) if self.last_chunk else None,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--path", default="/v1/completions")
    parser.add_argument("--model", default="fake")
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--max-tokens", type=int, default=8)
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--keepalive", action="store_true", help="use connections again")
    given = parser.parse_args()
    body = {"model": given.model, "max_tokens": given.max_tokens, "stream": given.stream}
    body.update({"messages": [{"role": "user", "content": "Hello"}]} if "chat" in given.path else {"prompt": "Hello"})
    load = Load(
        given.host,
        given.port,
        given.path,
        json.dumps(body).encode(),
        os.environ.get("OPENAI_API_KEY", ""),
        given.seconds,
        given.keepalive,
    )
    print(json.dumps(asyncio.run(load.run(given.concurrency))))


if __name__ == "__main__":
    main()
