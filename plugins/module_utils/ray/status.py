# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what `ray status` prints: all layouts since Ray 1.2, with `-v`, whole or cut off."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.ray import demands, errors, resources
from ansible_collections.tandem.vllm.plugins.module_utils.ray.clean import BANNER, clean

NOT_YET = re.compile(r"No cluster status(?:\.|\b)")
TIME = re.compile(r"status: *(\d{4}-\d\d-\d\d +\d\d:\d\d:\s*\d\d(?:\.\s*\d+)?)")
# A heading of a section, alone on its line; "Pending :" comes out of pictures. Usage is also one of a node.
HEADING = re.compile(
    r"(?P<indent>\s*)(?P<name>Healthy|Active|Idle|Pending|Recent failures|Total Usage|Usage|Total Constraints|"
    r"Total Demands|Pending Demands|Demands|From request_resources|Activity)\s*:$"
)
PART = re.compile(r"\s*(?P<name>Node status|Resources)$")
# Without an autoscaler's instance, v2 has no name: "Node:  (node_06a1…)".
NODE_BLOCK = re.compile(r"Node: ?(?P<name>[^\s(]*)(?: ?\((?P<type>.*)\))?$")
NODE_ID = re.compile(r"\s+Id: (?P<id>\S+)$")
NODE_IDLE = re.compile(r"\s+Idle: (?P<ms>\d+) ms$")
NONE_ROW = re.compile(r"\s*\((?:no [\w() ]+|none)\)$")

COUNTED = re.compile(r"\s*(?P<count>\d+) (?P<type>[^\s({][^\s{]*(?: [\w.-]+)*)$")
# Ray 1: " 1 node(s) with resources: {...}", where nodes have no types.
UNTYPED = re.compile(r"\s*(?P<count>\d+) node\(s\) with resources:")
LAUNCHING = re.compile(r"\s*(?P<type>[^\s,:][^,]*), (?P<count>\d+) (?P<state>[a-z][\w -]*)$")
STARTING = re.compile(r"\s*(?P<where>[^\s,]+): (?P<type>[^\s,][^,]*), ?(?P<state>.*)$")
FAILED = re.compile(
    r"\s*(?P<type>[^\s:][^:]*): (?P<reason>[A-Z]\w+)(?: \((?P<key>ip|instance_id|latest_attempt): (?P<value>[^)]*)\))?"
    r"(?: - (?P<detail>.*))?$"
)
FAILED_AT = re.compile(r"\s*(?P<ip>[\d.]{7,}|[0-9a-fA-F:]{3,}): (?P<type>\S.*)$")
IP = re.compile(r"\d+\.\d+\.\d+\.\d+|[0-9a-fA-F]*:[0-9a-fA-F:]+")
# What the banner of `ray list nodes` says.
LIST = " List:"
# What Ray itself counts.
OWN_RESOURCE = re.compile(r"CPU|GPU|memory|object_store_memory|accelerator_type:.*|node:.*")
# A row that its terminal broke in two has an open bracket at its end.
MOST_BROKEN = 3


@dataclass
class Report:
    """One report, section by section. A count is None where its section is missing or has no row.

    headings: those seen; counts: active, idle, pending, failed; node_types: type to number of live nodes; blocks: of
    `-v`, a mapping a node with id, type, ip, idle_ms, resources and activity.
    """

    version: str | None = None
    heading: str | None = None
    time: str | None = None
    parts: set[str] = field(default_factory=set)
    headings: list[str] = field(default_factory=list)
    counts: dict[str, int | None] = field(
        default_factory=lambda: dict.fromkeys(("active", "idle", "pending", "failed"))
    )
    node_types: dict[str, int] = field(default_factory=dict)
    pending: list[dict[str, Any]] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)
    resources: dict[str, dict[str, Any]] = field(default_factory=dict)
    constraints: list[dict[str, Any]] | None = None
    demands: list[dict[str, Any]] | None = None
    blocks: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, number: int) -> None:
        """Count so many nodes; 0 says that the section was there and has none."""
        self.counts[name] = (self.counts[name] or 0) + number


SECTIONS = {
    "Healthy": "active",
    "Active": "active",
    "Idle": "idle",
    "Pending": "pending",
    "Recent failures": "failed",
    "Total Usage": "usage",
    "Usage": "usage",
    "Total Constraints": "constraints",
    "From request_resources": "constraints",
    "Total Demands": "demands",
    "Pending Demands": "demands",
    "Demands": "demands",
    "Activity": "activity",
}


