# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Puts together what is known of a host's GPUs: the result of the module gpu_info."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.gpu import docker_facts, driver_files, kernel_log
from ansible_collections.tandem.vllm.plugins.module_utils.smi import csv as smi_csv
from ansible_collections.tandem.vllm.plugins.module_utils.smi import text as smi_text
from ansible_collections.tandem.vllm.plugins.module_utils.smi import topology as smi_topology
from ansible_collections.tandem.vllm.plugins.module_utils.smi.values import Facts, plain


@dataclass
class Source:
    """All that was read or given. Texts: None where not read. The rest is None or empty where only texts were given.

    smi, reason: what nvidia-smi said, and why it said nothing where it does not say so itself.
    """

    smi: str = ""
    reason: str | None = None
    processes: str | None = None
    topology: str | None = None
    kernel_version: str | None = None
    kernel_log: str | None = None
    docker_info: str | None = None
    toolkit_version: str | None = None
    live: bool = False
    library_version: str | None = None
    pci_gpus: list[str] | None = None
    nvswitch: bool | None = None
    fabric_unit: Mapping[str, str] = field(default_factory=dict)
    cdi_specs: tuple[str, ...] = ()
    runtime_hook: bool | None = None
    runtime: bool | None = None
    dev_char_links: bool | None = None
    package_manager: str | None = None
    packages: list[dict[str, Any]] = field(default_factory=list)
    unattended: bool | None = None


def _fabric_manager(source: Source, gpus: list[Facts]) -> dict[str, Any]:
    """Whether a fabric manager is needed, there and running."""
    by_state = any(gpu["fabric_state"] for gpu in gpus)
    needed = True if by_state or source.nvswitch else (False if gpus or source.nvswitch is False else None)
    load, active = source.fabric_unit.get("LoadState"), source.fabric_unit.get("ActiveState")
    return {
        "needed": needed,
        "active": active == "active" if active else None,
        "installed": load not in ("not-found", "masked") if load else None,
        "version": driver_files.fabric_manager_version(source.packages),
    }


def _docker(source: Source) -> dict[str, Any]:
    """What is known of Docker; the CDI specifications on the disk fill in what it does not tell."""
    info = (
        docker_facts.unknown("not read") if source.docker_info is None else docker_facts.parse_info(source.docker_info)
    )
    devices, version = docker_facts.parse_specs(source.cdi_specs)
    # Docker tells its devices since 28.3 only.
    info["cdi_devices"] = info["cdi_devices"] or devices
    info["cdi_driver_version"] = version
    return info


def _toolkit(source: Source) -> dict[str, Any]:
    """What is known of the NVIDIA container toolkit."""
    version = driver_files.toolkit_version(source.toolkit_version) if source.toolkit_version else None
    installed: bool | None = True if version or source.runtime_hook or source.runtime else None
    if installed is None and source.live:
        installed = False
    return {
        "installed": installed,
        "version": version,
        "runtime_hook": source.runtime_hook,
        "runtime": source.runtime,
        "dev_char_links": source.dev_char_links,
    }


def _own_or_in(given: str | None, smi: str, mark: str) -> str | None:
    """A text of its own, or the one of nvidia-smi where people pasted both into one."""
    return given if given is not None or mark not in smi else smi


def gather(source: Source, containers: Mapping[int, tuple[str, str | None]] | None = None) -> dict[str, Any]:
    """The whole result. containers: pid -> name and environment of the container that owns it."""
    reading = smi_text.parse(source.smi)
    if source.processes:
        extra, _lines = smi_csv.parse(plain(source.processes), processes_only=True)
        for process in extra.processes:
            smi_text.merge_process(reading.processes, process)
        smi_text.name_gpus(reading.gpus, reading.processes)
    for process in reading.processes:
        process["container"], process["environment"] = (containers or {}).get(process["pid"], (None, None))
    listed = [gpu for gpu in reading.gpus if gpu["status"] != "lost"]
    available = bool(listed)
    log = _own_or_in(source.kernel_log, source.smi, "NVRM:")
    loaded = bool(source.kernel_version) if source.live or source.kernel_version is not None else None
    return {
        "available": available,
        "reason": (reading.errors[0] if reading.errors else None)
        or (None if available else source.reason)
        or smi_text.reason(source.smi, reading),
        "usable": available and all(gpu["status"] == "ok" for gpu in reading.gpus),
        "gpu_count": len(reading.gpus),
        "gpus": reading.gpus,
        "processes": reading.processes,
        "topology": smi_topology.parse(_own_or_in(source.topology, source.smi, "Affinity") or ""),
        "driver": reading.driver,
        "cuda": reading.cuda,
        "driver_model": reading.driver_model,
        "nvml_library": reading.nvml_library,
        "kernel_module": driver_files.kernel_module(source.kernel_version or log, loaded),
        "library_version": source.library_version,
        "pci_gpus": source.pci_gpus,
        "fabric_manager": _fabric_manager(source, reading.gpus),
        "kernel_log": kernel_log.parse(log),
        "docker": _docker(source),
        "toolkit": _toolkit(source),
        "packages": {
            "manager": source.package_manager,
            "driver": source.packages,
            "unattended": source.unattended,
        },
    }


def of_texts(texts: Mapping[str, str]) -> dict[str, Any]:
    """The whole result, of texts that were given: option of gpu_info (such as "smi_text") -> text."""
    smi = [texts[name] for name in ("smi_text", "smi_list_text") if name in texts]
    return gather(
        Source(
            smi="\n".join(smi),
            reason=None if smi else "no output of nvidia-smi was given",
            processes=texts.get("processes_text"),
            topology=texts.get("topology_text"),
            kernel_version=texts.get("kernel_version_text"),
            kernel_log=texts.get("kernel_log_text"),
            docker_info=texts.get("docker_info_text"),
            toolkit_version=texts.get("toolkit_version_text"),
        )
    )
