# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the GPUs of a host are as the contract says. One function a check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.gpu_host.check import (
    Finding,
    Host,
    Target,
    failed,
    listing,
    not_checked,
    not_needed,
    passed,
)

# What a nominal size in GiB may differ from the memory in MiB that the driver tells: ECC and firmware take some.
MEMORY_UNDER, MEMORY_OVER = 0.90, 1.05
MIG_DEVICES = "their UUIDs, as 'nvidia-smi -L' lists them"
COMPUTE_MODES = ("default", "exclusive_process", "e._process")


def gpu_count(host: Host) -> Finding:
    """Each GPU that the contract names by index or UUID is there."""
    names = [target for target in host.targets if not target.is_mig]
    if not names:
        return not_needed("only MIG devices are named")
    missing = [target.name for target in names if target.gpu is None]
    there = [target.name for target in names if target.gpu is not None]
    value = "%d of %d (%s)" % (len(there), len(names), listing(there) or "none")
    if not missing:
        return passed(value)
    if len(host.off_bus) >= len(missing):
        return not_checked(f"{value}: the others do not answer the driver")
    remedy = "Correct tandem_gpus to what 'nvidia-smi -L' lists on the node, or find out why the GPU is not there"
    listed = listing([f"{row.get('index')}: {row.get('uuid')}" for row in host.rows])
    return failed(value, remedy, wanted=f"{listing(missing)} must be among the GPUs that the node has: {listed}")


def gpu_model(host: Host) -> Finding:
    """The GPUs are of the model that the contract states, or of one model where it states none."""
    names = sorted({str(row["name"]) for row in host.used if row.get("name")})
    if not names:
        return not_checked("the names of the GPUs were not told")
    stated = host.node.gpu_model
    if not stated:
        if len(names) > 1:
            remedy = "Name GPUs of one model in tandem_gpus.ids, or accept it with gpu_host_accept: [gpu_model]"
            return failed(listing(names), remedy, wanted="GPUs that are used together must be of one model")
        return not_needed(f"not stated in the contract; found {names[0]}")
    others = [
        "GPU %s is %s" % (row.get("index"), row["name"])
        for row in host.used
        if row.get("name") and stated.lower() not in str(row["name"]).lower()
    ]
    if not others:
        return passed(listing(names))
    remedy = "Correct tandem_gpus.model in host_vars, or name other GPUs in tandem_gpus.ids"
    return failed(stated, remedy, wanted="must be in the name of each GPU, but " + listing(others))


def gpu_memory(host: Host) -> Finding:
    """Each GPU has the memory that the contract states."""
    stated = host.node.gpu_memory_gib
    sizes = {
        target.name: (target.mig or target.gpu or {}).get("memory_total_mib")
        for target in host.targets
        if target.gpu in host.used
    }
    known = {name: size for name, size in sizes.items() if size is not None}
    if not known:
        if any(row.get("memory_unified") for row in host.used):
            memory = host.system.get("memory_mib")
            return not_checked(
                "unified with the host's memory" + (" of %.1f GiB" % (memory / 1024) if memory is not None else "")
            )
        return not_checked("the driver does not tell the GPUs' memory")
    found = listing(sorted({"%.1f GiB" % (size / 1024) for size in known.values()}))
    if stated is None:
        return not_needed(f"not stated in the contract; found {found}")
    low, high = stated * 1024 * MEMORY_UNDER, stated * 1024 * MEMORY_OVER
    wrong = ["GPU %s has %.1f GiB" % (name, size / 1024) for name, size in known.items() if not low <= size <= high]
    if not wrong:
        return passed(found)
    remedy = "Correct tandem_gpus.memory_gib in host_vars, or name other GPUs in tandem_gpus.ids"
    return failed(f"{stated:g}", remedy, wanted="must be the memory of each GPU in GiB, but " + listing(wrong))


