# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.tandem.vllm.plugins.action import host_info
from ansible_collections.tandem.vllm.plugins.action.host_info import best

ANSWER = {"changed": False, "memory_mib": 7, "clock_offset_s": None, "clock_uncertainty_s": None}
NOT_MEASURED = {"clock_offset_s": None, "clock_uncertainty_s": None}


@pytest.mark.parametrize(
    ("probes", "offset", "uncertainty"),
    [
        ([(100.0, "100.500000000\n", 101.0)], 0.0, 0.5),
        ([(100.0, "103.250000000\n", 100.5)], 3.0, 0.25),
        ([(100.0, "99.250000000\r\n", 100.5)], -1.0, 0.25),
        # The fastest counts, whichever it is.
        ([(1.0, "2.000", 3.0), (4.0, "4.500", 4.5), (5.0, "9.000", 9.0)], 0.25, 0.25),
        # What a login prints before.
        ([(100.0, "Welcome to 22.04.1\n100.500000000\n", 101.0)], 0.0, 0.5),
        # A probe that failed does not spoil the others, however fast it was.
        ([(1.0, "", 1.0), (100.0, "100.500000000\n", 101.0)], 0.0, 0.5),
        # The control node's clock was set back meanwhile.
        ([(100.0, "100.500000000\n", 99.0)], None, None),
        # A date without nanoseconds.
        ([(100.0, "100.%N\n", 101.0)], None, None),
        ([(100.0, "100\n", 101.0)], None, None),
        ([], None, None),
    ],
)
def test_best(probes: list[tuple[float, str, float]], offset: float | None, uncertainty: float | None) -> None:
    assert best(probes) == {"clock_offset_s": offset, "clock_uncertainty_s": uncertainty}


class Run:
    """One run of the action: what the module answers, and what `date` prints at each probe."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], printed: list[str], check_mode: bool = False
    ) -> None:
        self.commands: list[str] = []
        task = MagicMock(action="tandem.vllm.host_info", args={"paths": ["/x"]}, async_val=0, check_mode=check_mode)
        loader = DataLoader()
        action = host_info.ActionModule(task, MagicMock(), MagicMock(), loader, Templar(loader), MagicMock())
        clock = iter([100.0, 101.0, 102.0, 102.25, 104.0, 105.0])

        def execute(name: str, module_args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
            assert (name, module_args, self.commands) == ("tandem.vllm.host_info", {"paths": ["/x"]}, [])
            return dict(answer)

        def command(line: str) -> dict[str, Any]:
            self.commands.append(line)
            return {"rc": 0, "stdout": printed[len(self.commands) - 1]}

        monkeypatch.setattr(action, "_execute_module", execute)
        monkeypatch.setattr(action, "_low_level_execute_command", command)
        monkeypatch.setattr(host_info, "time", MagicMock(time=lambda: next(clock)))
        self.result: dict[str, Any] = action.run(task_vars={"inventory_hostname": "node1"})


@pytest.mark.parametrize("check_mode", [False, True])
def test_the_clock_is_measured(monkeypatch: pytest.MonkeyPatch, check_mode: bool) -> None:
    run = Run(monkeypatch, ANSWER, ["100.1", "103.125000000\n", "105.000000000\n"], check_mode)
    assert run.result == {**ANSWER, "clock_offset_s": 1.0, "clock_uncertainty_s": 0.125}
    assert run.commands == ["date +%s.%N"] * 3


def test_a_clock_that_cannot_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Run(monkeypatch, ANSWER, ["", "sh: date: not found", ""]).result == {**ANSWER, **NOT_MEASURED}


@pytest.mark.parametrize("answer", [{"failed": True, "msg": "no"}, {"unreachable": True, "msg": "gone"}])
def test_a_module_that_fails(monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]) -> None:
    run = Run(monkeypatch, answer, [])
    assert (run.result, run.commands) == (answer, [])
