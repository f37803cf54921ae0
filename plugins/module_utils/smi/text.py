# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads any text of nvidia-smi: tables, `-q`, `-q -x`, `-L`, CSV and error lines, also several of them in one."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ansible_collections.tandem.vllm.plugins.module_utils.smi import csv as smi_csv
from ansible_collections.tandem.vllm.plugins.module_utils.smi import query as smi_query
from ansible_collections.tandem.vllm.plugins.module_utils.smi import table as smi_table
from ansible_collections.tandem.vllm.plugins.module_utils.smi import values
from ansible_collections.tandem.vllm.plugins.module_utils.smi import xml as smi_xml
from ansible_collections.tandem.vllm.plugins.module_utils.smi.values import BUS_ID, Facts, Reading

NOT_INSTALLED = "nvidia-smi is not installed"
NO_TEXT = "no text was given"
NOTHING = "the text holds no GPU and no message of nvidia-smi"
NO_GPU_LISTED = "nvidia-smi names the driver, but the text lists no GPU"

# Since driver 610 the header says "KMD Version" and "CUDA UMD Version".
DRIVER = re.compile(r"\b(?:driver|KMD) version\s*:\s*(\d[\w.]*)", re.IGNORECASE)
TOOL = re.compile(r"NVIDIA-SMI (?:version\s*: )?(\d[\d.]*)")
CUDA = re.compile(r"CUDA (?:UMD )?Version\s*:\s*(\d[\d.]*)")
NVML = re.compile(r"NVML (?:library )?version\s*:\s*(\d[\d.]*)", re.IGNORECASE)

# GPU 0: NVIDIA A10 (UUID: GPU-f15ae561-…)
LISTED = re.compile(r"\bGPU (?P<index>\d+): (?P<name>.*?) \(UUID: (?P<uuid>GPU-[^)\s]+|[^)]*)\)")
#   MIG 3g.48gb     Device  0: (UUID: MIG-51fa7c7a-…)
LISTED_MIG = re.compile(r"\bMIG (?P<profile>\S+)\s+Device\s+(?P<index>\d+): \(UUID: (?P<uuid>MIG-[^)\s]+)\)")
HANDLE = re.compile(
    r"Unable to determine the device handle for GPU\s*(?:(?P<index>\d+)\s*:\s*)?(?P<bus>" + BUS_ID + r")\s*:\s*\S",
    re.IGNORECASE,
)
INFOROM = re.compile(r"infoROM is corrupted at gpu (?P<bus>" + BUS_ID + r")", re.IGNORECASE)
ABSENT = re.compile(
    r"nvidia-smi['\"]?:? (?:command )?not found|command not found: nvidia-smi|nvidia-smi: No such file or directory|"
    r"\"nvidia-smi\": executable file not found|'nvidia-smi' is not recognized|The term 'nvidia-smi' is not recognized|"
    r"Command 'nvidia-smi' not found"
)
MESSAGE = re.compile(
    r"(?:Failed to initialize NVML|NVIDIA-SMI has failed because|NVIDIA-SMI couldn't find|No devices (?:were )?found|"
    r"Unable to determine the device handle|couldn't communicate with the NVIDIA driver|"
    r"Failed to (?:properly )?(?:shut ?down|query) NVML|GPU access blocked by the operating system).*",
    re.IGNORECASE,
)


def _listed(text: str) -> Reading:
    """What `nvidia-smi -L` lists."""
    reading = Reading()
    for line in text.split("\n"):
        found = LISTED.search(line)
        if found:
            reading.gpus.append(values.gpu_facts(found.groupdict()))
            continue
        device = LISTED_MIG.search(line)
        if device and reading.gpus:
            devices = reading.gpus[-1]["mig_devices"]
            devices.append(values.mig_device(int(device["index"]), device["uuid"], device["profile"]))
            # Only a GPU in MIG mode has such devices.
            reading.gpus[-1]["mig_mode"] = "enabled"
    return reading


def _messages(text: str) -> Reading:
    """The tool's own complaints, and the GPUs that it cannot address."""
    reading = Reading()
    for line in text.split("\n"):
        handle = HANDLE.search(line)
        if handle:
            words = {"bus_id": handle["bus"]}
            if handle["index"]:
                words["index"] = handle["index"]
            gpu = values.gpu_facts(words)
            values.mark(gpu, "lost", "handle")
            reading.gpus.append(gpu)
        rom = INFOROM.search(line)
        if rom:
            gpu = values.gpu_facts({"bus_id": rom["bus"]})
            values.mark(gpu, "ok", "infoROM")
            reading.gpus.append(gpu)
        message = MESSAGE.search(line)
        if message:
            reading.errors.append(message.group().strip())
        elif ABSENT.search(line):
            reading.errors.append(NOT_INSTALLED)
    return reading


def same_gpu(one: Facts, other: Facts) -> bool:
    """Whether two readings are of one GPU: by UUID, else by bus id, else by index where nothing contradicts."""
    for name, keyed in (("uuid", str), ("bus_id", values.bus_key)):
        if one[name] and other[name]:
            return bool(keyed(one[name]) == keyed(other[name]))
    return one["index"] is not None and one["index"] == other["index"]


