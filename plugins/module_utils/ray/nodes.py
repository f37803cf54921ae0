# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads lists of Ray's nodes: `ray list nodes` in each format, `ray get nodes`, `ray.nodes()`, the dashboard."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.ray import errors, table, yaml_text
from ansible_collections.tandem.vllm.plugins.module_utils.ray.clean import clean
from ansible_collections.tandem.vllm.plugins.module_utils.ray.values import quantity

# The resource that only the head has, since Ray 2.8 or so; before, lists that lack is_head_node do not tell.
HEAD_RESOURCE = "node:__internal_head__"
TOTAL = re.compile(r"^Total: (\d+)$")
NOTHING = re.compile(r"No resource in the cluster|Resource with id=\S+ not found in the cluster")
# Where a document may begin: at a line's start, or after a prompt or words of a log.
DOCUMENT = re.compile(r"(?m)^(?P<before>[^\[{\n]*)(?=\[\s*\{|\[\s*\]|\{\s*['\"]|\[\s*$)")
QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\b(?:True|False|None)\b""", re.DOTALL)
LITERAL_VALUE = re.compile(r"(?<=\": )(?:True|False|None)(?=[,}])")
LITERALS = {"True": "true", "False": "false", "None": "null"}
YAML_KEY = re.compile(r"\s*(?:-\s+)?(?:node_id|node_ip|state|end_time_ms|is_head_node|node_name): ")
ACCELERATOR = re.compile(r"accelerator_type:(?P<name>\S+)")

# A key of a node in any of the answers, in lower case and without underscores, to ours.
KEYS = {
    "nodeid": "node_id",
    "clientid": "node_id",
    "nodeip": "ip",
    "nodemanageraddress": "ip",
    "ip": "ip",
    "isheadnode": "head",
    "state": "state",
    "alive": "alive",
    "statemessage": "state_message",
    "deathreasonmessage": "state_message",
    "nodename": "name",
    "nodemanagerhostname": "host",
    "hostname": "host",
    "resourcestotal": "resources",
    "resources": "resources",
    "labels": "labels",
    "starttimems": "start_time",
    "endtimems": "end_time",
}
TEXTS = ("node_id", "ip", "name", "host", "state_message")


@functools.cache
def _our_name(key: str) -> str | None:
    return KEYS.get(key.replace("_", "").lower())


def _own_keys(node: dict[str, Any]) -> dict[str, Any]:
    """A node's values under our names; of two keys for one, the first that says something."""
    own: dict[str, Any] = {}
    for key, value in node.items():
        name = _our_name(key)
        if name and own.get(name) in (None, ""):
            own[name] = value
    return own


