# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.tandem.vllm.plugins.action import all_reduce_proof
from ansible_collections.tandem.vllm.plugins.plugin_utils import progress

WAITS = {"state": "running", "progress": "wait for all ranks; rank 1 of node2 not there yet"}
REDUCES = {"state": "running", "progress": "first all-reduce"}
PASSED = {"state": "passed", "transport": "gloo/tcp"}
FAILED = {"failed": True, "state": "failed", "msg": "node1: the transport proof failed."}


class Run:
    """One run of the action; the module answers with one result after the other, the last one stays."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, results: list[dict[str, Any]], **arguments: Any) -> None:
        self.calls: list[dict[str, Any]] = []
        self.shown: list[str] = []
        display = MagicMock()
        display.display.side_effect = self.shown.append
        clock = iter(range(0, 10000, 100))
        monkeypatch.setattr(progress, "Display", lambda: display)
        monkeypatch.setattr(progress, "time", MagicMock(monotonic=lambda: float(next(clock))))
        loader, given = DataLoader(), {"name": "tandem-proof", "timeout": "600", **arguments}
        task = MagicMock(action="tandem.vllm.all_reduce_proof", args=given, async_val=0, check_mode=False)
        action = all_reduce_proof.ActionModule(task, MagicMock(), MagicMock(), loader, Templar(loader), MagicMock())

        def execute(name: str, module_args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
            assert name == "tandem.vllm.all_reduce_proof"
            self.calls.append(module_args)
            return dict(results[min(len(self.calls), len(results)) - 1])

        monkeypatch.setattr(action, "_execute_module", execute)
        self.result: dict[str, Any] = action.run(task_vars={"inventory_hostname": "node1"})


@pytest.mark.parametrize("arguments", [{"step": "start"}, {"step": "collect", "wait": 5}])
def test_one_call(monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any]) -> None:
    run = Run(monkeypatch, [WAITS], **arguments)
    assert (run.result, run.shown) == (WAITS, [])
    assert run.calls == [{"name": "tandem-proof", "timeout": "600", **arguments}]


def test_until_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, [WAITS, REDUCES, PASSED], step="collect")
    assert run.result == PASSED
    assert [call["wait"] for call in run.calls] == [8, 8, 8]
    assert [line.rpartition(" (")[0] for line in run.shown] == [
        "node1 tandem-proof: wait for all ranks; rank 1 of node2 not there yet",
        "node1 tandem-proof: first all-reduce",
        "node1 tandem-proof: passed",
    ]


def test_the_modules_failure_is_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, [WAITS, FAILED], step="collect")
    assert run.result == FAILED


def test_one_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, [WAITS], step="collect")
    assert run.result["failed"]
    assert run.result["msg"].startswith("node1: the transport proof has not ended: nothing after ")
