# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Docker's daemon.json: read it with what keeps the user's form, merge settings into it, write it again.

What the user set is the user's: nothing is replaced or taken out. What cannot be had beside it is a conflict.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.problems import HIDDEN, Problem

# As Docker's documentation and nvidia-ctk write the file.
DEFAULT_INDENT = "    "
# Lists whose items are key=value and in which Docker takes one value a key.
KEYED_LISTS = ("exec-opts", "storage-opts", "labels")
REMEDY = "Change it in the file yourself, or leave it out of settings"

_BOM = "\ufeff"
_COMMENT = re.compile(r"\s*(//|/\*|#)")
_INDENTED_KEY = re.compile(r'^([ \t]+)"', re.MULTILINE)
# Python's parser takes these, JSON and Docker do not.
_STRING_OR_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN')
_SURROGATE = re.compile("[\ud800-\udfff]")
_SECRET_NAME = re.compile(r"token|password|secret", re.IGNORECASE)
# A text that belongs to a key such as splunk-token, and the user's part of a URL such as a proxy's.
_SECRET_VALUE = re.compile(r'("[^"\n]*(?:token|password|secret)[^"\n]*"\s*:\s*)"(?:[^"\\\n]|\\.)*"', re.IGNORECASE)
_URL_USER = re.compile(r"(://)[^/@\s\"]+@")


class DaemonJsonError(ValueError):
    """The text is no daemon.json that can be merged into; the message says where and why."""


@dataclass(frozen=True)
class Document:
    """A daemon.json as it is. settings: its object; the rest is the form it is written in."""

    settings: dict[str, Any]
    indent: str = DEFAULT_INDENT
    newline: str = "\n"
    mark: str = ""
    ascii_only: bool = True


class _Object(dict):  # type: ignore[type-arg]
    """A JSON object that remembers which of its keys were written more than once."""

    def __init__(self) -> None:
        super().__init__()
        self.twice: list[str] = []


def parse(data: bytes) -> Document:
    """Read a file's bytes; nothing but white space is an empty object. Raises DaemonJsonError."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DaemonJsonError(f"line {line}: not UTF-8 (byte 0x{data[error.start]:02x})") from error
    mark = _BOM if text.startswith(_BOM) else ""
    text = text[len(mark) :]
    indent = _INDENTED_KEY.search(text)
    return Document(
        settings=_settings(text) if text.strip() else {},
        indent=indent[1] if indent else DEFAULT_INDENT,
        newline="\r\n" if "\r\n" in text else "\n",
        mark=mark,
        ascii_only=text.isascii(),
    )


def _settings(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text, object_pairs_hook=_object)
        # Also for a number such as 1e999, which Python reads as infinite.
        plain: dict[str, Any] = json.loads(json.dumps(found, allow_nan=False))
    except json.JSONDecodeError as error:
        reason = error.msg
        if _COMMENT.match(text, error.pos):
            reason = "JSON has no comments; take this one out"
        raise DaemonJsonError(f"line {error.lineno}, column {error.colno}: {reason}") from error
    except RecursionError as error:
        raise DaemonJsonError("nested too deeply") from error
    except ValueError as error:
        raise DaemonJsonError(_no_number(text)) from error
    if not isinstance(found, dict):
        kind = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}.get(type(found), "a number")
        raise DaemonJsonError(f"its top level is {kind}, and must be an object in braces")
    twice = _written_twice(found)
    if twice:
        raise DaemonJsonError(f"written more than once: {', '.join(twice)}; keep one of each")
    return plain


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    made, seen = _Object(), set()
    for key, value in pairs:
        if key in seen:
            made.twice.append(key)
        seen.add(key)
        made[key] = value
    return made


def _no_number(text: str) -> str:
    """Where and why a text that Python parses holds a number that JSON has not."""
    for match in _STRING_OR_CONSTANT.finditer(text):
        if not match[0].startswith('"'):
            line = text.count("\n", 0, match.start()) + 1
            column = match.start() - text.rfind("\n", 0, match.start())
            return f"line {line}, column {column}: {match[0]} is no JSON value"
    return "a number is too large"


def _written_twice(value: Any, path: str = "") -> list[str]:
    """Dotted paths of the keys that are in one object more than once."""
    if isinstance(value, list):
        return [found for item in value for found in _written_twice(item, path)]
    if not isinstance(value, _Object):
        return []
    here = [path + key for key in dict.fromkeys(value.twice)]
    return here + [found for key, item in value.items() for found in _written_twice(item, f"{path}{key}.")]


def merge(settings: Mapping[str, Any], wanted: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """The settings with the wanted ones added, and a problem for each that the user has set otherwise.

    Mappings are merged key by key, lists united in the user's order with new items at the end.
    """
    conflicts: list[Problem] = []
    return _merge(settings, wanted, "", conflicts), conflicts


def _merge(
    settings: Mapping[str, Any], wanted: Mapping[str, Any], path: str, conflicts: list[Problem]
) -> dict[str, Any]:
    merged = dict(settings)
    for key, value in wanted.items():
        found = merged.get(key)
        if key not in merged:
            merged[key] = value
        elif isinstance(found, dict) and isinstance(value, Mapping):
            merged[key] = _merge(found, value, f"{path}{key}.", conflicts)
        elif isinstance(found, list) and isinstance(value, list):
            merged[key] = _unite(found, value, path + key, conflicts)
        elif not _same(found, value):
            conflicts.append(_conflict(path + key, found, value))
    return merged


def _unite(found: list[Any], wanted: list[Any], path: str, conflicts: list[Problem]) -> list[Any]:
    united = list(found)
    for item in wanted:
        if any(_same(item, other) for other in united):
            continue
        rival = _rival(found, item) if path in KEYED_LISTS else None
        if rival is None:
            united.append(item)
        else:
            conflicts.append(_conflict(path, rival, item))
    return united


def _rival(found: list[Any], item: Any) -> Any:
    """The user's item that gives the same key=… another value; None when there is none."""
    start = str(item).partition("=")[0] + "="
    return next((other for other in found if str(other).startswith(start)), None)


def _same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON; to Python true would equal 1."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _conflict(path: str, found: Any, wanted: Any) -> Problem:
    secret = _SECRET_NAME.search(path.rpartition(".")[2]) is not None
    shown, meant = (HIDDEN if secret else hidden(json.dumps(value, ensure_ascii=False)) for value in (found, wanted))
    return Problem(path, shown, f"wanted is {meant}", REMEDY)


def render(document: Document, settings: Mapping[str, Any]) -> str:
    """The text of a daemon.json with other settings in the form of `document`, a newline at its end."""
    text = json.dumps(settings, indent=document.indent, ensure_ascii=False)
    if document.ascii_only or _SURROGATE.search(text):
        text = json.dumps(settings, indent=document.indent)
    return document.mark + (text + "\n").replace("\n", document.newline)


def hidden(text: str) -> str:
    """JSON text with passwords, tokens and the users of URLs hidden."""
    return _URL_USER.sub(rf"\1{HIDDEN}@", _SECRET_VALUE.sub(rf'\1"{HIDDEN}"', text))


def hidden_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with passwords, tokens and the users of URLs hidden."""
    shown: dict[str, Any] = json.loads(hidden(json.dumps(settings)))
    return shown
