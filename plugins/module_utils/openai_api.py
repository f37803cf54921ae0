# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What OpenAI-compatible requests and answers look like: bodies, streams of events, errors."""

from __future__ import annotations

from typing import Any

DEFAULT_MAX_TOKENS = 8
PROMPT = "Hello, my name is"


def completion_request(
    model: str,
    task: str = "generate",
    max_tokens: int = DEFAULT_MAX_TOKENS,
    prompt: str = PROMPT,
) -> tuple[str, dict[str, Any]]:
    """Path and body of one small request for a task: `generate`, `embed` or `score`.

    Raises ValueError for another task.
    """
    if task == "generate":
        return "/v1/completions", {
            "model": model,
            "prompt": prompt,
            "max_tokens": max_tokens,
            "temperature": 0,
            # vLLM's own parameter: an end-of-text token at once would make a working engine look silent.
            "ignore_eos": True,
        }
    if task == "embed":
        return "/v1/embeddings", {"model": model, "input": prompt}
    if task == "score":
        return "/v1/score", {"model": model, "text_1": prompt, "text_2": prompt}
    raise ValueError(f"task {task!r} is unknown; allowed: generate, embed, score")


def error_of(answer: Any) -> dict[str, Any] | None:
    """The error of an answer in OpenAI's shape, `{"error": {"message": …, "type": …}}`; None in another shape."""
    error = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(error, dict):
        return None
    for name in ("message", "type"):
        if not isinstance(error.get(name), str) or not error[name]:
            return None
    return error


class EventParser:
    """Cuts bytes, however they were split on the way, into the data of server-sent events."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> list[str]:
        """Take the next bytes and return the data of the events they complete."""
        lines = (self._rest + piece).split(b"\n")
        self._rest = lines.pop()
        events: list[str] = []
        for raw in lines:
            line = raw.rstrip(b"\r").decode("utf-8", "replace")
            if not line:
                if self._data:
                    events.append("\n".join(self._data))
                    self._data = []
            elif line.startswith("data:"):
                value = line[len("data:") :]
                self._data.append(value[1:] if value.startswith(" ") else value)
            # Comments (":"), "event:", "id:" and "retry:" carry nothing that is used here.
        return events
