# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fake vLLM and a fake gateway on 127.0.0.1: answers as vLLM 0.32 and Tandem's nginx give them, and faults."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

METRICS = "# HELP vllm:num_requests_running Number of requests in model execution batches.\n"
CONTEXT = 2048


class FakeServer:
    """Either `engine=True`, like vLLM itself, or a gateway in front of one. faults: what it does wrong, by name."""

    def __init__(self, key: str, model: str = "tiny-chat", engine: bool = False, faults: frozenset[str] = frozenset()):
        self.key, self.model, self.engine, self.faults = key, model, engine, faults
        self.seen: list[tuple[str, str]] = []
        self.streams = 0
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def __enter__(self) -> FakeServer:
        self._thread.start()
        return self

    def __exit__(self, *_args: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def may(self, authorization: str | None) -> bool:
        """Whether a request with this header may pass."""
        if authorization is None:
            return "missing_key_accepted" in self.faults
        given = authorization.replace("Bearer ", "", 1)
        if "case_ignored" in self.faults:
            return given.lower() == self.key.lower()
        return given == self.key

    def refusal(self, given: str) -> dict[str, Any]:
        """Body of the 401: vLLM's own has another shape than OpenAI's."""
        if self.engine or "engine_shaped_401" in self.faults:
            return {"error": "Unauthorized"}
        said = (
            f"Incorrect API key provided: {given}" if "key_repeated" in self.faults else "Incorrect API key provided."
        )
        return {"error": {"message": said, "type": "invalid_request_error", "param": None, "code": "invalid_api_key"}}

    def models(self) -> dict[str, Any]:
        name = "another" if "model_not_listed" in self.faults else self.model
        told = 1024 if "other_context" in self.faults else CONTEXT
        return {"object": "list", "data": [{"id": name, "object": "model", "owned_by": "vllm", "max_model_len": told}]}

    def completion(self, model: str, tokens: int) -> dict[str, Any]:
        usage = {"prompt_tokens": 9, "total_tokens": 9 + tokens, "completion_tokens": tokens}
        return {
            "id": "cmpl-bb032d3fe847e78e",
            "object": "text_completion",
            "created": 1795975141,
            "model": "another" if "other_model" in self.faults else model,
            "choices": [
                {
                    "index": 0,
                    "text": "" if "no_text" in self.faults else "@ no@ningW arrisk arr",
                    "logprobs": None,
                    "finish_reason": "length",
                }
            ],
            "usage": None if "no_usage" in self.faults else usage,
        }


def embedding_answer(model: str, values: list[float]) -> dict[str, Any]:
    data = [{"index": 0, "object": "embedding", "embedding": values}]
    return {"object": "list", "model": model, "data": data, "usage": {"prompt_tokens": 6, "total_tokens": 6}}


def score_answer(model: str, score: Any) -> dict[str, Any]:
    return {"object": "list", "model": model, "data": [{"index": 0, "object": "score", "score": score}]}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, fake: FakeServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.fake = fake

    def handle_error(self, *_args: Any) -> None:
        """A client that goes away is no matter."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    @property
    def fake(self) -> FakeServer:
        return self.server.fake

    def log_message(self, *_args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body: dict[str, Any]) -> None:
        given = self.headers.get("Authorization")
        self.fake.seen.append((f"{self.command} {self.path}", given or ""))
        if "mute" in self.fake.faults:
            self.close_connection = True
        elif not self.path.startswith("/v1/"):
            is_open = self.fake.engine or "metrics_open" in self.fake.faults
            self._send(200 if is_open else 404, METRICS if is_open else {"error": "closed"})
        elif not self.fake.may(given):
            self._send(401, self.fake.refusal((given or "").replace("Bearer ", "")))
        elif "broken" in self.fake.faults:
            self._send(502, "<html><center><h1>502 Bad Gateway</h1></center></html>")
        elif self.path == "/v1/models":
            self._send(200, self.fake.models())
        else:
            self._work(body)

    def _work(self, body: dict[str, Any]) -> None:
        if body["model"] != self.fake.model and "any_model" not in self.fake.faults:
            said = f"The model `{body['model']}` does not exist."
            error = {"message": said, "type": "NotFoundError", "param": "model", "code": 404}
            self._send(404, {"detail": "Not Found"} if "unshaped_404" in self.fake.faults else {"error": error})
        elif body.get("stream"):
            self._stream(body)
        elif self.path == "/v1/embeddings":
            self._send(200, embedding_answer(body["model"], [0.1, -0.2, 0.3]))
        elif self.path == "/v1/score":
            self._send(200, score_answer(body["model"], 0.97))
        else:
            self._send(200, self.fake.completion(body["model"], body["max_tokens"]))

    def _send(self, status: int, body: Any) -> None:
        data = body if isinstance(body, str) else json.dumps(body)
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if isinstance(body, str) else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data.encode())

    def _stream(self, body: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.fake.streams += 1
        buffered = "buffered" in self.fake.faults or ("buffered_once" in self.fake.faults and self.fake.streams == 1)
        held = b""
        tokens = 1 if "one_chunk" in self.fake.faults else body["max_tokens"]
        for _token in range(tokens):
            time.sleep(0.002)
            choice = {"index": 0, "text": " no", "logprobs": None, "finish_reason": None}
            event = {"object": "text_completion", "model": body["model"], "choices": [choice]}
            held += f"data: {json.dumps(event)}\n\n".encode()
            # A proxy that buffers hands on a whole buffer at a time.
            if not buffered or len(held) > 3000:
                self._chunk(held)
                held = b""
        if "error_in_stream" in self.fake.faults:
            held += b'data: {"error": {"message": "EngineCore died", "type": "InternalServerError", "code": 500}}\n\n'
        if "cut" in self.fake.faults:
            self.close_connection = True
            return
        self._chunk(held + (b"" if "no_done" in self.fake.faults else b"data: [DONE]\n\n"))
        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()
