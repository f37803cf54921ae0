# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The client against a server that behaves and misbehaves."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.host.openai_http import OpenAIClient, OpenAIConnectionError
from ansible_collections.tandem.vllm.tests.unit.plugins.fake_openai import FakeServer

KEY = "sk-Client-key"
STREAM = {"model": "tiny-chat", "stream": True, "max_tokens": 8}


@contextmanager
def listener(answer: bytes, then_wait: float = 0.0) -> Iterator[str]:
    """A server that sends these bytes to whoever connects, and may stay silent then."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()

        def serve() -> None:
            accepted, _address = listening.accept()
            with accepted:
                accepted.recv(65536)
                accepted.sendall(answer)
                time.sleep(then_wait)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


def test_request_and_answer() -> None:
    with FakeServer(KEY) as server:
        client = OpenAIClient(server.url, KEY)
        answer = client.request("GET", "/v1/models")
        assert (answer.status, answer.json()["data"][0]["id"]) == (200, "tiny-chat")
        assert answer.headers["content-type"] == "application/json"
        assert server.seen == [("GET /v1/models", f"Bearer {KEY}")]


def test_an_answer_that_is_no_json_is_none() -> None:
    with FakeServer(KEY, faults=frozenset({"broken"})) as server:
        answer = OpenAIClient(server.url, KEY).request("GET", "/v1/models")
        assert (answer.status, answer.json()) == (502, None)
        assert "502 Bad Gateway" in answer.text


@pytest.mark.parametrize(
    ("task", "path"), [("generate", "/v1/completions"), ("embed", "/v1/embeddings"), ("score", "/v1/score")]
)
def test_completion_of_each_task(task: str, path: str) -> None:
    with FakeServer(KEY) as server:
        assert OpenAIClient(server.url, KEY).completion("tiny-chat", task, max_tokens=4).status == 200
        assert server.seen[0][0] == f"POST {path}"


def test_stream_is_read_as_it_arrives() -> None:
    with FakeServer(KEY) as server:
        arrived: list[float] = []
        began = time.monotonic()
        result = OpenAIClient(server.url, KEY).stream(
            "/v1/completions", STREAM, on_chunk=lambda _chunk: arrived.append(time.monotonic() - began)
        )
    times = [chunk.at_s for chunk in result.chunks]
    assert (result.status, result.done, len(times)) == (200, True, 8)
    assert times == sorted(times)
    assert result.ttft_s == times[0]
    assert result.total_s >= times[-1] >= times[0] + 0.01
    assert arrived[0] < result.total_s
    assert result.chunks[0].json()["choices"][0]["text"] == " no"


def test_stream_that_is_refused_has_a_body() -> None:
    with FakeServer(KEY) as server:
        result = OpenAIClient(server.url, "wrong").stream("/v1/completions", STREAM)
    assert (result.status, result.chunks, result.ttft_s) == (401, [], None)
    assert result.json()["error"]["code"] == "invalid_api_key"


def test_stream_without_done() -> None:
    with FakeServer(KEY, faults=frozenset({"no_done"})) as server:
        assert OpenAIClient(server.url, KEY).stream("/v1/completions", STREAM).done is False


def test_stream_that_is_cut_off_is_an_error() -> None:
    with (
        FakeServer(KEY, faults=frozenset({"cut"})) as server,
        pytest.raises(
            OpenAIConnectionError, match="did not finish its answer to POST /v1/completions: connection closed"
        ),
    ):
        OpenAIClient(server.url, KEY).stream("/v1/completions", STREAM)


@pytest.mark.parametrize(
    ("answer", "wait", "said"),
    [
        (b"", 0, "gave no answer to GET /x: connection closed"),
        (b"", 0.5, "gave no answer to GET /x: timed out"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", 0, "gave no answer to GET /x: not an HTTP answer"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
            0,
            "did not finish its answer to GET /x: connection closed",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", 0.5, "did not finish its answer to GET /x: timed out"),
    ],
)
def test_servers_that_do_not_answer(answer: bytes, wait: float, said: str) -> None:
    with listener(answer, wait) as url, pytest.raises(OpenAIConnectionError) as caught:
        OpenAIClient(url, KEY, timeout=0.2).request("GET", "/x")
    assert said in str(caught.value)
    assert url in str(caught.value)


def test_a_refused_connection_says_so() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(OpenAIConnectionError, match=f"cannot connect to {url}: Connection refused"):
            OpenAIClient(url).request("GET", "/x")


def test_a_whole_exchange_has_a_limit_though_bytes_keep_coming() -> None:
    with (
        FakeServer(KEY) as server,
        pytest.raises(OpenAIConnectionError, match=r"did not finish its answer .* timed out"),
    ):
        OpenAIClient(server.url, KEY, total_timeout=0.1).stream("/v1/completions", {**STREAM, "max_tokens": 500})


def test_the_key_is_told_to_no_one() -> None:
    client = OpenAIClient("http://127.0.0.1:1", KEY)
    with pytest.raises(OpenAIConnectionError) as caught:
        client.request("GET", "/x")
    assert KEY not in repr(client) + str(client) + str(caught.value) + repr(caught.value)
    with pytest.raises(ValueError, match="cannot carry") as refused:
        OpenAIClient("http://127.0.0.1:1", KEY + "\n")
    assert KEY not in str(refused.value)
    with pytest.raises(ValueError, match="header Authorization") as refused:
        client.request("GET", "/x", headers={"Authorization": f"Bearer {KEY}\r\nX: y"})
    assert KEY not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["10.0.0.1:8000", "ftp://10.0.0.1", "http://", "http://a:b", "http://u:secret@10.0.0.1", "http://a/?x=1"]
)
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(ValueError, match="URL") as caught:
        OpenAIClient(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "asked"), [("", "GET /v1/models"), ("/", "GET /v1/models"), ("/prefix/", "GET /prefix/v1/models")]
)
def test_a_path_in_the_url_goes_in_front(url: str, asked: str) -> None:
    with FakeServer(KEY) as server:
        OpenAIClient(server.url + url, KEY).request("GET", "/v1/models")
        assert server.seen[0][0] == asked
