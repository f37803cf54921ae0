# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the table of `ray list nodes` by where its headings stand: with blank cells, it cannot be split at blanks."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.ray.values import NUMBER, UNIT, quantity

TITLES = (
    "NODE_ID",
    "NODE_IP",
    "IS_HEAD_NODE",
    "STATE",
    "STATE_MESSAGE",
    "NODE_NAME",
    "RESOURCES_TOTAL",
    "LABELS",
    "START_TIME_MS",
    "END_TIME_MS",
)
TITLE = re.compile(r"\b(?:" + "|".join(TITLES) + r")\b")
# A row begins with its number and the node's id; in texts made neutral, that may be any word.
START = re.compile(r"\s*\d+\s+(?:[0-9a-f]{28,64}\b|[^\s:]+\s+[\w-]*[.:][\w.:-]+\s+(?:True|False|None|ALIVE|DEAD)\s)")
STATES = ("ALIVE", "DEAD")
PAIR = re.compile(rf"(?P<key>\S+): (?P<value>{NUMBER}(?: {UNIT})?)(?=\s|$)")
# A column behind the end of every line.
LONGEST = 10**6
GAP = re.compile(r"\s{2,}")


def headings(line: str) -> list[tuple[str, int]]:
    """Title and column of each heading, in their order; empty where the line is no heading."""
    found = [(match.group(), match.start()) for match in TITLE.finditer(line)]
    return found if {"NODE_ID", "STATE"} <= {title for title, _column in found} else []


def _unfolded(lines: list[str]) -> list[str]:
    """The table's lines without the breaks that a narrow terminal made. Blanks at their ends are lost already."""
    rows = 1
    while rows < min(len(lines), len(TITLES)) and not START.match(lines[rows]):
        rows += 1
    if rows == 1 or len(TITLE.findall("".join(lines[:rows]))) <= len(TITLE.findall(lines[0])):
        return lines
    width = max(map(len, lines))
    result: list[str] = []
    # Parts of the line that was begun last, and whether it may have more: it begins a row, or with blanks only.
    parts, short = 0, False
    for number, line in enumerate(lines):
        full = bool(result) and len(result[-1]) == parts * width
        if number and not START.match(line) and (full or number < rows or (short and parts < rows and line)):
            result[-1] = result[-1].ljust(parts * width) + line
            parts += 1
        else:
            result.append(line)
            parts, short = 1, not line or bool(START.match(line))
    return result


def _cells(line: str, columns: list[tuple[str, int]]) -> dict[str, str]:
    """The cells of a row's first line, by title."""
    ends = [column for _title, column in columns[1:]] + [len(line) + 1]
    return {title: line[start:end].strip() for (title, start), end in zip(columns, ends)}


def _straight(line: str, columns: list[tuple[str, int]]) -> bool:
    """Whether each cell begins where its heading does."""
    return all(column == 0 or line[column - 1 : column] in ("", " ") for _title, column in columns)


def _by_words(line: str) -> dict[str, str]:
    """The cells of a row whose columns are not under their headings, by what the cells look like."""
    words = [word for word in GAP.split(line.strip()) if word]
    if words and words[0].isdigit():
        words = words[1:]
    elif words and re.match(r"\d+ \S", words[0]):
        words[0] = words[0].split(" ", 1)[1]
    state = next((number for number, word in enumerate(words) if word in STATES), None)
    if state is None or state < 2:
        return {}
    cells = {"NODE_ID": words[0], "NODE_IP": words[1], "STATE": words[state]}
    if words[state - 1] in ("True", "False", "None"):
        cells["IS_HEAD_NODE"] = words[state - 1]
    # Between the state and the resources are a message, which may be blank, and the name.
    rest = words[state + 1 :]
    plain = rest[: next((number for number, word in enumerate(rest) if PAIR.match(word)), len(rest))]
    if plain:
        cells["NODE_NAME"] = plain[-1]
    if len(plain) > 1:
        cells["STATE_MESSAGE"] = " ".join(plain[:-1])
    return cells


def _pairs(node: dict[str, Any], resource: str, label: str) -> None:
    """Add what the last two cells of a line say: "CPU: 64.0" and "ray.io/node-id: 29a5…"."""
    name, colon, amount = resource.rpartition(": ")
    number = quantity(amount) if colon else None
    if number is not None:
        node["resources_total"][name.strip()] = number
    key, colon, value = label.partition(": ")
    if colon:
        node["labels"][key.strip()] = value.strip()


def _start(line: str, columns: list[tuple[str, int]]) -> dict[str, Any] | None:
    """The node that a row begins; None where its line begins none."""
    if not START.match(line):
        return None
    cells = _cells(line, columns)
    straight = _straight(line, columns) and cells.get("STATE") in STATES
    if not straight:
        cells = _by_words(line)
    if not cells.get("NODE_ID"):
        return None
    node: dict[str, Any] = {title.lower(): cells.get(title) or None for title in TITLES if title in cells}
    node["resources_total"], node["labels"] = {}, {}
    if straight:
        _pairs(node, cells.get("RESOURCES_TOTAL", ""), cells.get("LABELS", ""))
    else:
        _loose(node, line.split(cells["STATE"], 1)[1])
    return node


def _loose(node: dict[str, Any], text: str) -> None:
    """Resources and labels of a text without columns."""
    for word in GAP.split(text.strip()):
        pair = PAIR.fullmatch(word)
        if pair:
            node["resources_total"][pair["key"]] = pair["value"]
        elif word.startswith("ray.io/"):
            _pairs(node, "", word)


def rows(lines: list[str]) -> list[dict[str, Any]] | None:
    """The nodes of the newest table, with the state API's keys and texts as values; None without a table."""
    starts = [number for number, line in enumerate(lines) if line.lstrip().startswith("NODE_ID")]
    if not starts:
        return None
    table = _unfolded(lines[starts[-1] :])
    columns = headings(table[0])
    if not columns:
        return None
    nodes: list[dict[str, Any]] = []
    places = dict(columns)
    ends = [places.get(title, LONGEST) for title in ("RESOURCES_TOTAL", "LABELS", "START_TIME_MS")]
    for line in table[1:]:
        # Most lines of a large table are further lines of a row, and begin with many blanks.
        further = line[: ends[0]].isspace() and len(line) > ends[0]
        node = None if further else _start(line, columns)
        if node:
            nodes.append(node)
        elif nodes and line:
            _more(nodes[-1], line, ends)
    return nodes


def _more(node: dict[str, Any], line: str, ends: list[int]) -> None:
    """A further line of a row: one more resource, one more label, or both. ends: columns where cells begin."""
    first, after, last = ends
    if line[:first].strip() or line[after - 1 : after].strip():
        _loose(node, line)
    else:
        _pairs(node, line[first:after], line[after:last])
