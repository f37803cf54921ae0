# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.tandem.vllm.plugins.action import vllm_engine_info
from ansible_collections.tandem.vllm.plugins.action.vllm_engine_info import (
    Idle,
    ended,
    give_up,
    idle_words,
    is_ready,
    start_words,
)
from ansible_collections.tandem.vllm.plugins.plugin_utils import progress

STARTING = {"state": "starting", "restarts": 0, "progress": "loading the model", "last_log_line": "Loading …"}
READY = {"state": "ready", "restarts": 0, "progress": "serving", "last_log_line": "", "vllm_version": "0.32.0"}
ABSENT = {"state": "absent", "restarts": 0, "progress": "no such container", "last_log_line": ""}
EXITED = {**STARTING, "state": "exited", "cause": "ValueError: too small.", "last_log_line": "bye."}
AGAIN = {**STARTING, "restarts": 1, "failed_before": "ValueError: too small"}
NEXT = "Next: on node1 run 'docker logs --tail 100 tandem-a'."


@pytest.mark.parametrize(
    ("first", "latest", "reason"),
    [
        (STARTING, STARTING, None),
        (STARTING, READY, None),
        (STARTING, ABSENT, "there is no such container"),
        (STARTING, EXITED, "ValueError: too small."),
        (STARTING, AGAIN, "the engine ended and was restarted: ValueError: too small"),
        # Docker's count from before the wait says nothing of this start.
        (AGAIN, AGAIN, None),
        (
            AGAIN,
            {**STARTING, "restarts": 2, "state": "restarting", "cause": "OSError: x", "failed_before": "ValueError: y"},
            "the engine ended and was restarted: OSError: x",
        ),
        (STARTING, {**STARTING, "state": "restarting", "cause": "x"}, None),
    ],
)
def test_ended(first: dict[str, Any], latest: dict[str, Any], reason: str | None) -> None:
    assert ended(first, latest) == reason


@pytest.mark.parametrize(
    ("looks", "answers"),
    [
        ([0, 0], [False, True]),
        ([0, 1, 0, 0], [False, False, False, True]),
        ([2, 1], [False, False]),
        ([None, None], [False, False]),
        ([0, None, 0], [False, False, False]),
    ],
)
def test_idle_is_seen_twice(looks: list[int | None], answers: list[bool]) -> None:
    idle = Idle()
    assert [idle({"state": "ready", "in_engine": n}) for n in looks] == answers


@pytest.mark.parametrize(
    ("state", "is_idle"),
    [("absent", True), ("exited", True), ("restarting", True), ("starting", False), ("ready", False)],
)
def test_an_engine_that_does_not_run_is_idle(state: str, is_idle: bool) -> None:
    idle = Idle()
    assert [idle({"state": state}), idle({"state": state})] == [False, is_idle]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (READY, "serving"),
        (STARTING, "loading the model | Loading …"),
        (ABSENT, "no such container"),
        ({**STARTING, "answer": "HTTP 404: no model"}, "loading the model | HTTP 404: no model"),
        ({**STARTING, "last_log_line": "x" * 200}, "loading the model | " + "x" * 160),
    ],
)
def test_start_words(result: dict[str, Any], words: str) -> None:
    assert start_words(result) == words


def test_other_words() -> None:
    assert [idle_words({"state": "ready", "in_engine": n}) for n in (3, 0, None)] == [
        "3 requests in the engine",
        "0 requests in the engine",
        "? requests in the engine",
    ]
    said = {state: idle_words({"state": state}) for state in ("absent", "exited", "restarting")}
    assert said == dict.fromkeys(said, "the engine does not run")
    assert [is_ready(r) for r in (READY, STARTING)] == [True, False]


@pytest.mark.parametrize(
    ("reason", "latest", "message"),
    [
        (
            "ValueError: too small.",
            EXITED,
            "tandem-a on node1 is not ready: ValueError: too small. Last log line: bye. " + NEXT,
        ),
        ("x", ABSENT, "tandem-a on node1 is not ready: x. Last log line: nothing. " + NEXT),
        ("x", {}, "tandem-a on node1 is not ready: x. Last log line: nothing. " + NEXT),
        (
            "x",
            {**STARTING, "answer": "HTTP 500: oops"},
            "tandem-a on node1 is not ready: x. Last log line: HTTP 500: oops. " + NEXT,
        ),
        (
            "x",
            {"last_log_line": "y" * 400},
            "tandem-a on node1 is not ready: x. Last log line: " + "y" * 300 + ". " + NEXT,
        ),
    ],
)
def test_give_up(reason: str, latest: dict[str, Any], message: str) -> None:
    assert give_up("node1", "tandem-a", "ready", reason, latest) == message


