# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A small client for OpenAI-compatible servers, made of the standard library only.

One connection a request, no proxies, no retries: what a caller sees is what the server did. The API key is sent in the
``Authorization`` header and appears nowhere else: not in ``repr()``, not in an exception. A client holds no connection,
so several threads may use one at once.
"""

from __future__ import annotations

import http.client
import io
import json
import socket
import ssl
import time
import urllib.parse
from collections.abc import Iterator
from typing import Any, Callable, NamedTuple, cast

from ansible_collections.tandem.vllm.plugins.module_utils.openai_api import (
    DEFAULT_MAX_TOKENS,
    PROMPT,
    EventParser,
    completion_request,
)

DEFAULT_TIMEOUT = 30.0
DEFAULT_CONNECT_TIMEOUT = 5.0

# How long the rest of a stream may take to end after "[DONE]"; what comes then is of no interest.
_DRAIN_SECONDS = 2.0
_READ_SIZE = 65536


class OpenAIConnectionError(Exception):
    """The server could not be reached, answered no HTTP, stayed silent too long or did not finish its answer.

    The message names the server and the cause and is fit for users; it never holds the key.
    """


class Response:
    """A whole answer: ``status``, ``headers`` (names in lower case, repeated ones joined by ", ") and ``body``."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    def json(self) -> Any:
        """The body as JSON, or None where it is none."""
        return _json_or_none(self.body)

    @property
    def text(self) -> str:
        """The body as text; bytes that are no UTF-8 are replaced."""
        return self.body.decode("utf-8", "replace")

    def __repr__(self) -> str:
        return f"Response(status={self.status}, {len(self.body)} bytes)"


class Chunk(NamedTuple):
    """One server-sent event: its data, and the seconds from sending the request until its last byte was received.

    Chunks that came in one piece have the same time, however long this program took to look at them.
    """

    at_s: float
    data: str

    def json(self) -> Any:
        """The data as JSON, or None where it is none."""
        return _json_or_none(self.data)


class StreamResult:
    """A streamed answer.

    ``chunks`` holds the events in order without the closing ``[DONE]``, which sets ``done``. ``ttft_s`` is the
    time of the first chunk (None where there is none) and ``total_s`` that of the end, both in seconds from sending the
    request.
    Where the status is not 200, ``body`` holds the answer and there are no chunks.
    """

    def __init__(
        self,
        status: int,
        headers: dict[str, str],
        body: bytes,
        chunks: list[Chunk],
        done: bool,
        total_s: float,
    ) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.chunks = chunks
        self.done = done
        self.ttft_s: float | None = chunks[0].at_s if chunks else None
        self.total_s = total_s

    def json(self) -> Any:
        """The body (of an answer that is not 200) as JSON, or None where it is none."""
        return _json_or_none(self.body)

    def __repr__(self) -> str:
        seen = f"{len(self.chunks)} chunks, done={self.done}, total_s={self.total_s:.3f}"
        return f"StreamResult(status={self.status}, {seen})"


