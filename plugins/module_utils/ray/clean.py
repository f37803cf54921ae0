# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes off a captured text what other tools put round it: colours, and a prefix in front of every line."""

from __future__ import annotations

import re
from dataclasses import dataclass

COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-_]")
# A report that went through JSON or a log's repr is one line with escaped newlines.
ESCAPED_NEWLINE = re.compile(r"\\r\\n|\\n")
# The line that a report begins with, and lines of it that are known when its beginning is cut off.
BANNER = re.compile(r"={4,} *(?:(?:Autoscaler|Cluster) status|List): *\d{4}-\d\d-\d\d|={4,} *Cluster status")
ANCHOR = re.compile(r"(?m)(?:Node status|Recent failures *:|Total Usage *:|Pending Demands *:|Total Demands *:) *$")
COMMAND = re.compile(r"[$#] *ray +\w+ ")
WORD_OR_BLANK = re.compile(r"\d+|\s+|[^\d\s]+")


@dataclass(frozen=True)
class Cleaned:
    """lines: without colours, prefixes and trailing blanks; prefix_stripped: whether every line had a prefix."""

    lines: list[str]
    prefix_stripped: bool


def _pattern(prefix: str) -> re.Pattern[str]:
    """What matches a prefix on other lines as well, where its times and numbers differ.

    The task number of srun says whose line it is, so it stays: other tasks' lines are noise.
    """
    task = re.fullmatch(r" *\d+: ?", prefix)
    parts = []
    for part in WORD_OR_BLANK.findall(prefix.rstrip()):
        if part.isdigit():
            parts.append(part if task else r"\d+")
        else:
            parts.append(r"\s+" if part.isspace() else re.escape(part))
    # An empty line may have lost the prefix's blanks.
    return re.compile(r"\s*" + "".join(parts) + (r"(?: |$)" if prefix.endswith(" ") else ""))


def _prefix(text: str) -> str:
    """What stands in front of the report's last banner, or of another line of it; empty when nothing does."""
    for anchor in (BANNER, ANCHOR):
        starts = [match.start() for match in anchor.finditer(text)]
        if starts:
            before = text[text.rfind("\n", 0, starts[-1]) + 1 : starts[-1]]
            # A command on the same line is no prefix of the following lines.
            return "" if COMMAND.search(before) else before
    return ""


def _unescaped(text: str) -> list[str]:
    """The lines of a report that is within one line."""
    lines = [part.rstrip() for line in text.split("\n") for part in ESCAPED_NEWLINE.split(line)]
    # What stood before the report in that one line stands in front of none of the others.
    return [line[match.start() :] if (match := BANNER.search(line)) else line for line in lines]


def clean(text: str) -> Cleaned:
    """The lines of a text, as Ray printed them; lines of others between them are left in place."""
    text = COLOUR.sub("", text) if "\x1b" in text else text
    text = text.replace("\ufeff", "").replace("\xa0", " ").replace("\r\n", "\n")
    if "\r" in text:
        # A carriage return overwrites what stood on the line.
        text = "\n".join(line.rsplit("\r", 1)[-1] for line in text.split("\n"))
    if "\\n" in text and any(ESCAPED_NEWLINE.search(line) and BANNER.search(line) for line in text.split("\n")):
        return Cleaned(_unescaped(text), False)
    prefix = _prefix(text)
    lines = [line.rstrip() for line in text.split("\n")]
    if not prefix:
        return Cleaned(lines, False)
    if prefix.isspace():
        return Cleaned([line[len(prefix) :] if line.startswith(prefix) else line for line in lines], False)
    pattern = _pattern(prefix)
    return Cleaned([line[match.end() :] if (match := pattern.match(line)) else "" for line in lines], True)
