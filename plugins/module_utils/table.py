# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plain-text tables for people."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

DEFAULT_WIDTH = 120
_GAP = "  "
_NARROWEST = 6


def render(
    columns: Sequence[Mapping[str, str]], rows: Sequence[Mapping[str, Any]], width: int = DEFAULT_WIDTH
) -> list[str]:
    """The lines of a table: titles, a rule, the rows; long cells wrapped so that no line is longer than `width`.

    columns: dicts with `key` and, unless the key itself is the title, `title`. rows: dicts by those keys; a missing
    key or None shows as "-". Columns are made narrower, the widest first, but never under 6: a table with very many
    columns may still be wider than `width`.
    """
    if not columns:
        return []
    titles = [column.get("title") or column["key"] for column in columns]
    cells = [[_text(row.get(column["key"])) for column in columns] for row in rows]
    table = [titles, *cells]
    widths = [max(_longest(row[number]) for row in table) for number in range(len(columns))]
    _narrow(widths, width - len(_GAP) * (len(columns) - 1))
    lines = _row(titles, widths)
    lines.append(_GAP.join("-" * column for column in widths))
    for row in cells:
        lines.extend(_row(row, widths))
    return lines


def wrap(text: str, width: int) -> list[str]:
    """The lines of a text, broken at spaces where possible; a word longer than `width` is cut. Never an empty list."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split(" "):
            candidate = f"{line} {word}" if line else word
            if display_width(candidate) <= width:
                line = candidate
                continue
            if line:
                lines.append(line)
            *full, line = _cut(word, width)
            lines.extend(full)
        lines.append(line)
    return lines


def display_width(text: str) -> int:
    """Columns that a text takes on a terminal; East Asian wide letters take two."""
    return sum(_letter_width(letter) for letter in text)


def _letter_width(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def _text(value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(_text(item) for item in value) or "-"
    lines = str(value).replace("\t", " ").splitlines()
    # What could move the cursor or change colours is no text.
    return "\n".join(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x1f\x7f]", "", line) for line in lines)


def _longest(text: str) -> int:
    return max(display_width(line) for line in text.split("\n"))


def _narrow(widths: list[int], room: int) -> None:
    """Take from the widest columns until all fit into `room`."""
    while sum(widths) > room:
        widest = max(range(len(widths)), key=lambda number: widths[number])
        if widths[widest] <= _NARROWEST:
            return
        widths[widest] -= 1


def _row(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    wrapped = [wrap(cell, width) for cell, width in zip(cells, widths)]
    lines = []
    for number in range(max(len(cell) for cell in wrapped)):
        pieces = [cell[number] if number < len(cell) else "" for cell in wrapped]
        padded = [piece + " " * (width - display_width(piece)) for piece, width in zip(pieces, widths)]
        lines.append(_GAP.join(padded).rstrip())
    return lines


def _cut(word: str, width: int) -> list[str]:
    pieces = [""]
    for letter in word:
        if pieces[-1] and display_width(pieces[-1] + letter) > width:
            pieces.append("")
        pieces[-1] += letter
    return pieces