def gpu_memory_in_use(host: Host) -> Finding:
    """Nobody but this environment's containers holds memory of the GPUs."""
    limit, told, unknown, faults = host.settings.memory_in_use_mib, [], [], []
    holders: list[str] = []
    containers: list[str] = []
    for target in host.targets:
        if target.gpu is None or target.gpu not in host.used:
            continue
        processes = _processes(host, target.gpu)
        others = [p for p in processes if p.get("environment") != host.environment]
        ours = [p for p in processes if p.get("environment") == host.environment]
        used = (target.mig or target.gpu).get("memory_used_mib")
        if ours and any(p.get("memory_mib") is None for p in ours):
            told.append(f"GPU {target.name}: held by {ours[0].get('container')}")
            continue
        if used is not None:
            held = max(0, used - sum(p["memory_mib"] for p in ours))
        elif host.gpus.get("processes") is not None and all(p.get("memory_mib") is not None for p in others):
            held = sum(p["memory_mib"] for p in others)
        else:
            unknown.append(target.name)
            continue
        if held > limit:
            faults.append(f"{held} MiB on GPU {target.name}")
            holders += [_holder(p) for p in others]
            containers += [str(p["container"]) for p in others if p.get("container")]
        else:
            told.append(f"GPU {target.name}: {held} MiB")
    if faults:
        stop = "'docker stop %s'" % " ".join(sorted(set(containers))) if containers else "'kill' with their pids"
        remedy = f"Stop these processes on the node ({stop}), or name other GPUs in tandem_gpus.ids"
        if not holders:
            remedy = "Find the holder with 'fuser -v /dev/nvidia*' on the node and stop it, or reset the GPU"
        held_by = listing(dict.fromkeys(holders)) or "no process that nvidia-smi shows"
        return failed(listing(faults), remedy, wanted=_in_use_wanted(limit) + ", but they are held by " + held_by)
    if unknown:
        return not_checked(f"the memory in use of GPU {listing(unknown)} is not told")
    return passed(listing(told))


def _in_use_wanted(limit: int) -> str:
    return "others than this environment's replicas may hold at most %d MiB of a GPU" % limit


def _processes(host: Host, row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The processes that hold memory of a GPU."""
    return [
        p
        for p in host.gpus.get("processes") or ()
        if (p.get("gpu_uuid") and p["gpu_uuid"] == row.get("uuid"))
        or (p.get("gpu_index") is not None and p["gpu_index"] == row.get("index"))
    ]


def _holder(process: Mapping[str, Any]) -> str:
    memory = process.get("memory_mib")
    words = "pid %s %s" % (process.get("pid"), process.get("name") or "of unknown name")
    words += " with %d MiB" % memory if memory is not None else ""
    return words + (" in container %s" % process["container"] if process.get("container") else "")


def mig(host: Host) -> Finding:
    """Whole GPUs have MIG off; MIG devices that are named are there."""
    gone = [target.name for target in host.targets if target.is_mig and target.gpu is None]
    if gone:
        devices = [device for row in host.rows for device in row.get("mig_devices") or ()]
        if any(not device.get("uuid") for device in devices):
            return not_checked("the UUIDs of the MIG devices were not told")
        there = listing(_mig_names(host.rows)) or "none"
        remedy = "Correct tandem_gpus.ids to what 'nvidia-smi -L' lists on the node, or create the MIG devices again"
        return failed(listing(gone), remedy, wanted=f"must be among the node's MIG devices: {there}")
    split = [target for target in host.targets if _is_split(target)]
    if split:
        indices = ",".join(str(target.gpu["index"]) for target in split if target.gpu)
        rows = [target.gpu for target in split if target.gpu]
        names = listing(_mig_names(rows)) or MIG_DEVICES
        remedy = f"Run 'nvidia-smi -i {indices} -mig 0' on the node while nothing uses the GPU"
        if any(row.get("mig_devices") for row in rows):
            remedy += f", or name MIG devices in tandem_gpus.ids: {names}"
        return failed("on for GPU " + listing([target.name for target in split]), remedy)
    if not host.used:
        return not_checked("no GPU of tandem_gpus answers")
    if any(target.is_mig for target in host.targets):
        return passed("the MIG devices are there")
    return passed("off" if any(row.get("mig_mode") for row in host.used) else "these GPUs have none")


def _is_split(target: Target) -> bool:
    return bool(not target.is_mig and target.gpu and target.gpu.get("mig_mode") == "enabled")


def _mig_names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [str(device["uuid"]) for row in rows for device in row.get("mig_devices") or () if device.get("uuid")]


def compute_mode(host: Host) -> Finding:
    """Processes may use the GPUs."""
    modes = {str(row.get("index")): str(row["compute_mode"]) for row in host.used if row.get("compute_mode")}
    if not modes:
        return not_checked("the compute mode is not told")
    wrong = [index for index, mode in modes.items() if mode.lower().replace(" ", "_") not in COMPUTE_MODES]
    if not wrong:
        return passed(listing(sorted(set(modes.values()))))
    value = listing(f"{modes[index]} on GPU {index}" for index in wrong)
    return failed(value, "Run 'nvidia-smi -i %s -c DEFAULT' on the node" % ",".join(wrong))
