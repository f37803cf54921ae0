# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads values out of a document that Tandem itself wrote: strict, and the first thing wrong ends it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

# What the two files beside the bundle's content are called.
MANIFEST = "manifest.json"
SUMS = "SHA256SUMS"


class ManifestError(ValueError):
    """A document is not what it should be: names the key, the value found and what is allowed."""


def refuse(key: str, value: Any, wanted: str) -> ManifestError:
    """The error for one value. key: with its path, as in images[0].id; wanted: what is allowed, as a sentence's end."""
    shown = "not set" if value is None else repr(value)
    if len(shown) > 200:
        shown = shown[:200] + "..."
    return ManifestError("%s = %s: %s" % (key or "the manifest", shown, wanted))


def mapping(key: str, value: Any, required: Iterable[str], optional: Iterable[str] = ()) -> Mapping[str, Any]:
    """A mapping with exactly these keys; `optional` ones may be left out."""
    required = list(required)
    allowed = [*required, *optional]
    if not isinstance(value, Mapping):
        raise refuse(key, value, "must be a mapping with the keys " + ", ".join(allowed))
    prefix = f"{key}." if key else ""
    for name in value:
        if name not in allowed:
            near = difflib.get_close_matches(str(name), allowed, n=1, cutoff=0.6)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise refuse(f"{prefix}{name}", value[name], "unknown key; allowed are " + ", ".join(allowed) + hint)
    for name in required:
        if name not in value:
            raise refuse(f"{prefix}{name}", None, "is required")
    return value


def items(key: str, value: Any, read: Callable[[str, Any], T]) -> tuple[T, ...]:
    """A list whose entries `read(key, value)` takes; their keys are key[0], key[1] and so on."""
    if not isinstance(value, (list, tuple)):
        raise refuse(key, value, "must be a list")
    return tuple(read(f"{key}[{number}]", entry) for number, entry in enumerate(value))


def unique(key: str, values: Iterable[Any]) -> None:
    """Refuses a value that is there twice."""
    seen = set()
    for value in values:
        if value in seen:
            raise refuse(key, value, "is there twice; each may be there once")
        seen.add(value)


def text(key: str, value: Any) -> str:
    """A text that is not empty and holds no control characters."""
    if not isinstance(value, str) or not value or not value.isprintable():
        raise refuse(key, value, "must be a text of printable characters, not empty")
    return value


def matching(pattern: str, wanted: str) -> Callable[[str, Any], str]:
    """A reader of texts that match the whole of `pattern`."""
    compiled = re.compile(pattern)

    def read(key: str, value: Any) -> str:
        if not isinstance(value, str) or not compiled.fullmatch(value):
            raise refuse(key, value, wanted)
        return value

    return read


def optional(read: Callable[[str, Any], T]) -> Callable[[str, Any], T | None]:
    """A reader that takes null as well."""

    def read_or_none(key: str, value: Any) -> T | None:
        return None if value is None else read(key, value)

    return read_or_none


def one_of(*allowed: str) -> Callable[[str, Any], str]:
    """A reader of one of some texts."""

    def read(key: str, value: Any) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise refuse(key, value, "must be one of " + ", ".join(allowed))
        return value

    return read


def boolean(key: str, value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise refuse(key, value, "must be true or false")
    return value


def size(key: str, value: Any) -> int:
    """A number of bytes."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise refuse(key, value, "must be a number of bytes, zero or above")
    return value


sha256 = matching(r"[0-9a-f]{64}", "must be a SHA-256 digest, 64 lower-case hexadecimal digits")
image_id = matching(r"sha256:[0-9a-f]{64}", "must be an image id, sha256: and 64 lower-case hexadecimal digits")
moment = matching(
    r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d+)?Z)?", "must be a date, or a time in UTC, as 2026-12-01T00:00:00Z"
)


def path(key: str, value: Any) -> str:
    """A path below the bundle's folder: relative, with /, without empty parts, '.' and '..'."""
    parts = value.split("/") if isinstance(value, str) else [""]
    if not isinstance(value, str) or not value.isprintable() or "\\" in value or {"", ".", ".."} & set(parts):
        raise refuse(
            key, value, "must be a relative path with / between its parts, without '.', '..', \\ and control characters"
        )
    return value


def file_name(key: str, value: Any) -> str:
    """The name of a file, without a folder."""
    if "/" in path(key, value):
        raise refuse(key, value, "must be a file's name, without its folder")
    return str(value)
