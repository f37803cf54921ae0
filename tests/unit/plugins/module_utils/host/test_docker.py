# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.engine_log import last_line, progress
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import ContainerState, Docker, tolerant

INSPECTED = [
    {
        "Id": "ab" * 32,
        "Name": "/tandem-chat-node1",
        "RestartCount": 3,
        "State": {
            "Status": "exited",
            "Running": False,
            "OOMKilled": True,
            "ExitCode": 137,
            "Error": "x",
            "StartedAt": "2026-11-29T17:57:12.1Z",
        },
    }
]


class Runner:
    """Answers every command with one answer, and keeps what was asked."""

    def __init__(self, status: int, out: str = "", err: str = "") -> None:
        self.answer = (status, out, err)
        self.asked: list[list[str]] = []

    def __call__(self, argv: Sequence[str]) -> tuple[int, str, str]:
        self.asked.append(list(argv))
        return self.answer


def test_container() -> None:
    run = Runner(0, json.dumps(INSPECTED))
    state = ContainerState("exited", 137, 3, "2026-11-29T17:57:12.1Z", True, "x")
    assert Docker(run).container("tandem-chat-node1") == state
    assert run.asked == [["docker", "container", "inspect", "tandem-chat-node1"]]


def test_no_container() -> None:
    assert Docker(Runner(1, "[]", "Error: No such container: x")).container("x") is None


@pytest.mark.parametrize(
    ("answer", "image"),
    [((0, "sha256:ab\n", ""), "sha256:ab"), ((1, "\n", "Error: No such image: vllm"), None)],
)
def test_image_id(answer: tuple[int, str, str], image: str | None) -> None:
    run = Runner(*answer)
    assert Docker(run).image_id("vllm") == image
    assert run.asked == [["docker", "image", "inspect", "--format", "{{.Id}}", "vllm"]]


def test_logs_are_in_the_order_they_were_written() -> None:
    out = "2026-11-29T10:00:00.000000001Z one\n2026-11-29T10:00:03.000000000Z three\n"
    err = "2026-11-29T10:00:02.500000000Z  two\n2026-11-29T10:00:04.000000000Z \n2026-11-29T10:00:05.000000000Z four"
    run = Runner(0, out, err)
    assert Docker(run).logs("tandem-a", 40) == "one\n two\nthree\nfour"
    assert run.asked == [["docker", "logs", "--timestamps", "--tail", "40", "tandem-a"]]


def test_progress_bars_stay_where_they_were() -> None:
    """A carriage return is within one line of Docker: what stands behind it has no time stamp of its own."""
    out = "2026-11-29T10:00:00.000000001Z Starting to load model /m\n2026-11-29T10:00:03.000000000Z KV cache size: 1\n"
    shards = "Loading safetensors checkpoint shards: "
    err = f"2026-11-29T10:00:02.000000000Z \r{shards}  0% Completed | 0/2\r{shards} 50% Completed | 1/2\n"
    log = Docker(Runner(0, out, err)).logs("x", 9)
    assert log == (
        f"Starting to load model /m\n\r{shards}  0% Completed | 0/2\r{shards} 50% Completed | 1/2\nKV cache size: 1"
    )
    assert (progress(log), last_line(log)) == ("KV cache allocated", "KV cache size: 1")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((0, "a\t0.0.0.0:80->80/tcp\n", ""), (None, "a\t0.0.0.0:80->80/tcp\n")),
        ((0, "", ""), (None, "")),
        ((1, "", "x\nCannot connect to the Docker daemon\n"), ("Cannot connect to the Docker daemon", "")),
        ((1, "said on stdout", ""), ("said on stdout", "")),
        ((127, "", ""), ("docker was not found", "")),
    ],
)
def test_published_ports(answer: tuple[int, str, str], told: tuple[str | None, str]) -> None:
    assert Docker(Runner(*answer)).published_ports() == told


def test_a_missing_program_is_an_answer() -> None:
    def run_command(argv: Sequence[str], **options: Any) -> tuple[int, str, str]:
        assert options == {"handle_exceptions": False}
        raise FileNotFoundError(2, "No such file or directory")

    assert tolerant(run_command)(["docker", "ps"]) == (127, "", "docker: No such file or directory")
    assert Docker(tolerant(run_command)).published_ports() == ("docker: No such file or directory", "")
    assert Docker(tolerant(run_command)).image_id("x") is None


def test_a_program_that_is_there_answers_itself() -> None:
    assert tolerant(lambda argv, **_options: (3, argv[0], "e"))(["docker"]) == (3, "docker", "e")
