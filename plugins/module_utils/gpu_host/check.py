# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the checks of a GPU host share: their results, what they are given, and how a node's GPUs are found in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.gpu.cuda_requirement import version_numbers
from ansible_collections.tandem.vllm.plugins.module_utils.placement import Node
from ansible_collections.tandem.vllm.plugins.module_utils.problems import Problem

PASSED, FAILED, ACCEPTED = "passed", "failed", "accepted"
NOT_CHECKED, NOT_NEEDED = "not_checked", "not_needed"
STATES = (PASSED, FAILED, ACCEPTED, NOT_CHECKED, NOT_NEEDED)

BUS_ID = re.compile(r"(?<![0-9a-f])([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\b", re.IGNORECASE)
# What the driver says of a GPU that no longer answers, in nvidia-smi or in the kernel log.
OFF_THE_BUS = re.compile(
    r"f[ae]ll(?:en)? off the bus|GPU is lost|GPU_IS_LOST|lost from the bus"
    r"|Unable to determine the device handle|RmInitAdapter failed",
    re.IGNORECASE,
)
XID_OFF_THE_BUS = 79
OPEN_MODULE = re.compile(r"requires? use of the NVIDIA open|open (?:gpu )?kernel modules", re.IGNORECASE)
MISMATCH = re.compile(r"version mismatch|API mismatch", re.IGNORECASE)


@dataclass(frozen=True)
class Check:
    """One fact of a host, judged.

    state: of STATES; accepted is a failure that the inventory accepts. variable: as the user knows it, after the host's
    name; value: as found, or why it was not checked; wanted; remedy: what to do next; evidence: a line that shows it.
    """

    id: str
    state: str
    variable: str
    value: str
    wanted: str
    remedy: str = ""
    evidence: str = ""

    @property
    def message(self) -> str:
        """The check as an error message words it."""
        value = f"{self.value} ({self.evidence})" if self.evidence and self.evidence not in self.value else self.value
        return str(Problem(self.variable, value, self.wanted, self.remedy))

    def to_dict(self) -> dict[str, str]:
        """The fields, and the message where the check failed ("" otherwise)."""
        return {**asdict(self), "message": self.message if self.state in (FAILED, ACCEPTED) else ""}


@dataclass(frozen=True)
class Finding:
    """What a check function answers; wanted and variable only where they differ from what the check's rule says."""

    state: str
    value: str
    remedy: str = ""
    evidence: str = ""
    wanted: str = ""
    variable: str = ""


def passed(value: str, evidence: str = "") -> Finding:
    """The fact is as it must be."""
    return Finding(PASSED, value, evidence=evidence)


def failed(value: str, remedy: str, evidence: str = "", wanted: str = "", variable: str = "") -> Finding:
    """The fact is not as it must be."""
    return Finding(FAILED, value, remedy, evidence, wanted, variable)


def not_checked(reason: str) -> Finding:
    """The fact could not be read, or what it rests on failed in a check of its own."""
    return Finding(NOT_CHECKED, reason)


def not_needed(reason: str) -> Finding:
    """Nothing depends on the fact on this host."""
    return Finding(NOT_NEEDED, reason)


@dataclass(frozen=True)
class Settings:
    """How strict the checks are.

    accept: ids of checks whose failure is accepted. memory_in_use_mib: GPU memory in MiB that others may hold.
    nofile: open files that a container must be allowed. clock_tolerance_s: seconds between hosts' clocks.
    """

    accept: tuple[str, ...] = ()
    memory_in_use_mib: int = 1024
    nofile: int = 8192
    clock_tolerance_s: float = 2.0


@dataclass(frozen=True)
class Target:
    """One name of tandem_gpus and what was found for it. gpu, mig: entries of gpu_info's lists; None: not there."""

    name: str
    gpu: Mapping[str, Any] | None = None
    mig: Mapping[str, Any] | None = None

    @property
    def is_mig(self) -> bool:
        """Whether the name is that of a MIG device: a UUID, or GPU and device index as 0:1."""
        return self.name.upper().startswith("MIG-") or ":" in self.name


