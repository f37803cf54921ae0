# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what the NVIDIA driver wrote to the kernel's log: Xid lines and faults that have no Xid."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.smi.values import plain

XID = re.compile(r"NVRM: Xid \((?:PCI:)?(?P<bus>[0-9A-Fa-f]+(?::[0-9A-Fa-f.]+)+)\):\s*(?P<code>\d+)")
SWITCH_ERROR = re.compile(r"nvidia-nvswitch\d*: SXid")
DRIVER_LINE = re.compile(r"(?:^|[\s:\]])NVRM:\s?(?P<body>.*)$")
FAULT = re.compile(
    r"fallen off the bus|RmInitAdapter|rm_init_adapter.* failed|API mismatch|NVIDIA open kernel modules|"
    r"probe routine failed|None of the NVIDIA devices were|No NVIDIA (?:GPU|graphics adapter|devices?) (?:was )?found|"
    r"is already bound to|PCI I/O region assigned to your NVIDIA device is invalid|BAR\d is 0M|bad state|"
    r"requiring os reboot|fatal error|not supported by (?:the|this)|can't find an IRQ|"
    r"Failed to (?:allocate|initialize)|unexpected WPR2|Timeout waiting for RPC|Assertion failed.*fabric",
    re.IGNORECASE,
)
# Sentences that the driver spreads over several lines; the rest follows in lines of their own.
LONG = re.compile(r"^(?:The NVIDIA GPU [0-9A-Fa-f:.]+|API mismatch: the client has|This PCI I/O region)", re.IGNORECASE)
LONGEST = 6


def _sentence(bodies: list[str | None], at: int) -> tuple[str, int]:
    """The sentence that begins in a line, and how many lines it takes."""
    parts = [bodies[at] or ""]
    if LONG.match(parts[0]):
        for body in bodies[at + 1 : at + LONGEST]:
            if parts[-1].endswith(".") or body is None:
                break
            parts.append(body)
    return " ".join(parts), len(parts)


def parse(text: str | None) -> dict[str, Any]:
    """{"read": bool, "xid": [{code, bus_id, line}], "faults": [str]}. None: the log could not be read.

    A fault that is spread over several lines is told as one.
    """
    if text is None:
        return {"read": False, "xid": [], "faults": []}
    lines = [line.strip() for line in plain(text).split("\n")]
    found = [DRIVER_LINE.search(line) for line in lines]
    bodies = [match["body"].strip() if match else None for match in found]
    xids: list[dict[str, Any]] = []
    faults: list[str] = []
    at = 0
    while at < len(lines):
        xid = XID.search(lines[at])
        sentence, length = _sentence(bodies, at)
        if xid:
            xids.append({"code": int(xid["code"]), "bus_id": xid["bus"], "line": lines[at]})
        elif SWITCH_ERROR.search(lines[at]):
            faults.append(lines[at])
        elif bodies[at] is not None and FAULT.search(sentence):
            start = lines[at][: len(lines[at]) - len(bodies[at] or "")]
            faults.append(start + sentence)
        at += 1 if xid else length
    return {"read": True, "xid": xids, "faults": faults}
