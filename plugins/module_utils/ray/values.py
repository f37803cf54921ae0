# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers and sizes as Ray prints them."""

from __future__ import annotations

import re

NUMBER = r"-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?"
UNIT = r"(?:[KMGTP]i?)?B"
BYTES = {"B": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
SIZE = re.compile(rf"\s*({NUMBER})\s*({UNIT})\s*")


def size_bytes(number: float, unit: str) -> int:
    """Bytes of a number with Ray's unit; Ray's GiB and its old GB alike are powers of 1024."""
    return round(number * BYTES[unit[0]])


def quantity(value: object) -> float | None:
    """A resource's amount, from a number, "2.0" or "40.000 GiB" (in bytes); None where it is none of these."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, float):
        return value
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        size = SIZE.fullmatch(str(value))
    return float(size_bytes(float(size[1]), size[2])) if size else None


def count(number: float) -> float | int:
    """A number without ".0", for words."""
    return int(number) if number == int(number) else round(number, 4)