class OpenAIClient:
    """Client of one server.

    :param base_url: ``http://address:port`` or ``https://…``, without ``/v1``: paths are given whole with each request.
    :param api_key: sent as ``Authorization: Bearer``; None sends none.
    :param timeout: the longest silence between two reads, in seconds.
    :param connect_timeout: the longest time for the connection to open, in seconds; at most ``timeout``.
    :param total_timeout: the longest time for a whole exchange, in seconds; None sets no limit.
    :param tls: the TLS context for ``https``; None verifies against the machine's own authorities.
    :raises ValueError: where the URL or the key can be none; the message does not repeat the key.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        connect_timeout: float = DEFAULT_CONNECT_TIMEOUT,
        total_timeout: float | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._scheme, self._host, self._port, self._prefix = _split_url(base_url)
        self.base_url = base_url.rstrip("/")
        self._api_key = api_key
        self._timeout = timeout
        self._connect_timeout = min(connect_timeout, timeout)
        self._total_timeout = total_timeout
        self._tls = tls
        if api_key is not None and not _is_header_text(api_key):
            raise ValueError(
                f"the API key for {self.base_url} is empty or holds characters that an HTTP header cannot carry "
                "(line ends, control characters or non-ASCII letters)"
            )

    def __repr__(self) -> str:
        return "OpenAIClient({!r}, api_key={})".format(self.base_url, "None" if self._api_key is None else "<set>")

    def request(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Response:
        """Send one request and read the whole answer, whatever its status.

        :raises OpenAIConnectionError: where no whole answer came.
        """
        exchange = _Exchange(self, method, path, body, headers)
        try:
            answer = exchange.open()
            return Response(answer.status, _header_dict(answer), exchange.rest(answer))
        finally:
            exchange.close()

    def stream(
        self,
        path: str,
        body: dict[str, Any],
        headers: dict[str, str] | None = None,
        on_chunk: Callable[[Chunk], None] | None = None,
    ) -> StreamResult:
        """POST ``body`` and read server-sent events as they arrive, noting when each came.

        The caller puts ``"stream": True`` into the body. ``on_chunk`` is called with each chunk as it arrives.

        :raises OpenAIConnectionError: where the connection failed or was cut off before the answer's end.
        """
        all_headers = {"Accept": "text/event-stream"}
        all_headers.update(headers or {})
        exchange = _Exchange(self, "POST", path, body, all_headers)
        try:
            answer = exchange.open()
            answer_headers = _header_dict(answer)
            if answer.status != 200:
                return StreamResult(answer.status, answer_headers, exchange.rest(answer), [], False, exchange.elapsed())
            events = EventParser()
            chunks: list[Chunk] = []
            for at_s, piece in exchange.pieces(answer):
                for data in events.feed(piece):
                    if data.strip() == "[DONE]":
                        exchange.drain(answer)
                        return StreamResult(answer.status, answer_headers, b"", chunks, True, at_s)
                    chunk = Chunk(at_s, data)
                    chunks.append(chunk)
                    if on_chunk is not None:
                        on_chunk(chunk)
            return StreamResult(answer.status, answer_headers, b"", chunks, False, exchange.elapsed())
        finally:
            exchange.close()

    def completion(
        self,
        model: str,
        task: str = "generate",
        max_tokens: int = DEFAULT_MAX_TOKENS,
        prompt: str = PROMPT,
    ) -> Response:
        """Ask the model for one small real piece of work of its task: text, an embedding or a score.

        :raises OpenAIConnectionError: as ``request``.
        """
        path, body = completion_request(model, task, max_tokens, prompt)
        return self.request("POST", path, body)


class _TimedReader(io.RawIOBase):
    """The receiving end of a socket, noting when bytes were last received."""

    def __init__(self, raw: io.RawIOBase) -> None:
        self._raw = raw
        self.received_at = time.monotonic()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        count: int | None = self._raw.readinto(buffer)
        self.received_at = time.monotonic()
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _TimedResponse(http.client.HTTPResponse):
    """An answer that knows when its bytes were received."""

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.reader = _TimedReader(sock.makefile("rb", buffering=0))
        self.fp.close()  # which has read nothing yet
        self.fp = io.BufferedReader(self.reader)


class _Exchange:
    """One request on one connection; every failure leaves as OpenAIConnectionError."""

    def __init__(
        self,
        client: OpenAIClient,
        method: str,
        path: str,
        body: dict[str, Any] | None,
        headers: dict[str, str] | None,
    ) -> None:
        self._client = client
        self._method = method
        self._path = client._prefix + path
        self._payload = None if body is None else json.dumps(body).encode("utf-8")
        self._headers = {"Accept": "application/json", "Connection": "close", "User-Agent": "tandem"}
        if self._payload is not None:
            self._headers["Content-Type"] = "application/json"
        if client._api_key is not None:
            self._headers["Authorization"] = "Bearer " + client._api_key
        self._headers.update(headers or {})
        for name, value in self._headers.items():
            if value and not _is_header_text(value):
                raise ValueError(f"header {name} holds characters that an HTTP header cannot carry")
        self._connection: http.client.HTTPConnection | None = None
        self._socket: socket.socket  # from connecting on
        self._answer: _TimedResponse | None = None
        self._began = time.monotonic()
        self._sent = self._began
        self._received = 0

    def open(self) -> _TimedResponse:
        """Connect, send, and wait for the status line and headers."""
        client = self._client
        try:
            if client._scheme == "https":
                connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                    client._host,
                    client._port,
                    timeout=client._connect_timeout,
                    context=client._tls or ssl.create_default_context(),
                )
            else:
                connection = http.client.HTTPConnection(client._host, client._port, timeout=client._connect_timeout)
            connection.response_class = _TimedResponse
            self._connection = connection
            connection.connect()
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            raise OpenAIConnectionError(f"cannot connect to {client.base_url}: {_reason(error)}") from None
        self._socket = connection.sock
        try:
            self._limit_next_read()
            self._sent = time.monotonic()
            connection.request(self._method, self._path, body=self._payload, headers=self._headers)
            answer = connection.getresponse()
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._failure("gave no answer", error) from None
        self._answer = cast(_TimedResponse, answer)
        return self._answer

    def rest(self, answer: _TimedResponse) -> bytes:
        """The whole body."""
        return b"".join(piece for _at_s, piece in self.pieces(answer))

    def pieces(self, answer: _TimedResponse) -> Iterator[tuple[float, bytes]]:
        """The body's bytes as they arrive, each with the seconds from sending until they were received."""
        expected = answer.length
        while not answer.isclosed():
            try:
                self._limit_next_read()
                piece = answer.read1(_READ_SIZE)
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise self._failure("did not finish its answer", error) from None
            if not piece:
                break
            self._received += len(piece)
            yield answer.reader.received_at - self._sent, piece
        if expected is not None and self._received < expected:
            raise self._failure("did not finish its answer", http.client.IncompleteRead(b"", expected - self._received))

    def drain(self, answer: _TimedResponse) -> None:
        """Read on to the end of the answer, so that the server sees no aborted request; failures are of no interest."""
        limit = time.monotonic() + _DRAIN_SECONDS
        try:
            while time.monotonic() < limit and not answer.isclosed():
                self._socket.settimeout(_DRAIN_SECONDS)
                if not answer.read1(_READ_SIZE):
                    return
        except (OSError, http.client.HTTPException, ValueError):
            return

    def elapsed(self) -> float:
        """Seconds since the request was sent."""
        return time.monotonic() - self._sent

    def close(self) -> None:
        """Close the answer and the connection."""
        if self._answer is not None:
            self._answer.close()
        if self._connection is not None:
            self._connection.close()

    def _limit_next_read(self) -> None:
        limit = self._client._timeout
        total = self._client._total_timeout
        if total is not None:
            left = self._began + total - time.monotonic()
            if left <= 0:
                raise socket.timeout("timed out")
            limit = min(limit, left)
        self._socket.settimeout(limit)

    def _failure(self, what: str, error: BaseException) -> OpenAIConnectionError:
        waited = time.monotonic() - self._began
        return OpenAIConnectionError(
            f"{self._client.base_url} {what} to {self._method} {self._path}: "
            f"{_reason(error)} after {waited:.1f} s, {self._received} bytes received"
        )


