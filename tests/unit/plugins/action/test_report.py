# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.tandem.vllm.plugins.action import report

ROWS = [{"name": "chat-node1", "node": "n1"}, {"name": "chat-node2"}]
COLUMNS = [{"key": "name", "title": "replica"}, {"key": "node"}]
LINES = [
    "",
    "Replicas",
    "========",
    "",
    "replica     node",
    "----------  ----",
    "chat-node1  n1",
    "chat-node2  -",
    "",
    "endpoint: http://gw",
    "",
]


def run(
    monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], check_mode: bool = False
) -> tuple[dict[str, Any], list[str]]:
    display = MagicMock()
    monkeypatch.setattr(report, "Display", lambda: display)
    loader = DataLoader()
    task = MagicMock(action="tandem.vllm.report", args=arguments, async_val=0, check_mode=check_mode)
    action = report.ActionModule(task, MagicMock(), MagicMock(), loader, Templar(loader), MagicMock())
    result = action.run(task_vars={})
    return result, [call.args[0] for call in display.display.call_args_list]


@pytest.mark.parametrize("check_mode", [False, True])
def test_lines_are_printed_and_returned(monkeypatch: pytest.MonkeyPatch, check_mode: bool) -> None:
    arguments = {"title": "Replicas", "columns": COLUMNS, "rows": ROWS, "footer": ["endpoint: http://gw"]}
    result, printed = run(monkeypatch, arguments, check_mode)
    assert printed == LINES
    assert (result["lines"], result["changed"]) == (LINES, False)


def test_a_footer_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, {"footer": ["one", "two"]})[1] == ["", "one", "two", ""]


def test_misspelled_options_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AnsibleError, match="heading"):
        run(monkeypatch, {"heading": "x"})
