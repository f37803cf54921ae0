# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An nginx configuration made of several files: where it writes, how to try it elsewhere, how to show what changes."""

from __future__ import annotations

import re
from collections.abc import Mapping

MAIN = "nginx.conf"
HIDDEN = "(hidden)"

_WRITES = re.compile(r"^\s*(?:error_log|access_log|pid|\w+_temp_path)\s+(/[^\s;]+)", re.MULTILINE)
_PID = re.compile(r"^\s*pid\s+(/[^\s;]+)", re.MULTILINE)
# nginx: [emerg] …, or 2026/01/31 12:00:00 [emerg] 123#123: …
_PREFIX = re.compile(r"^(?:nginx: |\d{4}/\d\d/\d\d \d\d:\d\d:\d\d )?\[\w+\] (?:\d+#\d+: )?")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')


def written_directories(text: str) -> list[str]:
    """The directories that a configuration's logs, pid file and temporary files are in (absolute paths only)."""
    return sorted({path.rpartition("/")[0] for path in _WRITES.findall(text)})


def pid_file(text: str) -> str | None:
    """The path of the pid file, None where the configuration names none."""
    match = _PID.search(text)
    return match[1] if match else None


def moved(text: str, directories: Mapping[str, str]) -> str:
    """The configuration with each directory it writes to replaced: for a trial that touches nothing real."""

    def move(match: re.Match[str]) -> str:
        path = match[1]
        directory, _slash, name = path.rpartition("/")
        return match[0][: -len(path)] + "%s/%s" % (directories[directory], name)

    return _WRITES.sub(move, text)


def without_quoted(text: str) -> str:
    """The text with everything in double quotes hidden: the keys of a file of keys, or of a message about it."""
    return _QUOTED.sub(lambda match: match[0] if match[0] == '""' else '"%s"' % HIDDEN, text)


def diff(path: str, before: str | None, after: str | None, secret: bool = False) -> dict[str, str]:
    """One entry of a module's `diff`. Of a secret file, values stay hidden; that only values changed is said."""
    old, new = before or "", after or ""
    if secret:
        old, new = without_quoted(old), without_quoted(new)
        if old == new and before != after:
            new += "# (hidden values changed)\n"
    return {"before_header": path, "after_header": path, "before": old, "after": new}


def complaint(output: str, staged: str, real: str, secret_files: tuple[str, ...] = ()) -> str:
    """What `nginx -t` complained of, in one line: staged paths told as real ones, contents of secret files hidden."""
    lines = []
    for line in output.strip().splitlines():
        told = _PREFIX.sub("", line.strip()).replace(staged, real)
        if "test failed" in told or "test is successful" in told:
            continue
        if any("/" + name in told for name in secret_files):
            told = without_quoted(told)
        lines.append(told)
    return "; ".join(lines) or "nginx -t gave no reason"