class Run:
    """One run of the action; the module answers with one result after the other, the last one stays."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, results: list[dict[str, Any]], **arguments: Any) -> None:
        self.calls: list[dict[str, Any]] = []
        self.shown: list[str] = []
        display = MagicMock()
        display.display.side_effect = self.shown.append
        monkeypatch.setattr(progress, "Display", lambda: display)
        monkeypatch.setattr(progress, "time", MagicMock(**{"monotonic.return_value": 7.0}))
        loader, given = DataLoader(), {"container": "tandem-a", "interval": "0", **arguments}
        task = MagicMock(action="tandem.vllm.vllm_engine_info", args=given, async_val=0, check_mode=False)
        action = vllm_engine_info.ActionModule(task, MagicMock(), MagicMock(), loader, Templar(loader), MagicMock())

        def execute(name: str, module_args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
            assert name == "tandem.vllm.vllm_engine_info"
            self.calls.append(module_args)
            return dict(results[min(len(self.calls), len(results)) - 1])

        monkeypatch.setattr(action, "_execute_module", execute)
        self.result: dict[str, Any] = action.run(task_vars={"inventory_hostname": "node1"})
        assert all(call == given for call in self.calls)


def test_run_reads_once(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, [STARTING, READY])
    assert (run.result, len(run.calls), run.shown) == (STARTING, 1, [])


def test_run_until_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, [STARTING, {**STARTING, "progress": "compiling"}, READY], wait_for="ready")
    assert run.result.pop("waited") == 0.0
    assert (run.result, len(run.calls)) == (READY, 3)
    assert run.shown == [
        "node1 tandem-a: loading the model | Loading … (0 s)",
        "node1 tandem-a: compiling | Loading … (0 s)",
        "node1 tandem-a: serving (0 s)",
    ]


def test_run_of_an_engine_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, [STARTING, EXITED], wait_for="ready")
    assert run.result["failed"] is True
    assert run.result["msg"] == ("tandem-a on node1 is not ready: ValueError: too small. Last log line: bye. " + NEXT)
    picked = [run.result[key] for key in ("reason", "cause", "state")]
    assert picked == ["ValueError: too small.", "ValueError: too small.", "exited"]


def test_run_out_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, [STARTING], wait_for="ready", timeout="0")
    assert (run.result["failed"], len(run.calls)) == (True, 1)
    assert run.result["msg"] == (
        "tandem-a on node1 is not ready: nothing after 0 s, limit is 0 s. Last log line: Loading …. " + NEXT
    )


@pytest.mark.parametrize("wait_for", ["ready", "idle"])
def test_run_of_a_module_that_fails(monkeypatch: pytest.MonkeyPatch, wait_for: str) -> None:
    run = Run(monkeypatch, [{"failed": True, "msg": "key_file = /k cannot be read"}], wait_for=wait_for)
    assert (run.result["failed"], len(run.calls)) == (True, 1)
    assert run.result["msg"] == (
        f"tandem-a on node1 is not {wait_for}: key_file = /k cannot be read. Last log line: nothing. {NEXT}"
    )


def test_run_until_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [2, 0, 1, 0, 0]
    run = Run(monkeypatch, [{**READY, "in_engine": n} for n in counts], wait_for="idle")
    assert (len(run.calls), run.result["in_engine"], run.result.get("failed")) == (5, 0, None)
    assert run.shown[0] == "node1 tandem-a: 2 requests in the engine (0 s)"
    assert run.shown[-1] == "node1 tandem-a: 0 requests in the engine (0 s)"


def test_a_request_without_end_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, [{**READY, "in_engine": 1}], wait_for="idle", timeout=0)
    assert "failed" not in run.result
    assert run.result["warnings"] == ["tandem-a on node1 still had 1 requests in the engine after 0 s"]


def test_idle_goes_on_when_the_engine_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, [{**READY, "in_engine": 1}, {**AGAIN, "state": "restarting"}, EXITED], wait_for="idle")
    assert (len(run.calls), "failed" in run.result, "warnings" in run.result) == (3, False, False)
