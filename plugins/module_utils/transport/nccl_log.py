# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads NCCL's log (NCCL_DEBUG=INFO, NCCL 2.18 and later): which ranks were connected over what."""

from __future__ import annotations

import re
from dataclasses import dataclass

INFO = re.compile(r"NCCL INFO (.*)")
# Rank and device of both ends; the device is a number, in older releases the bus id. Between the words and the way
# stands nothing, [send] or [receive]. Newer releases add the communicator after the way.
CHANNEL = re.compile(r"Channel \d+(?:/\d+)? : (\d+)\[\w+\] -> (\d+)\[\w+\] (?:\[(?:send|receive)\] )?via (.+)")
# Network, number of the device, in brackets the rank whose proxy sends, whether GPU memory is read directly.
NETWORK = re.compile(r"(NET/[^/]+)/(\d+)(?:\(\d+\))?(/GDRDMA)?")
USING_SOCKET = re.compile(r"NET/Socket ?: Using (.*)")
USING_IB = re.compile(r"NET/IB ?: Using (.*)")
SOCKET = re.compile(r"\[(\d+)\]([^\s:]+):")
# A device, or in braces several that are used as one.
IB_DEVICE = re.compile(r"\[(\d+)\](?:=\{([^}]*)\}|([^\s:\[{]+):\d+/)")
IB_PART = re.compile(r"\] ?([^\s:]+):\d+/")
VERSION = re.compile(r"NCCL version (\d+\.\d+(?:\.\d+)?)")
# What decides that RDMA is not used, in words that are no error.
NO_RDMA = re.compile(r"NET/IB ?: No device found|Failed to open libibverbs|NCCL_IB_DISABLE set by environment to 1")


@dataclass(frozen=True)
class Edge:
    """A connection of two ranks. kind: NET/IB, NET/Socket, P2P, P2P/MNNVL, SHM, …; device: number of the network's.

    gdr: the network reads GPU memory directly; line: as logged.
    """

    sender: int
    receiver: int
    kind: str
    device: int | None
    gdr: bool
    line: str


@dataclass(frozen=True)
class NcclLog:
    """What a log says. sockets, rdma: interfaces and RDMA devices by NCCL's number; no_rdma: the line that says why."""

    version: str | None
    edges: tuple[Edge, ...]
    sockets: dict[int, str]
    rdma: dict[int, str]
    no_rdma: str | None

    def interface(self, edge: Edge) -> str | None:
        """What a connection over a network leaves the machine by."""
        table = self.sockets if edge.kind == "NET/Socket" else self.rdma if edge.kind == "NET/IB" else {}
        return table.get(edge.device) if edge.device is not None else None


def parse(text: str) -> NcclLog:
    """Read a log, of one rank or of several; what is not NCCL's is passed over."""
    version = VERSION.search(text)
    edges: dict[Edge, None] = {}
    sockets: dict[int, str] = {}
    rdma: dict[int, str] = {}
    no_rdma: str | None = None
    for raw in text.splitlines():
        found = INFO.search(raw)
        if not found:
            continue
        line, said = raw.strip(), found.group(1)
        if (channel := CHANNEL.match(said)) is not None:
            edges[_edge(channel, line)] = None
        elif (using := USING_SOCKET.search(said)) is not None:
            sockets.update((int(number), name) for number, name in SOCKET.findall(using.group(1)))
        elif (using := USING_IB.search(said)) is not None:
            rdma.update(_devices(using.group(1)))
        elif no_rdma is None and NO_RDMA.search(said):
            no_rdma = line
    return NcclLog(version.group(1) if version else None, tuple(edges), sockets, rdma, no_rdma)


def _edge(channel: re.Match[str], line: str) -> Edge:
    sender, receiver, way = int(channel.group(1)), int(channel.group(2)), channel.group(3)
    network = NETWORK.match(way)
    if network:
        return Edge(sender, receiver, network.group(1), int(network.group(2)), bool(network.group(3)), line)
    # P2P/MNNVL is NVLink from one machine to another; how exactly neighbours within one talk is of no interest.
    kind = "P2P/MNNVL" if way.startswith("P2P/MNNVL") else way.partition("/")[0]
    return Edge(sender, receiver, kind, None, False, line)


def _devices(said: str) -> dict[int, str]:
    devices, _semicolon, _out_of_band = said.partition(";")
    return {
        int(number): "+".join(IB_PART.findall(parts)) if parts else name
        for number, parts, name in IB_DEVICE.findall(devices)
    }
