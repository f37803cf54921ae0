# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the CSV of `nvidia-smi --query-gpu` and `--query-compute-apps`, of any columns, with or without units."""

from __future__ import annotations

import re

from ansible_collections.tandem.vllm.plugins.module_utils.smi import values
from ansible_collections.tandem.vllm.plugins.module_utils.smi.values import BUS_ID, Facts, Reading, Words

COLUMNS = {
    "index": "index",
    "uuid": "uuid",
    "gpu_uuid": "uuid",
    "pci.bus_id": "bus_id",
    "gpu_bus_id": "bus_id",
    "name": "name",
    "gpu_name": "name",
    "memory.total": "memory_total",
    "memory.used": "memory_used",
    "ecc.mode.current": "ecc_mode",
    "ecc.errors.corrected.volatile.total": "ecc_corrected",
    "ecc.errors.uncorrected.volatile.total": "ecc_uncorrected",
    "remapped_rows.pending": "remap_pending",
    "mig.mode.current": "mig_mode",
    "mig.mode.pending": "mig_pending",
    "compute_mode": "compute_mode",
    "persistence_mode": "persistence",
    "pstate": "perf",
    "fan.speed": "fan",
    "temperature.gpu": "temp_c",
    "power.draw": "power_w",
    "power.draw.average": "power_w",
    "power.limit": "power_limit_w",
    "enforced.power.limit": "power_limit_w",
    "utilization.gpu": "util_pct",
    "fabric.state": "fabric_state",
    "fabric.status": "fabric_status",
    "gpu_recovery_action": "recovery_action",
}
# Columns that are read another way, or say no more than that a line is a header.
OTHER_COLUMNS = {
    "timestamp", "driver_version", "count", "pid", "process_name", "used_gpu_memory", "used_memory", "gpu_serial",
    "serial", "memory.free", "memory.reserved", "utilization.memory", "driver_model.current", "vbios_version",
    "compute_cap", "display_active", "display_mode", "minor_number", "power.draw.instant", "temperature.memory",
}  # fmt: skip
COLUMN = re.compile(r"[a-z][\w.]*(?: \[[^\]]*\])?$")
UUID = re.compile(r"(?:GPU|MIG)-[0-9a-fA-F][0-9a-fA-F-]{7,}(?:/\d+/\d+)?$")
BUS = re.compile(BUS_ID + r"$")
# A row that has lost its header: "0, NVIDIA A100-SXM4-80GB, 81920 MiB".
PRODUCT = re.compile(r"(?:NVIDIA|Tesla|GeForce|Quadro|GRID|TITAN|A100|H100)\b")


def _header(line: str) -> list[str] | None:
    """The columns that a line names; None when it is no header."""
    parts = [part.strip() for part in line.split(",")]
    if not all(COLUMN.match(part) for part in parts):
        return None
    names = [part.partition(" [")[0] for part in parts]
    # One made-up or newer column among known ones is no reason to drop the table; a lone word is no header.
    ours = [name for name in names if name in COLUMNS or name in OTHER_COLUMNS]
    return names if len(ours) * 2 > len(names) and (len(names) > 1 or "." in names[0] or "_" in names[0]) else None


def _cells(line: str, names: list[str]) -> list[str] | None:
    """The cells of a row; None when it is none. A process name may hold commas itself."""
    parts = [part.strip() for part in line.strip().split(",")]
    if not line.strip() or "|" in line:
        return None
    if len(parts) > len(names) and "process_name" in names:
        at = names.index("process_name")
        surplus = len(parts) - len(names)
        parts[at : at + surplus + 1] = [", ".join(parts[at : at + surplus + 1])]
    return parts if len(parts) == len(names) else None


def _process(row: dict[str, str]) -> Facts:
    """A row of --query-compute-apps."""
    memory = row.get("used_gpu_memory", row.get("used_memory"))
    return values.process(None, row.get("gpu_uuid"), row.get("pid"), None, row.get("process_name"), memory)


def _bare_gpu(parts: list[str]) -> Words | None:
    """The words of a row without a header, as far as the cells tell by themselves what they are."""
    words: Words = {}
    for at, part in enumerate(parts):
        if at == 0 and part.isdigit():
            words["index"] = part
        elif UUID.match(part):
            words["uuid"] = part
        elif BUS.match(part):
            words["bus_id"] = part
        elif PRODUCT.match(part):
            words["name"] = part
        elif re.match(r"\d+ MiB$", part):
            # Total, used and free are told apart by size only: the total is the largest.
            words["memory_total"] = max(part, words.get("memory_total", ""), key=lambda v: values.integer(v) or 0)
        elif values.fault(part):
            words["perf"] = part
    return words if "name" in words or {"index", "uuid"} <= set(words) or {"index", "bus_id"} <= set(words) else None


def _bare_process(parts: list[str]) -> Facts | None:
    """A row of --query-compute-apps without a header: UUID, pid, name, memory."""
    if len(parts) >= 3 and UUID.match(parts[0]) and parts[1].isdigit():
        return values.process(None, parts[0], parts[1], None, ", ".join(parts[2:-1]) or None, parts[-1])
    return None


def parse(text: str, processes_only: bool = False) -> tuple[Reading, set[int]]:
    """What the CSV in a text says, and the numbers of the lines that belong to it.

    processes_only: the text holds processes; rows without a header are taken as such.
    """
    reading = Reading()
    used: set[int] = set()
    names: list[str] | None = None
    position = 0
    for number, line in enumerate(text.split("\n")):
        header = _header(line)
        if header:
            names, position = header, 0
            used.add(number)
            continue
        cells = _cells(line, names) if names else None
        if cells is None or names is None:
            names = None
            parts = [part.strip() for part in line.split(",")]
            if len(parts) < 2 or "|" in line:
                continue
            bare = _bare_process(parts)
            words = None if bare or processes_only else _bare_gpu(parts)
            if bare:
                reading.processes.append(bare)
                used.add(number)
            elif words:
                reading.gpus.append(values.gpu_facts(words))
                used.add(number)
            continue
        used.add(number)
        row = dict(zip(names, cells))
        reading.driver = reading.driver or values.known(row.get("driver_version"))
        reading.driver_model = reading.driver_model or values.known(row.get("driver_model.current"))
        if "pid" in row:
            reading.processes.append(_process(row))
            continue
        words = {COLUMNS[name]: cell for name, cell in row.items() if name in COLUMNS}
        if not words:
            continue
        # Rows come in the order of the indices.
        words.setdefault("index", str(position))
        position += 1
        others = {name: cell for name, cell in row.items() if name not in COLUMNS}
        reading.gpus.append(values.gpu_facts(words, others))
    return reading, used
