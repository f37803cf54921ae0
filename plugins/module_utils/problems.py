# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with what a user wrote: which variable, which value, what is allowed, what to do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

HIDDEN = "(hidden)"


@dataclass(frozen=True)
class Problem:
    """One thing wrong. variable: as the user wrote it, with its path; value: as found; wanted; remedy."""

    variable: str
    value: str
    wanted: str
    remedy: str

    def __str__(self) -> str:
        end = "" if self.remedy.endswith("?") else "."
        return f"{self.variable} = {self.value}: {self.wanted.rstrip('.')}. {self.remedy.rstrip('.')}{end}"


@dataclass
class Problems:
    """Collects problems, so that one run tells all of them."""

    found: list[Problem] = field(default_factory=list)

    def add(self, variable: str, value: Any, wanted: str, remedy: str) -> None:
        """Note one problem; `value` is shown as YAML would read (HIDDEN for secrets)."""
        shown = value if value is HIDDEN else ("not set" if value is None else repr(value))
        self.found.append(Problem(variable, shown, wanted, remedy))

    def message(self, headline: str) -> str:
        """All problems under one headline, a line each; one problem alone stands in the headline's line."""
        lines = [str(p) for p in self.found]
        return headline + ": " + lines[0] if len(lines) == 1 else "\n- ".join([headline + ":", *lines])

    def mapping(self, variable: str, value: Any, allowed: Iterable[str], required: Iterable[str] = ()) -> bool:
        """A mapping with known keys and the required ones; a misspelled key is told its nearest known one."""
        allowed = sorted(allowed)
        if not isinstance(value, Mapping):
            self.add(variable, value, "must be a mapping with the keys " + ", ".join(allowed), "Write it as key: value")
            return False
        before = len(self.found)
        for key in value:
            if key not in allowed:
                near = difflib.get_close_matches(str(key), allowed, n=1, cutoff=0.5)
                hint = f"Did you mean '{near[0]}'?" if near else "Remove it"
                wanted = "unknown key; allowed are " + ", ".join(allowed)
                self.add(f"{variable}.{key}", value[key], wanted, hint)
        for key in required:
            if value.get(key) in (None, ""):
                self.add(f"{variable}.{key}", None, "is required", "Set it in the inventory")
        return len(self.found) == before

    def kind(self, variable: str, value: Any, kind: str, remedy: str = "Correct the value in the inventory") -> bool:
        """A scalar of one of the kinds in KINDS."""
        wanted = KINDS[kind](value)
        if wanted:
            self.add(variable, value, wanted, remedy)
        return wanted is None


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _positive_integer(value: Any) -> str | None:
    return None if _integer(value) and value > 0 else "must be a whole number above zero"


def _size(value: Any) -> str | None:
    text = str(value)
    ok = re.fullmatch(r"\d+(\.\d+)?[bkmgt]?b?", text.lower()) and float(re.split(r"[a-z]", text.lower())[0]) > 0
    return None if ok else "must be a size above zero such as 512m or 16g"


def _port(value: Any) -> str | None:
    return None if _integer(value) and 1 <= value <= 65535 else "must be a TCP port from 1 to 65535"


def _name(value: Any) -> str | None:
    ok = isinstance(value, str) and re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", value)
    return (
        None if ok else "must be 1 to 40 lower-case letters, digits and hyphens, not starting or ending with a hyphen"
    )


def _absolute_path(value: Any) -> str | None:
    ok = isinstance(value, str) and re.fullmatch(r"/[^\0:]*[^\0:/]", value) and ".." not in value.split("/")
    return None if ok else "must be an absolute path of a directory on the nodes, without '..' and ':'"


# Kind of a value -> a function that answers None when the value is fine, else what is allowed.
KINDS: Mapping[str, Any] = {
    "absolute path": _absolute_path,
    "boolean": lambda v: None if isinstance(v, bool) else "must be true or false",
    "fraction": lambda v: None if _number(v) and 0 < v <= 1 else "must be a number above 0 and at most 1",
    "integer": lambda v: None if _integer(v) else "must be a whole number",
    "mapping": lambda v: None if isinstance(v, Mapping) else "must be a mapping",
    "name": _name,
    "number": lambda v: None if _number(v) else "must be a number",
    "port": _port,
    "positive integer": _positive_integer,
    "positive number": lambda v: None if _number(v) and v > 0 else "must be a number above zero",
    "size": _size,
    "text": lambda v: None if isinstance(v, str) and v else "must be a non-empty text",
}
