# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what `nvidia-smi -q` says, as text or XML, from a tree of its labels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ansible_collections.tandem.vllm.plugins.module_utils.smi import values
from ansible_collections.tandem.vllm.plugins.module_utils.smi.values import Facts, Words

# Where each field stands. XML and text have the same tree, most often with the same labels; drivers renamed some.
PATHS: dict[str, tuple[str, ...]] = {
    "uuid": ("uuid", "gpu_uuid"),
    "bus_id": ("pci/pci_bus_id", "pci/bus_id"),
    "name": ("product_name",),
    "memory_total": ("fb_memory_usage/total", "memory_usage/total"),
    "memory_used": ("fb_memory_usage/used", "memory_usage/used"),
    "ecc_mode": ("ecc_mode/current_ecc", "ecc_mode/current"),
    "remap_pending": ("remapped_rows/remapped_row_pending", "remapped_rows/pending"),
    "mig_mode": ("mig_mode/current_mig", "mig_mode/current"),
    "mig_pending": ("mig_mode/pending_mig", "mig_mode/pending"),
    "compute_mode": ("compute_mode",),
    "persistence": ("persistence_mode",),
    "perf": ("performance_state",),
    "fan": ("fan_speed",),
    "temp_c": ("temperature/gpu_temp", "temperature/gpu_current_temp", "temperature/gpu"),
    "power_w": (
        "gpu_power_readings/average_power_draw",
        "gpu_power_readings/power_draw",
        "power_readings/power_draw",
        "gpu_power_readings/instant_power_draw",
        "gpu_power_readings/instantaneous_power_draw",
        "module_power_readings/average_power_draw",
    ),
    "power_limit_w": (
        "gpu_power_readings/current_power_limit",
        "power_readings/enforced_power_limit",
        "power_readings/power_limit",
        "module_power_readings/current_power_limit",
    ),
    "util_pct": ("utilization/gpu_util", "utilization/gpu"),
    "fabric_state": ("fabric/state",),
    "fabric_status": ("fabric/status",),
    "recovery_action": ("gpu_recovery_action",),
}
DRIVER_MODEL = ("driver_model/current_dm", "driver_model/current")


@dataclass
class Node:
    """A label of `nvidia-smi -q`. key: the label in lower case with underscores. value: "" for a heading."""

    key: str
    value: str = ""
    children: list[Node] = field(default_factory=list)

    def at(self, path: str) -> Node | None:
        """The first node at a path such as "pci/bus_id"."""
        key, _slash, rest = path.partition("/")
        for child in self.children:
            if child.key == key:
                found = child.at(rest) if rest else child
                if found:
                    return found
        return None

    def leaves(self, path: str = "") -> Iterator[tuple[str, str]]:
        """Path and value of everything below."""
        for child in self.children:
            below = path + "/" + child.key if path else child.key
            if child.value:
                yield below, child.value
            yield from child.leaves(below)


def key(label: str) -> str:
    """A label as a key: "FB Memory Usage" is fb_memory_usage."""
    return re.sub(r"[^a-z0-9]+", "_", label.lower()).strip("_")


def _value(node: Node, paths: tuple[str, ...]) -> str | None:
    """The first value at one of the paths that is known; else the first that is there at all."""
    found = [leaf.value for leaf in (node.at(path) for path in paths) if leaf and leaf.value]
    return next((value for value in found if values.known(value)), found[0] if found else None)


def _ecc_count(gpu: Node, corrected: bool) -> str | None:
    """Sum of the volatile error counters, as text; None when none is told."""
    errors = gpu.at("ecc_errors/volatile")
    if errors is None:
        return None
    counts = []
    for path, value in errors.leaves():
        # Before Ampere: single and double bit errors, with totals of their own.
        if path.startswith(("single_bit/", "double_bit/")):
            wanted = path == ("single_bit/total" if corrected else "double_bit/total")
        else:
            name = path.rpartition("/")[2]
            wanted = "uncorrectable" not in name and "correctable" in name if corrected else "uncorrectable" in name
        count = values.integer(value)
        if wanted and count is not None:
            counts.append(count)
    return str(sum(counts)) if counts else None


def _mig_devices(gpu: Node) -> list[Facts]:
    """The MIG devices of a GPU. XML has them below mig_devices, text one heading a device."""
    nodes = [n for parent in (gpu, gpu.at("mig_devices")) if parent for n in parent.children if n.key == "mig_device"]
    return [
        values.mig_device(
            values.integer(_value(node, ("index",))),
            values.known(_value(node, ("uuid", "mig_uuid"))),
            values.known(_value(node, ("profile", "name"))),
            (
                values.integer(_value(node, ("gpu_instance_id",))),
                values.integer(_value(node, ("compute_instance_id",))),
            ),
            (
                values.integer(_value(node, ("fb_memory_usage/total", "shared_fb_memory_usage/total"))),
                values.integer(_value(node, ("fb_memory_usage/used", "shared_fb_memory_usage/used"))),
            ),
        )
        for node in nodes
    ]


def _processes(gpu: Node, index: int | None, uuid: str | None) -> list[Facts]:
    """The processes of a GPU. XML has one process_info each, text a "Process ID" with the rest below it."""
    found = []
    for parent in (gpu.at("processes"), gpu.at("compute_processes")):
        for node in parent.children if parent else ():
            if node.key not in ("process_info", "process_id"):
                continue
            pid = node.value if node.key == "process_id" else _value(node, ("pid",))
            name = _value(node, ("process_name", "name"))
            memory = _value(node, ("used_memory", "used_gpu_memory"))
            found.append(values.process(index, uuid, pid, _value(node, ("type",)), name, memory))
    return found


def read_gpu(node: Node, index: int | None, bus_id: str | None) -> tuple[Facts, list[Facts], str | None]:
    """One GPU, its processes and the driver model (WDDM, TCC or None). bus_id: of the heading."""
    words: Words = {} if index is None else {"index": str(index)}
    if bus_id:
        words["bus_id"] = bus_id
    for name, paths in PATHS.items():
        value = _value(node, paths)
        if value is not None and (name != "bus_id" or values.known(value)):
            words[name] = value
    for name, corrected in (("ecc_corrected", True), ("ecc_uncorrected", False)):
        count = _ecc_count(node, corrected)
        if count is not None:
            words[name] = count
    told = {path for paths in PATHS.values() for path in paths}
    others = {path: value for path, value in node.leaves() if path not in told and not path.startswith("processes/")}
    gpu = values.gpu_facts(words, others)
    gpu["mig_devices"] = _mig_devices(node)
    return gpu, _processes(node, index, gpu["uuid"]), values.known(_value(node, DRIVER_MODEL))
