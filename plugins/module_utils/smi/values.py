# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the words of nvidia-smi mean: numbers with units, "not known", faults; and the shape of one GPU."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# What one parser found, in the tool's own words: names of FIELDS -> text.
Words = dict[str, str]
# One GPU, process or MIG device as gpu_info returns it.
Facts = dict[str, Any]

BUS_ID = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]"
# A machine whose GPU shares the memory of the CPU has no memory of its own to tell of.
UNIFIED = re.compile(r"\b(?:GB10|GB20\w|GH200|GB300|Grace|Thor|Orin|Tegra)\b")
ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
NOT_KNOWN = re.compile(
    r"\[?(?:N/?A|Not Supported|Not Available|Not Found|Unknown|None|Insufficient Permissions|"
    r"Requested functionality has been deprecated|-)?\]?$",
    re.IGNORECASE,
)
ERROR = re.compile(r"ERR!|Unknown Error", re.IGNORECASE)
LOST = re.compile(r"GPU is lost|fallen off the bus", re.IGNORECASE)
RESET = re.compile(r"GPU requires (?:a )?reset|GPU reset (?:is )?required", re.IGNORECASE)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")

# Fields of a GPU that a parser may fill, and what a fault in them is called.
FIELDS = {
    "index": "index",
    "uuid": "uuid",
    "bus_id": "bus_id",
    "name": "name",
    "memory_total": "memory",
    "memory_used": "memory",
    "ecc_mode": "ecc",
    "ecc_corrected": "ecc",
    "ecc_uncorrected": "ecc",
    "remap_pending": "remap",
    "mig_mode": "mig",
    "mig_pending": "mig",
    "compute_mode": "compute",
    "persistence": "persistence",
    "perf": "performance",
    "fan": "fan",
    "temp_c": "temperature",
    "power_w": "power",
    "power_limit_w": "power",
    "util_pct": "utilization",
    "fabric_state": "fabric",
    "fabric_status": "fabric",
    "recovery_action": "recovery",
}
# From good to bad.
STATUSES = ("ok", "error", "requires_reset", "lost")
RESET_PENDING = "reset pending"
MIG_PENDING = "mig change pending"
COMPUTE_MODES = {
    "e. process": "Exclusive_Process",
    "e. thread": "Exclusive_Thread",
    "exclusive process": "Exclusive_Process",
    "exclusive thread": "Exclusive_Thread",
}


@dataclass
class Reading:
    """What texts of nvidia-smi say. gpus, processes: as gpu_info returns them. errors: the tool's own lines."""

    driver: str | None = None
    cuda: str | None = None
    driver_model: str | None = None
    nvml_library: str | None = None
    gpus: list[Facts] = field(default_factory=list)
    processes: list[Facts] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def plain(text: str) -> str:
    """A terminal's text without colours, with plain blanks, borders and line ends."""
    text = ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("\xa0", " ").replace("\u2502", "|").replace("\u2503", "|").replace("\ufeff", "")


def known(value: str | None) -> str | None:
    """A value as the tool writes it; None where it says N/A, Not Supported or a fault."""
    if value is None or NOT_KNOWN.match(value.strip()) or fault(value):
        return None
    return value.strip()


def fault(value: str | None) -> str | None:
    """The status that a value stands for: "error", "requires_reset", "lost"; None when it is no fault."""
    if not value:
        return None
    if LOST.search(value):
        return "lost"
    if RESET.search(value):
        return "requires_reset"
    return "error" if ERROR.search(value) else None


def number(value: str | None) -> float | None:
    """The number in "118.60 W", "41C", "0 %"; None when there is none."""
    found = NUMBER.match(known(value) or "")
    return float(found.group()) if found else None


def integer(value: str | None) -> int | None:
    """The whole number in "3691 MiB", "41C", "0 %"; None when there is none."""
    found = number(value)
    return None if found is None else int(found)


def switch(value: str | None) -> str | None:
    """ "enabled", "disabled" or None, of Enabled, On, Disabled, Off, N/A."""
    word = (known(value) or "").rstrip("*").lower()
    return {"enabled": "enabled", "on": "enabled", "disabled": "disabled", "off": "disabled"}.get(word)


def truth(value: str | None) -> bool | None:
    """True, False or None, of Yes, No, Enabled, On, Disabled, Off, N/A."""
    word = (known(value) or "").lower()
    if word in ("yes", "no", "1", "0"):
        return word in ("yes", "1")
    state = switch(value)
    return None if state is None else state == "enabled"


def bus_key(bus_id: str | None) -> str | None:
    """A bus id for comparing: "00000000:0B:00.0", "0000:0b:00.0" and "0000:0b:00" are the same."""
    if not bus_id:
        return None
    domain, _colon, rest = bus_id.lower().partition(":")
    return "{}:{}".format(domain.lstrip("0") or "0", rest.partition(".")[0])


