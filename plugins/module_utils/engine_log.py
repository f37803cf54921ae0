# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads vLLM's log: how far a start is, and which line says why it failed."""

from __future__ import annotations

import re

# What a log line says of the start, in the order a start goes through; the last line that matches tells how far it is.
STAGES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"vLLM API server version|non-default args"), "starting"),
    (re.compile(r"Initializing a V\d LLM engine"), "initializing the engine"),
    (re.compile(r"Starting to load model"), "loading the model"),
    (re.compile(r"checkpoint shards:\s+(\d+)% Completed \| (\d+)/(\d+)"), "loading weights, shard {1} of {2} ({0} %)"),
    (re.compile(r"(?:Model loading|Loading weights) took"), "weights loaded"),
    (re.compile(r"Dynamo bytecode transform|Compiling a graph|torch\.compile t(?:akes|ook)"), "compiling"),
    (re.compile(r"KV cache size|# \w+ blocks"), "KV cache allocated"),
    (re.compile(r"Capturing CUDA graphs?.*?(\d+)%"), "capturing CUDA graphs ({0} %)"),
    (re.compile(r"Starting vLLM (?:API )?server|Started server process"), "starting the API server"),
    (re.compile(r"Application startup complete"), "API server up, waiting for a completion"),
)

# "(EngineCore_DP0 pid=12) ERROR 11-29 17:50:01 [core.py:700] " before what was said.
PREFIX = re.compile(r"^(?:\([^)]*pid=\d+\)\s*)?(?:(?:INFO|WARNING|ERROR|DEBUG) [\d-]+ [\d:.]+ \[[^\]]*\]\s*)?")
EXCEPTION = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b(?::|$)")
USAGE_ERROR = re.compile(r"^vllm[\w .-]*: error: ")
PYDANTIC = re.compile(r"\d+ validation errors? for \w+$")
# Said by those who only learn that another process failed.
SECOND_HAND = (
    "Engine core initialization failed",
    "Engine core proc",
    "WorkerProc initialization failed",
    "SystemExit",
)


def lines(log: str) -> list[str]:
    """The non-empty lines of a log; a progress bar's carriage returns make lines of their own."""
    return [line.rstrip() for line in re.split(r"[\r\n]+", log) if line.strip()]


def progress(log: str) -> str:
    """How far a start is, in words; "starting" when the log says nothing yet."""
    for line in reversed(lines(log)):
        for pattern, words in reversed(STAGES):
            match = pattern.search(line)
            if match:
                return words.format(*match.groups())
    return "starting"


def last_line(log: str) -> str:
    """What the log says last, without its prefix; "" for an empty log."""
    found = lines(log)
    return PREFIX.sub("", found[-1]).strip() if found else ""


def cause(log: str) -> str | None:
    """The line that says why an engine failed; None when the log holds no error.

    It is the last exception that was not raised only because another process had failed; a wrong argument's message
    comes as vLLM's parser prints it.
    """
    said = [PREFIX.sub("", line).strip() for line in lines(log)]
    errors = []
    for line, following in zip(said, [*said[1:], ""]):
        if USAGE_ERROR.match(line) or EXCEPTION.match(line):
            # pydantic tells what is wrong in the line below.
            errors.append(f"{line}: {following}" if PYDANTIC.search(line) else line)
    first_hand = [s for s in errors if not any(word in s for word in SECOND_HAND)]
    if first_hand:
        return first_hand[-1]
    return errors[-1] if errors else None
