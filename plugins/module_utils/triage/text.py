# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A log as people hand it in, made searchable once: escapes, colours, prefixes and broken lines hide no phrase.

A phrase is looked for in a form of the text without any white space, so a terminal that wrapped within a word, a
message spread over several kernel lines and "cuda >= 9.0" for "cuda>=9.0" are all found by the one plain spelling. What
is shown of a hit is the line as it was handed in.
"""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# Longer lines (a whole log in one JSON string) are shown as a part round the hit, in characters.
LONGEST_EVIDENCE = 1000
# A message over more lines than this is no message, but a chance meeting of words.
MOST_LINES = 6
# No terminal is narrower, in characters: where no line is longer, none was broken.
NARROWEST_TERMINAL = 40
# Nor is a line broken into more: a log may have lines of one width throughout.
MOST_ROWS = 60

ESCAPED_NEWLINE = re.compile(r"\\+r?\\*n|\r\n?|\n")
ESCAPED_CODE = re.compile(r"\\+(?:u|x)00([0-9a-fA-F]{2})|\\+x([0-9a-fA-F]{2})|\\+u([0-9a-fA-F]{4})|\\+033")
ESCAPED_CHARACTER = re.compile(r"\\+([\"'/])|\\+t")
ENTITIES = {"&gt;": ">", "&lt;": "<", "&quot;": '"', "&#39;": "'", "&#34;": '"', "&amp;": "&"}
ENTITY = re.compile("|".join(ENTITIES))
# Colours: as a terminal gets them, and as they remain where the escape character was lost on the way.
COLOUR = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-_]|\^\[\[[0-9;]*m|\[\d{1,2}(?:;\d{1,3})*m"
)
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u200b\u2060\ufeff]")
# Typographic quotes come from web pages.
QUOTES = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u00b4": "'", "\u00a0": " ", "`": "'"}
)

# What stands before the message, one after the other: each is taken off the start of a line as often as it comes.
PREFIXES = tuple(
    re.compile(pattern)
    for pattern in (
        r"\s+",
        r"[\u2500-\u257f\u2771>] ?",  # boxes round tracebacks, quotations
        r'\{"(?:log|msg|message)":\s*"',  # Docker's json-file
        r"[\w.-]+\s*\|\s+(?=\S)",  # docker compose: "chat-1  | "
        r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?:?\s*",
        r"(?:stdout|stderr) [FP] ",  # containerd's log of a container
        r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\s+\d+ \d\d:\d\d:\d\d \S+ ",  # journal, syslog
        r"(?:\S+ )?(?:kernel|systemd|dockerd|containerd|nv-fabricmanager)(?:\[\d+\])?:\s*",
        r"(?:kern|user|daemon): ?\w+: ",
        r"<\d+>",
        r"\[\s*\+?\d+\.\d+\]\s*",  # dmesg
        r"\[\w{3} \w{3} +\d+ \d\d:\d\d:\d\d \d{4}\]\s*",  # dmesg -T
        r"\([\w.-]+(?: pid=\d+)?(?:, ip=[\w.:]+)?\)\s*(?=\S)(?![$#] )",  # vLLM's and Ray's processes
        r"\[rank\d+\]:\s*",
        r"(?:INFO|WARNING|ERROR|DEBUG|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?\s*(?:\[?[\w./]+:\d+\]\s?)?",
    )
)
KERNEL_PREFIX = re.compile(r"\s*NVRM:\s*", re.IGNORECASE)
# The rest of a json-file line after its text.
JSON_TAIL = re.compile(r'^",\s*"(?:stream|attrs|time)":')
# A command that looks for a phrase is no report of it.
LOOKS_FOR = re.compile(r"(?:^|[|$#;&(]\s*)(?:sudo\s+)?(?:[ef]?grep|rg|ag|zgrep)\s|journalctl\s[^|]*(?:-g|--grep)[ =]")


@functools.cache
def phrase(text: str) -> re.Pattern[str]:
    """A signature's pattern: a regular expression in which blanks mean nothing, and case neither.

    It is matched against text in lower case and without white space, so it must not ask for white space. Letters are
    put in lower case here, except in escapes such as \\D. One that starts with ^ is looked for within lines only.
    """
    lower = re.sub(r"\\.|[A-Z]", lambda m: m.group() if m.group()[0] == "\\" else m.group().lower(), text)
    return re.compile(re.sub(r"\s+", "", lower), re.MULTILINE)


@dataclass(frozen=True)
class Hit:
    """Where a phrase was found. start: offset in the text without white space; evidence: the lines as handed in."""

    start: int
    evidence: str


@dataclass(frozen=True)
class Line:
    """original: as handed in, trimmed; clean: without escapes, colours and prefixes; width: on screen, characters."""

    original: str
    clean: str
    width: int


def readable(raw: str) -> str:
    """A line without escapes, colours and control characters."""
    text = ESCAPED_CODE.sub(_character, raw)
    text = ESCAPED_CHARACTER.sub(lambda match: match.group(1) or " ", text)
    text = COLOUR.sub("", text)
    text = CONTROL.sub("", text).translate(QUOTES)
    return ENTITY.sub(lambda match: ENTITIES[match.group()], text)


def _character(match: re.Match[str]) -> str:
    code = match.group(1) or match.group(2) or match.group(3)
    return chr(int(code, 16)) if code else "\x1b"


def without_prefix(line: str) -> str:
    """A readable line without the stamps and names that loggers put in front."""
    found = True
    while found:
        found = False
        for prefix in PREFIXES:
            match = prefix.match(line)
            if match and match.end():
                line, found = line[match.end() :], True
    return line.rstrip()


def split(text: str) -> Iterator[Line]:
    """The lines of a text; escaped newlines within one line make lines as well. Empty ones are kept: they part."""
    for raw in ESCAPED_NEWLINE.split(text):
        original = CONTROL.sub("", COLOUR.sub("", raw)).strip()
        clean = readable(raw)
        if JSON_TAIL.match(clean):
            continue
        width = len(clean)
        clean = without_prefix(clean)
        # What remains after the last escaped newline of a nested message is only its closing quotes.
        if clean.strip("\"'\\:}]) ") or not original:
            yield Line(original, clean, width)


class Text:
    """A text to look for phrases in. flat: all of it with single blanks; squeezed: without any white space.

    worked_out: what rules found in it, by their name, so that each reads a long text once.
    """

    def __init__(self, text: str) -> None:
        self.worked_out: dict[str, Any] = {}
        self.lines = list(split(text))
        squeezed = ["" if LOOKS_FOR.search(line.clean) else "".join(line.clean.split()) for line in self.lines]
        # A phrase within one line, with line ends to anchor at; and one that goes on in the next lines.
        self._by_line = "\n".join(squeezed).lower()
        self._line_starts = _starts(squeezed, 1)
        parts = [KERNEL_PREFIX.sub("", line, count=1) or "\n" for line in squeezed]
        self.squeezed = "".join(parts)
        self._joined = self.squeezed.lower()
        self._joined_starts = _starts(parts, 0)
        # With single blanks, for facts: numbers beside each other stay apart.
        self.flat = " ".join(" ".join(KERNEL_PREFIX.sub("", line.clean, count=1).split()) for line in self.lines)

    @functools.cached_property
    def rejoined(self) -> list[str]:
        """The clean lines, those that a terminal of fixed width has broken in one again.

        A guess, for names that must stay whole: the longest lines are taken for broken ones, and a blank may be lost.
        """
        widest = max((line.width for line in self.lines), default=0)
        rows: list[list[str]] = [[]]
        for line in self.lines:
            rows[-1].append(line.clean)
            if line.width < max(widest, NARROWEST_TERMINAL) or len(rows[-1]) == MOST_ROWS:
                rows.append([])
        return ["".join(row) for row in rows]

    def find(self, pattern: str) -> Hit | None:
        """The first place of a phrase; None where there is none."""
        compiled = phrase(pattern)
        match = compiled.search(self._by_line)
        if match:
            row = bisect.bisect_right(self._line_starts, match.start()) - 1
            length = max(1, self._by_line.find("\n", match.start()) - self._line_starts[row])
            return Hit(match.start(), self._shown(row, row, (match.start() - self._line_starts[row]) / length))
        for match in () if pattern.startswith("^") else compiled.finditer(self._joined):
            first = bisect.bisect_right(self._joined_starts, match.start()) - 1
            last = bisect.bisect_right(self._joined_starts, match.end() - 1) - 1
            if last - first < MOST_LINES:
                return Hit(self._line_starts[first], self._shown(first, last, 0))
        return None

    def has(self, pattern: str) -> bool:
        """Whether a phrase is anywhere in the text."""
        return self.find(pattern) is not None

    def last(self, *patterns: str) -> int:
        """Where any of the phrases stands last, as an offset in the text without white space; -1 where none is."""
        places = (match.start() for pattern in patterns for match in phrase(pattern).finditer(self._joined))
        return max(places, default=-1)

    def search(self, pattern: str) -> re.Match[str] | None:
        """First place of a regular expression in the text with single blanks, case ignored.

        Where a line broke within the words, it is looked for without any white space.
        """
        match = re.search(pattern, self.flat, re.IGNORECASE)
        return match or re.search(re.sub(r"(?:\\s| )[*+?]?", "", pattern), self.squeezed, re.IGNORECASE)

    def fact(self, pattern: str) -> str | None:
        """First group of a regular expression (see search); None where it is not there."""
        match = self.search(pattern)
        return match.group(1) if match else None

    def facts(self, pattern: str) -> list[str]:
        """First groups of all places of a regular expression, each once, in the order of the text."""
        return list(dict.fromkeys(match.group(1) for match in re.finditer(pattern, self.flat, re.IGNORECASE)))

    def _shown(self, first: int, last: int, share: float) -> str:
        """The lines of a hit; share: how far into them it is, 0 to 1."""
        shown = "\n".join(line.original for line in self.lines[first : last + 1] if line.original)
        if len(shown) <= LONGEST_EVIDENCE:
            return shown
        start = max(0, min(int(share * len(shown)) - LONGEST_EVIDENCE // 4, len(shown) - LONGEST_EVIDENCE))
        return shown[start : start + LONGEST_EVIDENCE].strip()


def _starts(parts: list[str], between: int) -> list[int]:
    """Offset of each part when they are joined with `between` characters between them."""
    starts, position = [], 0
    for part in parts:
        starts.append(position)
        position += len(part) + between
    return starts