def _split_url(base_url: str) -> tuple[str, str, int, str]:
    try:
        parts = urllib.parse.urlsplit(base_url)
        port = parts.port
    except ValueError:
        raise ValueError("not a usable URL; wanted http://address:port") from None
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"the URL of {parts.hostname} holds a user name or a password; remove them")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{base_url!r} is no usable URL; wanted http://address:port")
    if port is None:
        port = 443 if parts.scheme == "https" else 80
    return parts.scheme, parts.hostname, port, parts.path.rstrip("/")


def _is_header_text(value: str) -> bool:
    return bool(value) and all(" " <= letter <= "~" for letter in value)


def _header_dict(answer: http.client.HTTPResponse) -> dict[str, str]:
    headers: dict[str, str] = {}
    for written, value in answer.getheaders():
        name = written.lower()
        headers[name] = headers[name] + ", " + value if name in headers else value
    return headers


def _json_or_none(text: Any) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _reason(error: BaseException) -> str:
    if isinstance(error, socket.timeout):
        return "timed out"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, http.client.RemoteDisconnected):
        return "connection closed"
    if isinstance(error, http.client.IncompleteRead):
        return "connection closed"
    if isinstance(error, http.client.BadStatusLine):
        return "not an HTTP answer"
    return str(error) or type(error).__name__