def _is_node(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    names = set(map(_our_name, value))
    return not names.isdisjoint(("state", "alive")) and not names.isdisjoint(("node_id", "ip", "resources"))


def _state(own: dict[str, Any]) -> str | None:
    state = own.get("state")
    if isinstance(state, str) and state:
        return state.upper()
    alive = own.get("alive")
    if isinstance(alive, bool):
        return "ALIVE" if alive else "DEAD"
    return None


def _head(own: dict[str, Any], resources: dict[str, Any], told: bool) -> bool | None:
    """Whether a node is the head. told: whether any node of the list has the head's resource."""
    head = own.get("head")
    if isinstance(head, str):
        head = {"true": True, "false": False}.get(head.lower())
    if isinstance(head, bool):
        return head
    # The table of the dead has no resources.
    return (HEAD_RESOURCE in resources) if told and resources else None


def _time(value: Any) -> str | int | float | None:
    """A time as the list has it; None for the epoch, which stands for "not yet"."""
    if value in (None, 0, 0.0, "0") or str(value).startswith("1970-01-01"):
        return None
    return value if isinstance(value, (str, int, float)) else str(value)


def _node(own: dict[str, Any], told: bool) -> dict[str, Any]:
    given = own.get("resources")
    resources = {str(name): quantity(value) for name, value in given.items()} if isinstance(given, dict) else {}
    node: dict[str, Any] = {name: (str(own[name]) if own.get(name) not in (None, "") else None) for name in TEXTS}
    if node["ip"] is None:
        # The dashboard's answer may leave the address to the resource that each node has of its own.
        addresses = [name[5:] for name in resources if name.startswith("node:") and name != HEAD_RESOURCE]
        node["ip"] = addresses[0] if addresses else None
    accelerators = [match["name"] for match in map(ACCELERATOR.match, resources) if match]
    labels = own.get("labels")
    node["state"] = _state(own)
    node["alive"] = node["state"] == "ALIVE"
    node["head"] = _head(own, resources, told)
    node["resources"] = resources
    # A node without GPUs has no such key; a dead one has no resources at all.
    for name, key in (("CPU", "CPU"), ("GPU", "GPU"), ("memory_bytes", "memory")):
        node[name] = resources.get(key, 0.0 if resources and key != "memory" else None)
    node["accelerator"] = accelerators[0] if accelerators else None
    node["labels"] = {str(key): value for key, value in labels.items()} if isinstance(labels, dict) else {}
    node["start_time"], node["end_time"] = _time(own.get("start_time")), _time(own.get("end_time"))
    return node


def _flat(value: Any) -> Any:
    """The dashboard's summary keeps what Ray knows of a node below "raylet", and the host's figures above it."""
    inner = value.get("raylet") if isinstance(value, dict) else None
    if inner is None or not _is_node(inner):
        return value
    return {**inner, **{key: value[key] for key in ("ip", "hostname") if key in value}}


def _lists(value: Any) -> Iterator[tuple[list[dict[str, Any]], dict[str, Any]]]:
    """Lists of nodes anywhere in an answer, each with the mapping that holds it."""
    if _is_node(value):
        yield [value], {}
    elif isinstance(value, dict):
        for inner in value.values():
            flat = [_flat(entry) for entry in inner] if isinstance(inner, list) else []
            if flat and all(map(_is_node, flat)):
                yield flat, value
            else:
                yield from _lists(inner)
    elif isinstance(value, list):
        value = [_flat(inner) for inner in value]
        if value and all(map(_is_node, value)):
            yield value, {}
        else:
            for inner in value:
                yield from _lists(inner)


def _json_of_python(match: re.Match[str]) -> str:
    word = match.group()
    if word in LITERALS:
        return LITERALS[word]
    if word[0] == '"':
        # An apostrophe within; its escapes are JSON's, but for \'.
        return word.replace("\\'", "'")
    return json.dumps(re.sub(r"\\(.)", r"\1", word[1:-1]))


def _json_text(literal: str) -> str:
    """A Python literal as JSON."""
    if '"' not in literal and "\\" not in literal:
        # No text in it has a quote of its own, so each quote is one of a text's ends.
        return LITERAL_VALUE.sub(lambda match: LITERALS[match.group()], literal.replace("'", '"'))
    return QUOTED.sub(_json_of_python, literal)


def _document(text: str, start: int) -> tuple[Any, int]:
    """The JSON document or Python literal at a place, and where it ends; ValueError where there is none."""
    decoder = json.JSONDecoder()
    try:
        return decoder.raw_decode(text, start)
    except ValueError:
        # Only a literal has single quotes round its first key.
        if "'" not in text[start : start + 40]:
            raise
    return decoder.raw_decode(_json_text(text[start:]))[0], len(text)


def _documents(text: str) -> Iterator[Any]:
    """JSON documents and Python literals in a text."""
    end = 0
    for match in DOCUMENT.finditer(text):
        if match.end() >= end:
            try:
                value, end = _document(text, match.end())
            except ValueError:
                continue
            yield value


def _pieces(text: str) -> list[dict[str, Any]]:
    """The whole nodes of a document that is cut off, or has a line of others in it."""
    decoder = json.JSONDecoder()
    plain = _json_text(text) if re.search(r"\{\s*'", text) else text
    found, position = [], plain.find("{")
    while position >= 0:
        try:
            value, end = decoder.raw_decode(plain, position)
        except ValueError:
            end = position + 1
        else:
            if _is_node(value):
                found.append(value)
            else:
                end = position + 1
        position = plain.find("{", end)
    return found


def _raw(text: str, lines: list[str]) -> tuple[list[dict[str, Any]] | None, int | None, bool]:
    """A text's nodes with their own keys (None without a list), how many it says there are, whether it is whole."""
    in_table = table.rows(lines)
    if in_table is not None:
        totals = [int(match[1]) for match in map(TOTAL.match, lines) if match]
        total = totals[-1] if totals else None
        return in_table, total, total in (None, len(in_table))
    newest: tuple[list[dict[str, Any]], dict[str, Any]] | None = None
    empty = False
    for document in _documents(text):
        for found in _lists(document):
            newest = found
        empty = empty or document == []
    if newest:
        total = newest[1].get("total")
        number = total if isinstance(total, int) and not isinstance(total, bool) else None
        return newest[0], number, number in (None, len(newest[0]))
    if re.search(r"\{\s*['\"](?:node_?id|state|result|data|NodeID)", text, re.IGNORECASE):
        pieces = _pieces(text)
        if pieces:
            return pieces, None, False
    if any(map(YAML_KEY.match, lines)):
        starts = [number for number, line in enumerate(lines) if line.strip() == "---"]
        first = starts[-1] + 1 if starts else next(i for i, line in enumerate(lines) if YAML_KEY.match(line))
        items = yaml_text.mappings(lines[first:])
        nodes = [item for item in items if _is_node(item)]
        if nodes:
            return nodes, None, len(nodes) == len(items)
    if empty or NOTHING.search(text):
        return [], 0, True
    return None, None, False


def parse(text: str) -> dict[str, Any] | None:
    """What a list of nodes says; None when the text holds neither a list nor an error that is known.

    node_list: a mapping a node; total: how many there are by the list's own count (None without); rows_in_text;
    complete; alive, dead; heads: those alive, None where the list does not tell; unique_alive_ips; gpu_total of the
    nodes alive (None where one of them has no resources in the text). Of an error: as errors.facts.
    """
    cleaned = clean(text)
    plain = "\n".join(cleaned.lines)
    raw, total, whole = _raw(plain, cleaned.lines)
    if raw is None:
        trouble = errors.find(cleaned.lines)
        return None if trouble is None else {**errors.facts(trouble), "node_list": None}
    own = [_own_keys(node) for node in raw]
    told = any(HEAD_RESOURCE in (entry.get("resources") or ()) for entry in own)
    return summary([_node(entry, told) for entry in own], total, whole, cleaned.prefix_stripped)


def summary(nodes: list[dict[str, Any]], total: int | None, whole: bool, prefix_stripped: bool) -> dict[str, Any]:
    """Numbers over a list of nodes, as `parse`."""
    alive = [node for node in nodes if node["alive"]]
    return {
        "node_list": nodes,
        "total": total,
        "rows_in_text": len(nodes),
        "complete": whole,
        "prefix_stripped": prefix_stripped,
        "alive": len(alive),
        "dead": sum(node["state"] == "DEAD" for node in nodes),
        "heads": _heads(alive),
        "unique_alive_ips": len({node["ip"] for node in alive if node["ip"]}),
        "gpu_total": _sum(node["GPU"] for node in alive),
    }


def _heads(alive: list[dict[str, Any]]) -> int | None:
    if alive and all(node["head"] is None for node in alive):
        return None
    return sum(node["head"] is True for node in alive)


def _sum(numbers: Iterable[float | None]) -> float | None:
    known = list(numbers)
    return None if None in known else sum(number or 0.0 for number in known)
