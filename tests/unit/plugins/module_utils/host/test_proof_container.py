# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.host.proof_container import Collected, ProofContainer
from ansible_collections.tandem.vllm.plugins.module_utils.transport.failure import Ended

NAME = "tandem-proof"
STATE = {"Status": "exited", "ExitCode": 1, "StartedAt": "2026-01-01T00:00:00Z", "OOMKilled": False, "Error": ""}
LOG = "2026-01-01T00:00:00.000000001Z first\n2026-01-01T00:00:00.000000002Z second\n"
NONE = (1, "[]", f"Error: No such container: {NAME}")
Answer = tuple[int, str, str]


def inspected(**state: Any) -> str:
    return json.dumps([{"Id": "0123", "State": {**STATE, **state}, "RestartCount": 0}])


class Host:
    """A host whose Docker answers what a test says; `asked` has what was asked of it, without the limits."""

    def __init__(self, **answers: Answer | None) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, Answer | None] = {
            "inspect": (0, inspected(), ""),
            "label": (0, "all_reduce_proof\n", ""),
            "logs": (0, LOG, ""),
            "rm": (0, NAME, ""),
            "run": (0, "0123\n", ""),
            "wait": (0, "1\n", ""),
            **answers,
        }

    def __call__(self, argv: Sequence[str]) -> Answer:
        command = list(argv[4:]) if argv[:2] == ["timeout", "-k"] else list(argv)
        self.asked.append(" ".join(command))
        assert command[0] == "docker"
        word = "label" if "--format" in command else "inspect" if command[1] == "container" else command[1]
        answer = self.answers[word]
        if answer is None:
            raise SystemExit(1)
        return answer


def test_start_removes_what_was_left() -> None:
    host = Host()
    assert ProofContainer(host, NAME).start(["docker", "run", "--detach", "x"]) is None
    assert host.asked == [f"docker rm --force --volumes {NAME}", "docker run --detach x"]


def test_what_did_not_start_is_removed() -> None:
    host = Host(run=(125, "", "docker: Error response from daemon: Conflict.\n"))
    said = ProofContainer(host, NAME).start(["docker", "run", "--detach", "x"])
    assert said == "docker: Error response from daemon: Conflict."
    assert host.asked[-1] == f"docker rm --force --volumes {NAME}"


def test_nothing_is_started_while_the_old_one_is_there() -> None:
    host = Host(rm=(1, "", "cannot remove"))
    assert ProofContainer(host, NAME).start(["docker", "run", "--detach", "x"]) == "cannot remove"
    assert host.asked == [f"docker rm --force --volumes {NAME}"]


@pytest.mark.parametrize(
    ("label", "anothers"),
    [((0, "all_reduce_proof\n", ""), False), ((0, "\n", ""), True), ((0, "other\n", ""), True), (NONE, False)],
)
def test_whose_container_it_is(label: Answer, anothers: bool) -> None:
    assert ProofContainer(Host(label=label), NAME).is_anothers() is anothers


def test_collect() -> None:
    host = Host()
    assert ProofContainer(host, NAME).collect(100) == Collected(Ended(True, False, 1), "first\nsecond", None)
    assert [line.split()[1] for line in host.asked] == ["wait", "container", "logs", "rm"]


def test_what_does_not_end_is_read_and_removed() -> None:
    host = Host(wait=(124, "", ""), inspect=(0, inspected(Status="running"), ""))
    collected = ProofContainer(host, NAME).collect(100)
    assert collected.ended.timed_out
    assert collected.log == "first\nsecond"
    assert host.asked[-1] == f"docker rm --force --volumes {NAME}"


def test_nothing_to_collect() -> None:
    host = Host(wait=NONE, inspect=NONE, rm=NONE)
    assert ProofContainer(host, NAME).collect(100) == Collected(Ended(False, error=NONE[2]), "", None)


def test_what_cannot_be_removed_is_told() -> None:
    assert ProofContainer(Host(rm=(1, "", "device busy")), NAME).collect(100).left == "device busy"


def test_it_is_removed_when_the_wait_is_broken_off() -> None:
    host = Host(wait=None)
    with pytest.raises(SystemExit):
        ProofContainer(host, NAME).collect(100)
    assert host.asked == [f"docker wait {NAME}", f"docker rm --force --volumes {NAME}"]


def test_what_runs_is_left() -> None:
    started = time.strftime("%Y-%m-%dT%H:%M:%S.123456789Z", time.gmtime(time.time() - 50))
    host = Host(wait=(124, "", ""), inspect=(0, inspected(Status="running", StartedAt=started), ""))
    assert ProofContainer(host, NAME).running(8, 100) == "first\nsecond"
    assert [line.split()[1] for line in host.asked] == ["wait", "container", "logs"]
    # Over its time it is for `collect` to take away.
    assert ProofContainer(host, NAME).running(8, 40) is None


@pytest.mark.parametrize("answers", [{}, {"wait": NONE, "inspect": NONE}, {"wait": (124, "", ""), "inspect": NONE}])
def test_what_does_not_run(answers: dict[str, Answer]) -> None:
    host = Host(**answers)
    assert ProofContainer(host, NAME).running(8, 100) is None
    assert "rm" not in {line.split()[1] for line in host.asked}
