# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.engine_log import cause, last_line, lines, progress

LOGS = Path(__file__).resolve().parents[3] / "fixtures" / "engine_logs"


def read(name: str) -> str:
    # newline="": progress bars go back with a carriage return
    with (LOGS / (name + ".txt")).open(newline="", encoding="utf-8") as stream:
        return stream.read()


def until(name: str, text: str) -> str:
    """A log up to and with a text, as if the engine were that far."""
    before, found, _after = read(name).partition(text)
    assert found
    return before + found


@pytest.mark.parametrize(
    ("log", "text", "words"),
    [
        ("start", "non-default args", "starting"),
        ("start", "Using max model len 2048", "starting"),
        ("start", "disabling torch.compile", "starting"),
        ("start", "Initializing a V1 LLM engine", "initializing the engine"),
        ("start", "Starting to load model", "loading the model"),
        ("start", "0% Completed | 0/1", "loading weights, shard 0 of 1 (0 %)"),
        ("start", "100% Completed | 1/1", "loading weights, shard 1 of 1 (100 %)"),
        ("start", "Loading weights took", "weights loaded"),
        ("start", "CPU KV cache size", "KV cache allocated"),
        ("start", "Starting vLLM server", "starting the API server"),
        ("start", "Started server process", "starting the API server"),
        ("start", "Waiting for application startup", "starting the API server"),
        ("start", "Application startup complete", "API server up, waiting for a completion"),
        ("start", 'GET /health HTTP/1.1" 200 OK', "API server up, waiting for a completion"),
        ("gpu_start", "vLLM API server version", "starting"),
        ("gpu_start", "Initializing a V1 LLM engine", "initializing the engine"),
        ("gpu_start", "Starting to load model", "loading the model"),
        ("gpu_start", "7/14", "loading weights, shard 7 of 14 (50 %)"),
        ("gpu_start", "14/14", "loading weights, shard 14 of 14 (100 %)"),
        ("gpu_start", "Model loading took", "weights loaded"),
        ("gpu_start", "Dynamo bytecode transform", "compiling"),
        ("gpu_start", "torch.compile takes", "compiling"),
        ("gpu_start", "GPU KV cache size", "KV cache allocated"),
        ("gpu_start", "49%|", "capturing CUDA graphs (49 %)"),
        ("gpu_start", "Graph capturing finished", "capturing CUDA graphs (100 %)"),
        ("gpu_start", "Starting vLLM API server 0", "starting the API server"),
        ("gpu_start", "Application startup complete", "API server up, waiting for a completion"),
    ],
)
def test_progress(log: str, text: str, words: str) -> None:
    assert progress(until(log, text)) == words
    assert cause(until(log, text)) is None


@pytest.mark.parametrize("log", ["", "\n\r\n", "Triton not available"])
def test_a_log_that_says_nothing_yet(log: str) -> None:
    assert progress(log) == "starting"


def test_a_second_start_begins_again() -> None:
    assert progress(read("kv_cache_too_small") + until("start", "non-default args")) == "starting"


@pytest.mark.parametrize(
    ("log", "last"),
    [
        ("", ""),
        ("\n \r\n", ""),
        (until("start", "Resolved architecture"), "Resolved architecture"),
        (until("start", "100% Completed"), "Loading safetensors checkpoint shards: 100% Completed"),
        (until("gpu_start", "49%"), "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  49%"),
        (until("gpu_start", "INFO:     Started server process [1]"), "INFO:     Started server process [1]"),
        (until("kv_cache_too_small", "EngineCore failed to start."), "EngineCore failed to start."),
    ],
)
def test_last_line(log: str, last: str) -> None:
    assert last_line(log) == last


def test_lines_of_progress_bars() -> None:
    assert lines("a\r 1%\r 2%  \r\n\nb") == ["a", " 1%", " 2%", "b"]


@pytest.mark.parametrize(
    ("log", "begins"),
    [
        (
            "wrong_model_path",
            "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or "
            "'namespace/repo_name': '/models/nope'.",
        ),
        (
            "kv_cache_too_small",
            "ValueError: To serve at least one request with the model's max seq len (1000000), (1.91 GiB KV cache is "
            "needed, which is larger than the available KV cache memory (1.0 GiB).",
        ),
        (
            "max_model_len_too_long",
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig: Value error, "
            "User-specified max_model_len (1000000) is greater than the derived max_model_len",
        ),
        ("unknown_flag", "vllm: error: unrecognized arguments: --foo"),
        ("unknown_flag_of_serve", "vllm serve: error: unrecognized arguments: --foo"),
    ],
)
def test_cause(log: str, begins: str) -> None:
    assert (cause(read(log)) or "")[: len(begins)] == begins


@pytest.mark.parametrize(
    ("log", "why"),
    [
        ("", None),
        ("INFO all is well\nValueErrors are rare", None),
        ("an error: nothing", None),
        ("OSError: [Errno 28] No space left on device", "OSError: [Errno 28] No space left on device"),
        ("(Worker_TP1 pid=9) ERROR 11-29 10:00:00 [x.py:1] torch.OutOfMemoryError: CUDA out of memory.", "torch.OutOf"),
        ("ImportError: a\nValueError: b\nRuntimeError: Engine core initialization failed. See", "ValueError: b"),
        ("RuntimeError: Engine core initialization failed. See", "RuntimeError: Engine core initialization failed."),
        ("KeyError: 'a'\nSystemExit: 1", "KeyError: 'a'"),
        ("AssertionError", "AssertionError"),
        ("x.ValidationError: 2 validation errors for A\n", "x.ValidationError: 2 validation errors for A: "),
    ],
)
def test_cause_of_short_logs(log: str, why: str | None) -> None:
    found = cause(log)
    assert (found if why is None or found is None else found[: len(why)]) == why