def _joined(lines: list[str]) -> Iterator[str]:
    """Lines, with those together again that a narrow terminal broke within brackets."""
    held, parts = "", 0
    for raw in lines:
        line = f"{held} {raw.strip()}" if held else raw
        if (line.count("(") > line.count(")") or line.count("{") > line.count("}")) and parts < MOST_BROKEN:
            held, parts = line, parts + 1
        else:
            held, parts = "", 0
            yield line
    if held:
        yield held


def _node_row(report: Report, section: str, line: str) -> bool:
    found = COUNTED.match(line) or UNTYPED.match(line)
    if found is None:
        return False
    report.add(section, int(found["count"]))
    name = found.groupdict().get("type")
    if name:
        report.node_types[name] = report.node_types.get(name, 0) + int(found["count"])
    return True


def _pending_row(report: Report, line: str) -> bool:
    launching, starting = LAUNCHING.match(line), STARTING.match(line)
    if launching:
        state = launching["state"]
        report.pending.append({"type": launching["type"], "count": int(launching["count"]), "state": state})
        report.add("pending", int(launching["count"]))
    elif starting:
        where = "ip" if IP.fullmatch(starting["where"]) else "instance"
        report.pending.append({where: starting["where"], "type": starting["type"], "state": starting["state"].strip()})
        report.add("pending", 1)
    return bool(launching or starting)


def _failure_row(report: Report, line: str) -> bool:
    failed, failed_at = FAILED.match(line), FAILED_AT.match(line)
    if failed_at:
        # Releases of 2021 name only where it was.
        report.failures.append({"type": failed_at["type"], "reason": None, "ip": failed_at["ip"]})
    elif failed:
        entry: dict[str, Any] = {"type": failed["type"], "reason": failed["reason"]}
        if failed["key"]:
            entry[failed["key"]] = failed["value"]
        if failed["detail"]:
            entry["detail"] = failed["detail"]
        report.failures.append(entry)
    else:
        if report.failures and line.strip() and "detail" in report.failures[-1]:
            report.failures[-1]["detail"] += " " + line.strip()
        return False
    report.add("failed", 1)
    return True


def _usage_row(report: Report, line: str) -> bool:
    found = resources.row(line)
    if found is None:
        return False
    rows = report.blocks[-1]["resources"] if report.blocks else report.resources
    rows[found[0]] = found[1]
    return True


def _demand_row(report: Report, section: str, line: str) -> bool:
    found = demands.demand(line)
    if found is None:
        return False
    if section == "constraints":
        report.constraints = [*(report.constraints or []), found]
    else:
        report.demands = [*(report.demands or []), found]
    return True


def _empty(report: Report, section: str) -> None:
    """A section says in brackets that it has no row."""
    if section in report.counts:
        report.add(section, 0)
    elif section == "constraints":
        report.constraints = report.constraints or []
    elif section == "demands":
        report.demands = report.demands or []


def _row(report: Report, section: str, line: str) -> None:
    if NONE_ROW.match(line):
        _empty(report, section)
    elif section in ("active", "idle"):
        _node_row(report, section, line)
    elif section == "pending":
        _pending_row(report, line)
    elif section == "failed":
        _failure_row(report, line)
    elif section == "usage":
        _usage_row(report, line)
    elif section in ("constraints", "demands"):
        _demand_row(report, section, line)
    elif section == "activity" and report.blocks and line.strip():
        report.blocks[-1]["activity"].append(line.strip())


def _block(match: re.Match[str]) -> dict[str, Any]:
    name = match["name"]
    return {
        "id": None if IP.fullmatch(name) else name or None,
        "instance": name or None,
        "ip": name if IP.fullmatch(name) else None,
        "type": match["type"],
        "idle_ms": None,
        "resources": {},
        "activity": [],
    }


def _in_block(report: Report, line: str) -> bool:
    """A line of a node's block that is neither a heading nor a row."""
    node_id, idle = NODE_ID.match(line), NODE_IDLE.match(line)
    if node_id:
        report.blocks[-1]["id"] = node_id["id"]
    elif idle:
        report.blocks[-1]["idle_ms"] = int(idle["ms"])
    return bool(node_id or idle)


def _heading(report: Report, found: re.Match[str]) -> str:
    name = found["name"]
    if not report.blocks:
        report.headings.append(name)
        if name in ("Healthy", "Active"):
            report.heading = name
        elif name == "Idle":
            report.version = "v2"
    return SECTIONS[name]


