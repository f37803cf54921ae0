# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.openai_api import EventParser, completion_request, error_of

STREAM = b': ping\r\nevent: x\r\ndata: {"a": 1}\r\n\r\ndata: two\ndata:lines\n\ndata: \xe6\xa8\xa1\n\ndata: [DONE]\n\n'
EVENTS = ['{"a": 1}', "two\nlines", "模", "[DONE]"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_the_same_however_the_bytes_are_split(size: int) -> None:
    parser = EventParser()
    pieces = [STREAM[start : start + size] for start in range(0, len(STREAM), size)]
    assert [event for piece in pieces for event in parser.feed(piece)] == EVENTS


def test_an_event_that_is_not_complete_is_none() -> None:
    assert EventParser().feed(b"data: half") == []


@pytest.mark.parametrize(
    ("task", "path"), [("generate", "/v1/completions"), ("embed", "/v1/embeddings"), ("score", "/v1/score")]
)
def test_requests(task: str, path: str) -> None:
    asked, body = completion_request("m", task, 4)
    assert (asked, body["model"]) == (path, "m")
    assert body.get("max_tokens") == (4 if task == "generate" else None)


def test_unknown_task() -> None:
    with pytest.raises(ValueError, match="allowed: generate, embed, score"):
        completion_request("m", "draw")


@pytest.mark.parametrize(
    ("answer", "is_error"),
    [
        ({"error": {"message": "no", "type": "NotFoundError", "param": None, "code": 404}}, True),
        ({"error": {"message": "no", "type": None}}, False),
        ({"error": {"message": "", "type": "x"}}, False),
        ({"error": "Unauthorized"}, False),
        ({"detail": "Not Found"}, False),
        (["error"], False),
        (None, False),
    ],
)
def test_error_shape(answer: Any, is_error: bool) -> None:
    assert (error_of(answer) is not None) is is_error
