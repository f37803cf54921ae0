# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server shaped like vLLM's API, for tests and benchmarks: standard library only, Python 3.9 and later.

POST /v1/chat/completions, /v1/completions, /v1/responses (plain or `"stream": true`), /v1/embeddings, /v1/score and
/v1/rerank; GET /v1/models, /health, /metrics and, for tests, /seen: every request so far with its headers (keys
included). A stream sends one chunk a token, each of --chunk-bytes, --delay-ms apart. A request may ask for its own
`max_tokens` and for "fake": {"delay_ms": …, "status": …}.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from dataclasses import dataclass, field
from typing import Any

POSTS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings", "/v1/score", "/v1/rerank")
STREAMS = POSTS[:3]
REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 503: "Service Unavailable"}


@dataclass
class Engine:
    """What the fake serves and counts."""

    name: str
    model: str = "fake"
    api_key: str | None = None
    tokens: int = 64
    chunk_bytes: int = 139
    delay: float = 0.0
    running: int = 0
    generated: int = 0
    finished: int = 0
    aborted: int = 0
    seen: list[dict[str, Any]] = field(default_factory=list)
    remember: bool = True

    def metrics(self) -> str:
        """Counters under the names of vLLM's."""
        label = '{engine="0",model_name="%s"}' % self.model
        lines = [
            "vllm:num_requests_running%s %d" % (label, self.running),
            "vllm:num_requests_waiting%s 0" % label,
            "vllm:generation_tokens_total%s %d" % (label, self.generated),
            'vllm:request_success_total{finished_reason="length",model_name="%s"} %d' % (self.model, self.finished),
            'vllm:request_success_total{finished_reason="abort",model_name="%s"} %d' % (self.model, self.aborted),
        ]
        return "\n".join(lines) + "\n"

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The plain answer; system_fingerprint names the replica."""
        common = {"id": "fake-1", "model": self.model, "system_fingerprint": self.name}
        usage = {"prompt_tokens": 1, "completion_tokens": self.tokens, "total_tokens": self.tokens + 1}
        if path == "/v1/embeddings":
            return {**common, "object": "list", "data": [{"index": 0, "embedding": [0.0, 1.0]}], "usage": usage}
        if path in ("/v1/score", "/v1/rerank"):
            return {**common, "object": "list", "data": [{"index": 0, "score": 0.5}], "usage": usage}
        text = (
            {"text": "token"} if path == "/v1/completions" else {"message": {"role": "assistant", "content": "token"}}
        )
        return {**common, "choices": [{"index": 0, **text, "finish_reason": "length"}], "usage": usage}

    def chunk(self, path: str) -> bytes:
        """One event of a stream, chunk_bytes long (or as short as it can be)."""
        text = {"text": "t"} if path == "/v1/completions" else {"delta": {"content": "t"}}
        event = {
            "id": "fake-1",
            "model": self.model,
            "system_fingerprint": self.name,
            "choices": [{"index": 0, **text}],
        }
        bare = "data: " + json.dumps(event, separators=(",", ":"))
        return (bare + " " * max(0, self.chunk_bytes - len(bare) - 2) + "\n\n").encode()


class Connection(asyncio.Protocol):
    """One keep-alive connection; requests one after the other."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.buffer = b""
        self.transport: Any = None
        self.task: asyncio.Task[None] | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self.task and not self.task.done():
            self.task.cancel()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if self.task is None or self.task.done():
            self.next_request()

    def next_request(self) -> None:
        """Start the next request that has arrived whole."""
        head, blank, rest = self.buffer.partition(b"\r\n\r\n")
        if not blank:
            return
        lines = head.decode("latin-1").split("\r\n")
        pairs = [line.partition(":") for line in lines[1:]]
        headers = {name.lower(): value.strip() for name, _colon, value in pairs}
        length = int(headers.get("content-length", "0"))
        if len(rest) < length:
            return
        self.buffer = rest[length:]
        method, target = lines[0].split(" ")[:2]
        self.task = asyncio.ensure_future(self.serve(method, target, headers, rest[:length]))

    async def serve(self, method: str, target: str, headers: dict[str, str], raw: bytes) -> None:
        """Answer one request and go on with the next."""
        engine, path = self.engine, target.partition("?")[0]
        if engine.remember and path != "/seen":
            engine.seen.append({"method": method, "target": target, "headers": headers, "bytes": len(raw)})
        try:
            await self.route(method, path, headers, raw)
        except asyncio.CancelledError:
            engine.aborted += 1
            return
        if not self.transport.is_closing():
            self.task = None
            self.next_request()

    async def route(self, method: str, path: str, headers: dict[str, str], raw: bytes) -> None:
        engine = self.engine
        if method in ("GET", "HEAD"):
            plain = {"/health": "", "/metrics": engine.metrics()}
            if path in plain:
                return self.send(200, plain[path].encode(), "text/plain", method)
            if path == "/seen":
                return self.send(200, json.dumps(engine.seen).encode(), method=method)
        if engine.api_key and path.startswith("/v1") and headers.get("authorization") != "Bearer " + engine.api_key:
            return self.error(401, "Unauthorized")
        if path == "/v1/models" and method in ("GET", "HEAD"):
            models = {"object": "list", "data": [{"id": engine.model, "object": "model", "owned_by": engine.name}]}
            return self.send(200, json.dumps(models).encode(), method=method)
        if method != "POST" or path not in POSTS:
            return self.error(404, "Not Found")
        try:
            body = json.loads(raw)
        except ValueError:
            return self.error(400, "the body is not JSON")
        return await self.generate(path, body)

    async def generate(self, path: str, body: dict[str, Any]) -> None:
        engine, wish = self.engine, body.get("fake") or {}
        delay = wish.get("delay_ms", engine.delay * 1000) / 1000
        tokens = int(body.get("max_tokens") or engine.tokens)
        if wish.get("status"):
            return self.error(int(wish["status"]), "as asked for")
        engine.running += 1
        try:
            if body.get("stream") and path in STREAMS:
                await self.stream(path, tokens, delay)
            else:
                await asyncio.sleep(tokens * delay)
                self.send(200, json.dumps(engine.answer(path, body)).encode())
                engine.generated += tokens
            engine.finished += 1
        finally:
            engine.running -= 1
        return None

    async def stream(self, path: str, tokens: int, delay: float) -> None:
        """Each chunk is a write of its own, as a real engine's is."""
        write, event = self.transport.write, self.engine.chunk(path)
        chunk = b"%x\r\n%s\r\n" % (len(event), event)
        write(self.head(200, "text/event-stream", "Transfer-Encoding: chunked"))
        for number in range(tokens):
            if number or delay:
                # Without a delay, let others have their turn as well.
                await asyncio.sleep(delay)
            write(chunk)
            self.engine.generated += 1
        write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")

    def head(self, status: int, kind: str, length: str) -> bytes:
        return (
            "HTTP/1.1 %d %s\r\nServer: fake\r\nX-Fake-Name: %s\r\nContent-Type: %s\r\n%s\r\n\r\n"
            % (status, REASONS.get(status, "Status"), self.engine.name, kind, length)
        ).encode()

    def send(self, status: int, body: bytes, kind: str = "application/json", method: str = "") -> None:
        head = self.head(status, kind, "Content-Length: %d" % len(body))
        self.transport.write(head if method == "HEAD" else head + body)

    def error(self, status: int, message: str) -> None:
        error = {"message": message, "type": REASONS.get(status, "Status"), "param": None, "code": status}
        self.send(status, json.dumps({"error": error}).encode())


async def serve(engine: Engine, host: str, port: int) -> None:
    """Serve until the process is told to end."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = await loop.create_server(lambda: Connection(engine), host, port, backlog=4096)
    print("listening", server.sockets[0].getsockname()[1], flush=True)
    await stop.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one; the port is printed")
    parser.add_argument("--name", default="fake-0", help="told as system_fingerprint and X-Fake-Name")
    parser.add_argument("--model", default="fake")
    parser.add_argument("--api-key")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--chunk-bytes", type=int, default=139)
    parser.add_argument("--delay-ms", type=float, default=0.0)
    parser.add_argument("--forget", action="store_true", help="do not keep what was seen (long runs)")
    given = parser.parse_args()
    engine = Engine(
        given.name,
        given.model,
        given.api_key,
        given.tokens,
        given.chunk_bytes,
        given.delay_ms / 1000,
        remember=not given.forget,
    )
    asyncio.run(serve(engine, given.host, given.port))


if __name__ == "__main__":
    main()