def _report(lines: list[str]) -> Report:
    """Read the lines of one report."""
    report = Report()
    section = ""
    for line in _joined(lines):
        banner, part, heading, block = (pattern.search(line) for pattern in (TIME, PART, HEADING, NODE_BLOCK))
        if banner and BANNER.search(line):
            report.time = " ".join(banner[1].split())
        elif part and part.start() == 0:
            report.parts.add(part["name"])
            # Before types there was no heading over the nodes.
            section = "active" if part["name"] == "Node status" else ""
        elif block and block.start() == 0:
            report.blocks.append(_block(block))
            section = ""
        elif heading and heading.start() == 0:
            section = _heading(report, heading)
        elif not (report.blocks and _in_block(report, line)) and section:
            _row(report, section, line)
    _rows_before(report, lines)
    if report.headings and report.version is None and report.heading:
        report.version = "v1"
    return report


def _rows_before(report: Report, lines: list[str]) -> None:
    """Rows before the first heading: of a text that begins among them. "3/5 done" is no resource of Ray's."""
    found = []
    for line in lines:
        if BANNER.search(line) or PART.match(line) or HEADING.match(line):
            break
        row = resources.row(line)
        if row:
            found.append(row)
    if any(OWN_RESOURCE.fullmatch(name) for name, _values in found):
        report.resources = {**dict(found), **report.resources}


def _last_report(lines: list[str]) -> list[str]:
    """The lines of the newest report of a text, and what follows it up to a list of nodes."""
    banners = [number for number, line in enumerate(lines) if BANNER.search(line)]
    starts = [number for number in banners if LIST not in lines[number]]
    ends = [number for number in banners if LIST in lines[number] and (not starts or number > starts[-1])]
    lines = lines[: ends[0]] if ends else lines
    if not starts:
        starts = [number for number, line in enumerate(lines) if PART.fullmatch(line) and "Node status" in line]
    return lines[starts[-1] if starts else 0 :]


def _counts(report: Report) -> dict[str, int | None] | None:
    """The nodes by state; None when the text has no section of nodes."""
    if all(number is None for number in report.counts.values()):
        return None
    counts = dict(report.counts)
    if report.heading is not None and counts["active"] is None:
        # The heading without a row: old releases print nothing where no node is.
        counts["active"] = 0 if len(report.headings) > 1 else None
    if counts["idle"] is None and counts["active"] is not None:
        counts["idle"] = 0
    known = [counts[name] for name in ("active", "idle")]
    counts["alive"] = None if None in known else sum(number or 0 for number in known)
    return counts


def parse(text: str) -> dict[str, Any] | None:
    """What a text of `ray status` says; None when it holds nothing of one.

    reachable: whether the GCS answered, None unknown; root_cause, reason, remedy, address: of an error; retryable:
    whether the same question may be answered otherwise in a while; and the report: complete, fragment, format,
    node_heading, time, nodes, node_types, pending, failures, resources, constraints, demands, blocks.
    """
    cleaned = clean(text)
    lines = _last_report(cleaned.lines)
    report = _report(lines)
    counts = _counts(report)
    result: dict[str, Any] = {
        "prefix_stripped": cleaned.prefix_stripped,
        "address": None,
        "root_cause": None,
        "reason": None,
        "remedy": None,
        "retryable": False,
    }
    if counts is not None or report.resources or report.blocks:
        # An error behind the report is newer than the report.
        trouble = errors.find(lines[_end(lines) :])
        if trouble is None or not trouble.cause.final:
            return {**result, "reachable": True, **_sections(report, counts)}
    elif any(NOT_YET.search(line) for line in cleaned.lines):
        return {**result, "reachable": True, "retryable": True, **_sections(Report(), None), "complete": True}
    else:
        trouble = errors.find(cleaned.lines)
        if trouble is None:
            return None
    return {**result, **errors.facts(trouble), **_sections(Report(), None)}


def _end(lines: list[str]) -> int:
    """The number of the line after a report's last one."""
    known = [
        number
        for number, line in enumerate(lines, 1)
        if HEADING.match(line) or NONE_ROW.match(line) or resources.row(line) or demands.demand(line)
    ]
    return known[-1] if known else 0


def _sections(report: Report, counts: dict[str, int | None] | None) -> dict[str, Any]:
    whole = counts is not None and None not in counts.values() and report.demands is not None and bool(report.resources)
    return {
        "format": report.version,
        "node_heading": report.heading,
        "time": report.time,
        "nodes": counts,
        "node_types": report.node_types,
        "pending": report.pending,
        "failures": report.failures,
        "resources": report.resources or None,
        "constraints": report.constraints,
        "demands": report.demands,
        "blocks": report.blocks,
        "complete": whole,
        # Its beginning is missing; a text that only ends too early has its section of nodes.
        "fragment": bool(report.resources or report.blocks) and (counts is None or counts["alive"] is None),
    }


def nothing() -> dict[str, Any]:
    """The keys of a report, without one."""
    return _sections(Report(), None)
