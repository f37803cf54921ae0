# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads and edits the gateway's upstreams file: which replica gets requests and which is drained."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_UPSTREAM = re.compile(r"^\s*upstream\s+(?P<name>\S+)\s*\{")
# server 10.0.0.1:8000 max_fails=3 fail_timeout=5s down; # replica=chat-0
_SERVER = re.compile(
    r"^(?P<indent>\s*server\s+)(?P<address>[^\s;]+)(?P<parameters>[^;]*);(?P<comment>\s*#\s*replica=(?P<replica>\S+)\s*)$"
)


class UnknownReplicaError(ValueError):
    """No server line carries this replica's name."""


class LastServerError(ValueError):
    """The change would leave an upstream without a server that takes requests."""


@dataclass(frozen=True)
class Server:
    """One server line. line: its index in the file; drained: whether it is marked `down`."""

    upstream: str
    replica: str
    address: str
    drained: bool
    line: int


def servers(text: str) -> list[Server]:
    """The servers of an upstreams file that carry a replica's name, in its order."""
    found, upstream = [], ""
    for number, line in enumerate(text.splitlines()):
        block = _UPSTREAM.match(line)
        if block:
            upstream = block["name"]
        server = _SERVER.match(line)
        if server:
            drained = "down" in server["parameters"].split()
            found.append(Server(upstream, server["replica"], server["address"], drained, number))
    return found


def with_replica(text: str, replica: str, drained: bool, allow_empty: bool = False) -> str:
    """The file with one replica drained, or taking requests again; the same text where it is so already.

    Raises UnknownReplicaError for a name that no server carries, and LastServerError where no other server of an
    upstream would take requests, unless `allow_empty`.
    """
    before = servers(text)
    if not any(s.replica == replica for s in before):
        known = ", ".join(sorted({s.replica for s in before})) or "none"
        raise UnknownReplicaError("no replica %r in the gateway; known: %s" % (replica, known))
    after = [replace(s, drained=drained) if s.replica == replica else s for s in before]
    if not allow_empty:
        _refuse_empty(before, after, replica)
    lines = text.splitlines(keepends=True)
    for old, new in zip(before, after):
        if old != new:
            lines[new.line] = _marked(lines[new.line], drained)
    return "".join(lines)


def _refuse_empty(before: list[Server], after: list[Server], replica: str) -> None:
    for upstream in {s.upstream for old, s in zip(before, after) if old != s and s.drained}:
        if all(s.drained for s in after if s.upstream == upstream):
            others = [s.replica for s in after if s.upstream == upstream and s.replica != replica]
            state = "%s already drained" % ", ".join(others) if others else "it is the only one"
            raise LastServerError(
                "%r is the last replica of %s that takes requests (%s): draining it would refuse every request"
                % (replica, upstream, state)
            )


def _marked(line: str, drained: bool) -> str:
    body = line.rstrip("\r\n")
    match = _SERVER.match(body)
    if match is None:  # only lines that `servers` found come here
        return line
    parameters = [p for p in match["parameters"].split() if p != "down"] + (["down"] if drained else [])
    edited = match["indent"] + " ".join([match["address"], *parameters]) + ";" + match["comment"]
    return edited + line[len(body) :]
