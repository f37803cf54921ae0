# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting that talks: asks again until something is there, and tells the user how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ansible.utils.display import Display

# A line is shown when what it says changes, and otherwise after this many seconds.
QUIET_SECONDS = 15.0

Result = dict[str, Any]


def wait(
    look: Callable[[], Result],
    done: Callable[[Result], bool],
    failure: Callable[[Result, Result], str | None],
    words: Callable[[Result], str],
    label: str,
    timeout: float,
    interval: float,
) -> tuple[Result, str | None, float]:
    """Call `look` until `done`, until `failure` (told the first and the latest result) names a reason, or `timeout` s.

    Shows "label: words (seconds)" through Display. Returns the last result, the reason for giving up (None when done)
    and the seconds waited.
    """
    display, began = Display(), time.monotonic()
    shown, shown_at = "", began
    first = latest = look()
    while True:
        waited = time.monotonic() - began
        if latest.get("failed"):
            return latest, str(latest.get("msg")), waited
        if done(latest):
            if shown:
                display.display(f"{label}: {words(latest)} ({waited:.0f} s)")
            return latest, None, waited
        reason = failure(first, latest)
        if reason is not None:
            return latest, reason, waited
        if waited >= timeout:
            return latest, f"nothing after {waited:.0f} s, limit is {timeout:.0f} s", waited
        text = words(latest)
        if text != shown or time.monotonic() - shown_at >= QUIET_SECONDS:
            display.display(f"{label}: {text} ({waited:.0f} s)")
            shown, shown_at = text, time.monotonic()
        time.sleep(interval)
        latest = look()