def _same_device(one: Facts, other: Facts) -> bool:
    """Whether two readings are of one MIG device of a GPU."""
    return bool(one["uuid"] == other["uuid"] if one["uuid"] and other["uuid"] else one["index"] == other["index"])


def _fill(target: Facts, source: Facts) -> None:
    """Add what a later reading of the same thing knows; what it does not know stays."""
    for name, value in source.items():
        if value is not None and value != [] and name not in ("status", "faults", "mig_devices", "memory_unified"):
            target[name] = value


def merge_gpu(gpus: list[Facts], new: Facts) -> None:
    """Add a reading of a GPU to a list, or to the reading of the same GPU in it. The worst status counts."""
    for gpu in gpus:
        if same_gpu(gpu, new):
            _fill(gpu, {**new, "index": new["index"] if gpu["index"] is None else gpu["index"]})
            for device in new["mig_devices"]:
                known = next((d for d in gpu["mig_devices"] if _same_device(d, device)), None)
                if known is None:
                    gpu["mig_devices"].append(device)
                else:
                    _fill(known, device)
            gpu["memory_unified"] = (gpu["memory_unified"] or new["memory_unified"]) and gpu["memory_total_mib"] is None
            gpu["status"] = values.worse(gpu["status"], new["status"])
            gpu["faults"] += [name for name in new["faults"] if name not in gpu["faults"]]
            return
    gpus.append(new)


def merge_process(processes: list[Facts], new: Facts) -> None:
    """Add a reading of a process to a list, or to the reading of the same process on the same GPU in it."""
    for old in processes:
        apart = [name for name in ("gpu_index", "gpu_uuid") if None not in (old[name], new[name])]
        if old["pid"] == new["pid"] and old["pid"] is not None and all(old[name] == new[name] for name in apart):
            _fill(old, {name: value for name, value in new.items() if old[name] is None})
            return
    processes.append(new)


def name_gpus(gpus: Iterable[Facts], processes: Iterable[Facts]) -> None:
    """Give each process the index and the UUID of its GPU where it has only one of them."""
    for entry in processes:
        for gpu in gpus:
            by_uuid = entry["gpu_uuid"] is not None and (
                entry["gpu_uuid"] == gpu["uuid"] or entry["gpu_uuid"] in [d["uuid"] for d in gpu["mig_devices"]]
            )
            by_index = gpu["index"] is not None and entry["gpu_index"] == gpu["index"]
            if by_uuid or (entry["gpu_uuid"] is None and by_index):
                entry["gpu_index"] = gpu["index"]
                entry["gpu_uuid"] = entry["gpu_uuid"] or gpu["uuid"]


def _loose_reset(lines: Iterable[str], gpus: list[Facts]) -> None:
    """ "Pending : GPU requires reset" below a table: of the GPUs with faults, else of the one that was listed last."""
    if gpus and any("|" not in line and values.RESET.search(line) for line in lines):
        broken = [gpu for gpu in gpus if gpu["faults"]] or gpus[-1:]
        for gpu in broken:
            values.mark(gpu, "requires_reset", values.RESET_PENDING)


def parse(text: str) -> Reading:
    """What a text says: of each GPU all that its several outputs tell."""
    # The kernel's lines speak of GPUs as well, in other words.
    text = "\n".join(line for line in values.plain(text).split("\n") if "NVRM:" not in line)
    documents, rest = smi_xml.take_out(text)
    query, query_lines = smi_query.parse(rest)
    csv, csv_lines = smi_csv.parse(rest)
    loose = [line for number, line in enumerate(rest.split("\n")) if number not in query_lines | csv_lines]
    readings = [smi_xml.parse(document) for document in documents]
    readings += [query, csv, _listed(rest), smi_table.parse("\n".join(loose))]
    result = Reading()
    for reading in [*readings, _messages("\n".join(loose))]:
        for gpu in reading.gpus:
            merge_gpu(result.gpus, gpu)
        for process in reading.processes:
            merge_process(result.processes, process)
        result.errors += [line for line in reading.errors if line not in result.errors]
        result.driver = result.driver or reading.driver
        result.cuda = result.cuda or reading.cuda
        result.driver_model = result.driver_model or reading.driver_model
    _loose_reset(loose, result.gpus)
    name_gpus(result.gpus, result.processes)
    for name, pattern in (("driver", DRIVER), ("driver", TOOL), ("cuda", CUDA), ("nvml_library", NVML)):
        found = pattern.search(rest)
        if found and getattr(result, name) is None:
            setattr(result, name, found.group(1))
    return result


def reason(text: str, reading: Reading) -> str | None:
    """Why a text tells of no GPU: the tool's own line, or what is lacking; None when it lists a GPU and no error."""
    if reading.errors:
        return reading.errors[0]
    if any(gpu["status"] != "lost" for gpu in reading.gpus):
        return None
    if not text.strip():
        return NO_TEXT
    return NO_GPU_LISTED if reading.driver else NOTHING
