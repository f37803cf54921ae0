# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the table that plain `nvidia-smi` prints, of every era, whole or in pieces.

Rows are known by what they hold, not by their column: header lines may be missing, names cut, borders glued to values,
and lines may carry the prefix of a log or a prompt.
"""

from __future__ import annotations

import re

from ansible_collections.tandem.vllm.plugins.module_utils.smi import values
from ansible_collections.tandem.vllm.plugins.module_utils.smi.values import BUS_ID, Reading, Words

FAULT = r"ERR!|\[?Unknown Error\]?|\[?GPU is lost\]?|\[?GPU requires reset\]?"
NONE = r"N/A|\[N/A\]|Not Supported|" + FAULT
MEMORY = r"\d+\s*Mi?B|" + NONE

# |   0  NVIDIA H200   On  |   00000000:00:06.0 Off |   0 |
FIRST = re.compile(
    r"\|\s*(?P<index>\d+)\s+(?P<name>\S[^|]*?)(?:\s+(?P<mode>On|Off|WDDM|TCC|MCDM|N/A|ERR!))?\s*\|\s*"
    r"(?P<bus>" + BUS_ID + r"|ERR!|N/A)(?:\s*(?P<display>On|Off|N/A|ERR!))?\s*(?:\|\s*(?P<ecc>[^|]*?)\s*(?:\||$))?"
)
# |ERR!   59C    P0    66W / 480W |    120MiB / 24564MiB |      0%      Default |
SECOND = re.compile(
    rf"(?:\||^)\s*(?P<fan>\d+\s*%|{NONE})\s*(?P<temp>\d+\s*C|{NONE})\s+(?P<perf>P\d+|{NONE})\s+"
    rf"(?P<power>[\d.]+\s*W|{NONE})\s*/\s*(?P<limit>[\d.]+\s*W|{NONE})\s*"
    r"(?:\|(?P<memory>[^|]*)(?:\|(?P<rest>[^|]*))?)?"
)
USAGE = re.compile(rf"(?P<used>{MEMORY})\s*/\s*(?P<total>{MEMORY})$")
UTILIZATION = re.compile(rf"(?P<util>\d+\s*%|{NONE})?\s*(?P<compute>.*)$")
# |                                         |                        |             Disabled |
THIRD = re.compile(r"\|(?:\s*\|)+\s*(?P<mig>Enabled\*?|Disabled\*?|" + NONE + r")\s*\|?\s*$")
# |  0    3   0   0  |               12MiB /  9856MiB  | 14      0 |  1   0    1    0    0 |
MIG_ROW = re.compile(
    r"\|\s*(?P<gpu>\d+)\s+(?P<gi>\d+|N/A)\s+(?P<ci>\d+|N/A)\s+(?P<dev>\d+)\s*\|\s*(?P<used>\d+|N/A)\s*(?:Mi?B)?\s*/\s*"
    r"(?P<total>\d+|N/A)"
)
# |    0   N/A  N/A             429      C   python3                                3682MiB |
PROCESS = re.compile(
    r"\|\s*(?P<gpu>\d+)\s+(?:(?P<gi>N/A|\d+)\s+(?P<ci>N/A|\d+)\s+)?(?P<pid>\d+|N/A)\s+(?P<type>[CGMO](?:\+[CGMO])*)"
    r"(?:\s+(?P<name>\S.*?))??(?:\s+(?P<memory>\d+\s*Mi?B|N/A|ERR!|\[?Insufficient Permissions\]?))?\s*(?:\||$)"
)


def _first(row: re.Match[str]) -> tuple[Words, str | None]:
    """The words of a GPU's first row, and the driver model (WDDM, TCC)."""
    words = {"index": row["index"], "name": row["name"], "bus_id": row["bus"]}
    model = row["mode"] if row["mode"] in ("WDDM", "TCC", "MCDM") else None
    if row["mode"] and not model:
        words["persistence"] = row["mode"]
    ecc = row["ecc"] or ""
    if ecc.isdigit():
        words.update(ecc_uncorrected=ecc, ecc_mode="Enabled")
    elif ecc:
        words["ecc_mode"] = ecc
    return words, model


def _second(row: re.Match[str]) -> Words:
    """The words of a GPU's second row."""
    words = {"fan": row["fan"], "temp_c": row["temp"], "perf": row["perf"]}
    words.update(power_w=row["power"], power_limit_w=row["limit"])
    memory, rest = (row["memory"] or "").strip(), (row["rest"] or "").strip()
    if memory:
        usage = USAGE.match(memory)
        words["memory_used"] = usage["used"] if usage else memory
        words["memory_total"] = usage["total"] if usage else memory
    use = UTILIZATION.match(rest)
    if use and use["util"]:
        words["util_pct"] = use["util"]
    if use and use["compute"]:
        words["compute_mode"] = use["compute"]
    return words


def parse(text: str) -> Reading:
    """What the tables in a text say."""
    reading = Reading()
    rows: list[Words] = []
    mig: list[re.Match[str]] = []
    for line in text.split("\n"):
        first = FIRST.search(line)
        if first:
            words, model = _first(first)
            rows.append(words)
            reading.driver_model = reading.driver_model or model
            continue
        second = SECOND.search(line) if "|" in line else None
        if second:
            # A piece of a table may begin with a second row: it is a GPU as well.
            if not rows or "temp_c" in rows[-1]:
                rows.append({})
            rows[-1].update(_second(second))
            continue
        third = THIRD.search(line)
        if third:
            if rows and "mig_mode" not in rows[-1]:
                rows[-1]["mig_mode"] = third["mig"]
            continue
        device = MIG_ROW.search(line)
        if device:
            mig.append(device)
            continue
        found = PROCESS.search(line)
        if found:
            reading.processes.append(
                values.process(int(found["gpu"]), None, found["pid"], found["type"], found["name"], found["memory"])
            )
    reading.gpus = [values.gpu_facts(words) for words in rows]
    for device in mig:
        for gpu in reading.gpus:
            if gpu["index"] == int(device["gpu"]):
                gpu["mig_devices"].append(
                    values.mig_device(
                        int(device["dev"]),
                        instances=(values.integer(device["gi"]), values.integer(device["ci"])),
                        memory=(values.integer(device["total"]), values.integer(device["used"])),
                    )
                )
    return reading