@dataclass(frozen=True)
class Host:
    """A node and what was measured on it.

    gpus: gpu_info's return; system: host_info's; image: image_requirement_info's; {} where it was not read.
    seen: gpu_visibility's return by the container's name; empty where none was started.
    models: paths of the models it serves. rank_group: one of its replicas spans several nodes.
    offsets: seconds by which each host's clock is ahead of the control node's.
    """

    name: str
    node: Node
    environment: str
    gpus: Mapping[str, Any] = field(default_factory=dict)
    system: Mapping[str, Any] = field(default_factory=dict)
    image: Mapping[str, Any] = field(default_factory=dict)
    seen: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    models: tuple[str, ...] = ()
    rank_group: bool = False
    offsets: tuple[float, ...] = ()
    settings: Settings = field(default_factory=Settings)

    def section(self, name: str) -> Mapping[str, Any]:
        """One of the mappings in gpu_info's return; {} where it is not there."""
        found = self.gpus.get(name)
        return found if isinstance(found, Mapping) else {}

    @property
    def cdi(self) -> bool:
        """Whether containers get their GPUs by CDI."""
        return self.node.gpu_access == "cdi"

    @property
    def rows(self) -> Sequence[Mapping[str, Any]]:
        """The GPUs that the driver lists, in its order."""
        return self.gpus.get("gpus") or ()

    @property
    def silent(self) -> str | None:
        """Why nothing can be said of single GPUs; None where the driver answers."""
        if not self.gpus:
            return "gpu_info told nothing"
        return None if self.gpus.get("available") else "the driver does not answer"

    @property
    def driver(self) -> str | None:
        """Version of the driver that is loaded."""
        version: str | None = self.section("kernel_module").get("version") or self.gpus.get("driver")
        return version

    @property
    def library(self) -> str | None:
        """Version of the user-space library that the next container gets."""
        version: str | None = self.gpus.get("library_version") or self.gpus.get("nvml_library")
        return version

    @property
    def mismatch(self) -> bool:
        """Whether kernel module and library are of different versions, by their numbers or by what nvidia-smi says."""
        if self.driver and self.library and not same_version(self.driver, self.library):
            return True
        return bool(self.silent and MISMATCH.search(str(self.gpus.get("reason") or "")))

    @property
    def needs_open_module(self) -> str:
        """The line that says that the GPUs do not answer for want of the open kernel modules; "" where none says so."""
        faults = map(str, self.section("kernel_log").get("faults") or ())
        return next((line for line in faults if self.silent and OPEN_MODULE.search(line)), "")

    @property
    def targets(self) -> list[Target]:
        """Each name of tandem_gpus with what was found for it."""
        return [self._target(name) for name in self.node.gpus]

    @property
    def used(self) -> list[Mapping[str, Any]]:
        """The GPUs of tandem_gpus that answer, each once."""
        out: list[Mapping[str, Any]] = []
        for target in self.targets:
            if target.gpu is not None and target.gpu.get("status") != "lost" and target.gpu not in out:
                out.append(target.gpu)
        return out

    def _target(self, name: str) -> Target:
        for row in self.rows:
            if name == str(row.get("index")) or name.lower() == str(row.get("uuid")).lower():
                return Target(name, row)
            for mig in row.get("mig_devices") or ():
                if name.lower() == str(mig.get("uuid")).lower() or name == f"{row.get('index')}:{mig.get('index')}":
                    return Target(name, row, mig)
        return Target(name)

    @property
    def off_bus(self) -> dict[str, str]:
        """GPUs that do not answer though they are or were there: bus id ("?" where not told) -> the line that says so.

        A GPU that fell off earlier and answers now is not among them.
        """
        if self.mismatch or self.needs_open_module or not self.gpus:
            return {}
        answering = {bus_id(row.get("bus_id")) for row in self.rows if row.get("status") != "lost"}
        found = {bus_id(row.get("bus_id")) or "?": "" for row in self.rows if row.get("status") == "lost"}
        if not self.silent:
            found.update({bus: "" for bus in map(bus_id, self.gpus.get("pci_gpus") or ()) if bus not in answering})
        for line in self.off_bus_lines:
            bus = bus_id(line)
            if bus and bus not in answering:
                found[bus] = found.get(bus) or line
            elif not bus and (found or self.silent):
                found = {known: said or line for known, said in found.items()} or {"?": line}
        return found

    @property
    def off_bus_lines(self) -> list[str]:
        """Lines of nvidia-smi and of the kernel log since boot that tell of GPUs that do not answer."""
        log = self.section("kernel_log")
        lines = [str(xid.get("line")) for xid in log.get("xid") or () if xid.get("code") == XID_OFF_THE_BUS]
        said = [str(self.gpus.get("reason") or ""), *map(str, log.get("faults") or ())]
        return [*(line for line in said if OFF_THE_BUS.search(line)), *lines]


def bus_id(text: Any) -> str:
    """The PCI address in a text, as 0000:3b:00, whatever the length of the domain; "" where there is none."""
    match = BUS_ID.search(str(text or ""))
    return "%04x:%s:%s" % (int(match[1], 16), match[2].lower(), match[3].lower()) if match else ""


def same_version(one: str, other: str) -> bool:
    """Whether two versions agree as far as both go: 580.173 and 580.173.02 do."""
    return all(a == b for a, b in zip(version_numbers(one), version_numbers(other)))


def listing(names: Iterable[Any]) -> str:
    """Names in a row, as a sentence holds them."""
    return ", ".join(map(str, names))
