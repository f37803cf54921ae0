# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints a table to the person who runs the playbook; documented at the module of the same name."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.tandem.vllm.plugins.module_utils.table import DEFAULT_WIDTH, render, wrap

ARGUMENTS: dict[str, Any] = {
    "title": {"type": "str"},
    "columns": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"key": {"type": "str", "required": True, "no_log": False}, "title": {"type": "str"}},
    },
    "rows": {"type": "list", "elements": "dict", "default": []},
    "footer": {"type": "list", "elements": "str", "default": []},
    "width": {"type": "int", "default": DEFAULT_WIDTH},
}


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        validate: Any = self.validate_argument_spec  # has no type hints
        _validated, options = validate(ARGUMENTS)
        lines = report_lines(**{name: options[name] for name in ARGUMENTS})
        display = Display()
        for line in lines:
            display.display(line)
        result.update(changed=False, lines=lines)
        return result


def report_lines(
    title: str | None, columns: list[dict[str, str]], rows: list[dict[str, Any]], footer: list[str], width: int
) -> list[str]:
    """The lines of a report, set off by an empty line before and after and between its parts."""
    parts = [
        [title, "=" * len(title)] if title else [],
        render(columns, rows, width),
        [line for entry in footer for line in wrap(entry, width)],
    ]
    lines = [""]
    for part in parts:
        if part:
            lines += [*part, ""]
    return lines
