# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end-to-end tests are one story on one lab, in order: a step that fails ends it."""

from __future__ import annotations

from pathlib import Path

import pytest

# The one failure that matters; tools/test.sh shows it last.
REASON = Path(__file__).resolve().parents[1] / "output/e2e.txt"
_broken: list[str] = []


def pytest_sessionstart() -> None:
    REASON.unlink(missing_ok=True)


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    if call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception):
        if not _broken:
            REASON.parent.mkdir(exist_ok=True)
            where = call.excinfo.traceback[-1]
            REASON.write_text(f"{item.name}, {where.path.name}:{where.lineno + 1}:\n{call.excinfo.exconly()}\n")
        _broken.append(item.name)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if _broken:
        pytest.fail(f"not run: {_broken[0]} failed before {item.name}")
