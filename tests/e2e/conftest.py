# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end-to-end tests are one story on one lab, in order: a step that fails ends it."""

from __future__ import annotations

import pytest

_broken: list[str] = []


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    if call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception):
        _broken.append(item.name)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if _broken:
        pytest.fail(f"not run: {_broken[0]} failed before {item.name}")
