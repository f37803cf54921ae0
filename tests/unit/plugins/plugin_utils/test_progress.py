# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.plugin_utils import progress


class Clock:
    """Time that passes only by sleeping, and by looks that take `look_s` seconds."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []

    class Display:
        def display(self, line: str) -> None:
            lines.append(line)

    monkeypatch.setattr(progress, "Display", Display)
    return lines


def wait(states: list[Any], timeout: float = 60, interval: float = 2, **more: Any) -> tuple[Any, str | None, float]:
    """Waits for the state "there"; "gone" is a failure. The last state stays."""
    looks = iter(states)
    latest: list[Any] = []

    def look() -> dict[str, Any]:
        latest[:] = [next(looks, *latest)]
        return latest[0] if isinstance(latest[0], dict) else {"state": latest[0]}

    return progress.wait(
        look,
        done=lambda r: r["state"] == "there",
        failure=lambda first, r: f"was {first['state']}, is gone" if r["state"] == "gone" else None,
        words=lambda r: "it is " + r["state"],
        label="node1 x",
        timeout=timeout,
        interval=interval,
        **more,
    )


def test_what_is_there_at_once_is_not_talked_of(clock: Clock, shown: list[str]) -> None:
    assert wait(["there"]) == ({"state": "there"}, None, 0)
    assert (shown, clock.slept) == ([], [])


def test_changes_are_shown_once(clock: Clock, shown: list[str]) -> None:
    assert wait(["a", "a", "b", "there"]) == ({"state": "there"}, None, 6)
    assert shown == ["node1 x: it is a (0 s)", "node1 x: it is b (4 s)", "node1 x: it is there (6 s)"]
    assert clock.slept == [2, 2, 2]


def test_a_sign_of_life_when_nothing_changes(clock: Clock, shown: list[str]) -> None:
    wait(["a"] * 8 + ["there"], interval=5)
    assert shown == [
        "node1 x: it is a (0 s)",
        "node1 x: it is a (15 s)",
        "node1 x: it is a (30 s)",
        "node1 x: it is there (40 s)",
    ]


def test_a_reason_to_give_up(clock: Clock, shown: list[str]) -> None:
    assert wait(["a", "gone", "there"]) == ({"state": "gone"}, "was a, is gone", 2)
    assert shown == ["node1 x: it is a (0 s)"]


def test_the_time_is_over(clock: Clock, shown: list[str]) -> None:
    assert wait(["a"], timeout=5) == ({"state": "a"}, "nothing after 6 s, limit is 5 s", 6)


def test_no_time_at_all_is_one_look(clock: Clock, shown: list[str]) -> None:
    assert wait(["a", "there"], timeout=0) == ({"state": "a"}, "nothing after 0 s, limit is 0 s", 0)
    assert clock.slept == []


def test_a_look_that_fails(clock: Clock, shown: list[str]) -> None:
    failed = {"failed": True, "msg": "no such file"}
    assert wait(["a", failed]) == (failed, "no such file", 2)
