# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the YAML that `ray list nodes --detail` and `ray get nodes` print.

It is of one shape: mappings in mappings in one list, and scalars that a line end may fold. PyYAML may be missing on a
node, takes half a minute for thousands of nodes, and refuses a text that is cut off or has a line of others in it.
"""

from __future__ import annotations

import re
from typing import Any

QUOTED_PAIR = re.compile(r"""(?P<key>'(?:[^']|'')*'|"(?:[^"\\]|\\.)*")\s*:(?:\s+(?P<value>.*))?$""")
INTEGER = re.compile(r"[-+]?\d+")
# An exponent without a point is no number in YAML 1.1, and may well be an id: 5e12.
FLOAT = re.compile(r"[-+]?\d+\.\d*(?:[eE][-+]\d+)?")
NUMERIC = frozenset("0123456789+-.")
WORDS = {"null": None, "~": None, "": None, "true": True, "false": False}
ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "0": "\0", "/": "/", "e": "\x1b", "r": "\r"}
DOUBLE_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|(.))")


def scalar(text: str) -> Any:
    """A scalar's value: null, true and false, numbers, and texts with or without quotes."""
    first = text[:1]
    if first == "'":
        return (text[1:-1] if len(text) > 1 and text[-1] == "'" else text[1:]).replace("''", "'")
    if first == '"':
        return DOUBLE_ESCAPE.sub(_escape, text[1:-1] if len(text) > 1 and text[-1] == '"' else text[1:])
    if first in NUMERIC:
        if INTEGER.fullmatch(text):
            return int(text)
        if FLOAT.fullmatch(text):
            return float(text)
        return text
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    if text in ("{}", "[]"):
        return {} if text == "{}" else []
    return text


def _escape(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else ESCAPES.get(match[3], match[3])


def _open_quote(text: str) -> bool:
    """Whether a quoted scalar goes on in the next line."""
    text = text.strip()
    if text[:1] == "'":
        return text.count("'") % 2 == 1
    return text[:1] == '"' and len(re.findall(r'(?<!\\)"', text)) == 1


def _pair(text: str) -> tuple[str, str] | None:
    """Key and value of a line; None where it is none."""
    if text[0] in "'\"":
        quoted = QUOTED_PAIR.match(text)
        return (str(scalar(quoted["key"])), (quoted["value"] or "").strip()) if quoted else None
    key, colon, value = text.partition(": ")
    if colon:
        return key.rstrip(), value.strip()
    return (text[:-1], "") if text[-1] == ":" else None


class _Reader:
    """Collects the mappings. Each level of a mapping is known by the column of its keys."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        # (column, mapping) from the outermost.
        self._levels: list[tuple[int, dict[str, Any]]] = []
        # The last value, which further lines may belong to: column and mapping of its key, the key, and as written.
        self._last: tuple[int, dict[str, Any], str, str] | None = None
        self._open = False

    def read(self, line: str) -> None:
        """One line, not blank."""
        stripped = line.strip()
        column = len(line) - len(line.lstrip())
        if self._open:
            self._more(column, stripped)
            return
        item = stripped[:2] == "- "
        if item:
            rest = stripped[1:].lstrip()
            column += len(stripped) - len(rest)
            stripped = rest
        pair = _pair(stripped)
        if pair and (item or not self.items):
            self.items.append({})
            self._levels = [(column, self.items[-1])]
            self._last = None
        if pair is None or not self._put(column, *pair):
            self._more(column, stripped)

    def _put(self, column: int, key: str, raw: str) -> bool:
        """A key at that column; False where no mapping has its keys there."""
        levels = self._levels
        if levels[-1][0] < column:
            if self._last is None or self._last[3]:
                return False
            inner: dict[str, Any] = {}
            self._last[1][self._last[2]] = inner
            levels.append((column, inner))
        elif levels[-1][0] > column:
            depth = next((number for number, level in enumerate(levels) if level[0] == column), None)
            if depth is None:
                return False
            del levels[depth + 1 :]
        mapping = levels[-1][1]
        mapping[key] = scalar(raw)
        self._last = (column, mapping, key, raw)
        self._open = raw[:1] in ("'", '"') and _open_quote(raw)
        return True

    def _more(self, column: int, text: str) -> None:
        """A line that goes on with the last scalar; one that stands further left is of somebody else."""
        if self._last is None or column <= self._last[0]:
            return
        begun, mapping, key, raw = self._last
        if not self._open and raw[:1] in ("'", '"', ""):
            return
        # A double-quoted text that goes on is written "first\ and  \ rest".
        raw = raw[:-1] + text[1:] if raw.endswith("\\") and text[:1] == "\\" else f"{raw} {text}"
        mapping[key] = scalar(raw)
        self._last = (begun, mapping, key, raw)
        self._open = _open_quote(raw)


def mappings(lines: list[str]) -> list[dict[str, Any]]:
    """The nodes of a text: of its list, or the one mapping that it is. Lines that fit nowhere are left out."""
    reader = _Reader()
    for line in lines:
        if line == "...":
            break
        if line and line != "---" and not line.isspace():
            reader.read(line)
    return reader.items