def worse(one: str, other: str) -> str:
    """The worse of two statuses."""
    return max(one, other, key=STATUSES.index)


def _mig(words: Mapping[str, str]) -> tuple[str | None, bool]:
    """The MIG mode in force, and whether another one waits for a reset."""
    shown = switch(words.get("mig_mode"))
    if (words.get("mig_mode") or "").endswith("*"):
        # The table shows the mode that is to come, with a star, as long as the other one is in force.
        return ({"enabled": "disabled", "disabled": "enabled"}.get(shown or ""), True)
    pending = switch(words.get("mig_pending"))
    return shown, pending is not None and pending != shown


def _fan(value: str | None) -> int | str | None:
    """Fan speed in percent, "ERR!", or None."""
    return "ERR!" if fault(value) == "error" else integer(value)


def gpu_facts(words: Mapping[str, str], others: Mapping[str, str] | None = None) -> Facts:
    """One GPU as gpu_info returns it, of what one output said of it.

    words: names of FIELDS -> the tool's words. others: further values, which matter only when they are faults.
    """
    status = "ok"
    faults: list[str] = []
    named = [(FIELDS[name], value) for name, value in words.items()] + list((others or {}).items())
    for field_name, value in named:
        found = fault(value)
        if not found:
            continue
        # A fan whose sensor fails leaves the GPU usable.
        if found != "error" or field_name != "fan":
            status = worse(status, found)
        told = RESET_PENDING if found == "requires_reset" else field_name
        if told not in faults:
            faults.append(told)
    action = known(words.get("recovery_action"))
    if action:
        status = worse(status, "requires_reset")
        faults.append("recovery action: " + action)
    mig_mode, pending = _mig(words)
    if pending:
        faults.append(MIG_PENDING)
    compute = known(words.get("compute_mode"))
    name = known(words.get("name"))
    unified = bool(words.get("memory_total")) and bool(NOT_KNOWN.match(words["memory_total"].strip()))
    return {
        "index": integer(words.get("index")),
        "uuid": known(words.get("uuid")),
        "bus_id": known(words.get("bus_id")),
        "name": name,
        "memory_total_mib": integer(words.get("memory_total")),
        "memory_used_mib": integer(words.get("memory_used")),
        # A broken GPU says N/A as well; only the name can tell then.
        "memory_unified": unified and (status == "ok" or bool(UNIFIED.search(name or ""))),
        "ecc_mode": switch(words.get("ecc_mode")),
        "ecc_corrected": integer(words.get("ecc_corrected")),
        "ecc_uncorrected": integer(words.get("ecc_uncorrected")),
        "remap_pending": truth(words.get("remap_pending")),
        "mig_mode": mig_mode,
        "mig_devices": [],
        "compute_mode": COMPUTE_MODES.get(compute.lower(), compute) if compute else None,
        "persistence": truth(words.get("persistence")),
        "perf": known(words.get("perf")),
        "fan": _fan(words.get("fan")),
        "temp_c": integer(words.get("temp_c")),
        "power_w": number(words.get("power_w")),
        "power_limit_w": number(words.get("power_limit_w")),
        "util_pct": integer(words.get("util_pct")),
        "fabric_state": known(words.get("fabric_state")),
        "fabric_status": known(words.get("fabric_status")),
        "status": status,
        "faults": faults,
    }


def mark(gpu: Facts, status: str, name: str) -> None:
    """Record a fault of a GPU that another line than its own tells of."""
    gpu["status"] = worse(gpu["status"], status)
    if name not in gpu["faults"]:
        gpu["faults"].append(name)


def mig_device(
    index: int | None,
    uuid: str | None = None,
    profile: str | None = None,
    instances: tuple[int | None, int | None] = (None, None),
    memory: tuple[int | None, int | None] = (None, None),
) -> Facts:
    """One MIG device. instances: ids of the GPU instance and the compute instance. memory: MiB in all, MiB in use."""
    return {
        "index": index,
        "uuid": uuid,
        "profile": profile,
        "gpu_instance_id": instances[0],
        "compute_instance_id": instances[1],
        "memory_total_mib": memory[0],
        "memory_used_mib": memory[1],
    }


def process(
    gpu_index: int | None,
    gpu_uuid: str | None,
    pid: str | None,
    kind: str | None,
    name: str | None,
    memory: str | None,
) -> Facts:
    """One process that uses a GPU, of the tool's words."""
    return {
        "gpu_index": gpu_index,
        "gpu_uuid": known(gpu_uuid),
        "pid": integer(pid),
        "type": known(kind),
        "name": known(name),
        "memory_mib": integer(memory),
        "container": None,
        "environment": None,
    }
