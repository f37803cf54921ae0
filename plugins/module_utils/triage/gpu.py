# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures of drivers, GPUs, the container toolkit and Docker's way to them, and the words that tell of each.

Spellings are those of nvidia-smi, NVML, CUDA, PyTorch, vLLM, the kernel module, libnvidia-container, the container
toolkit, Docker, containerd and Podman from 2016 on. In phrases blanks mean nothing (see text.phrase).
Texts are in tests/fixtures/triage/gpu, a file for each failure; a test holds that every phrase has one.
"""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.gpu import cuda_requirement
from ansible_collections.tandem.vllm.plugins.module_utils.triage.signature import (
    HIGH,
    LOW,
    MEDIUM,
    Case,
    Family,
    Kind,
    Signature,
)

VERSION = r"(\d+\.\d+(?:\.\d+)?)"
DRIVER_AND_CUDA = r"(?:Driver|KMD) Version\s*:\s*[\d.]+\s*CUDA (?:UMD )?Version\s*:\s*(\d+\.\d+)"
BUS_ID = re.compile(r"(?<![0-9a-f])((?:[0-9a-f]{8}|[0-9a-f]{4}):[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?)", re.IGNORECASE)
OFF_BUS = re.compile(r"^\)?:\s*79\b|fallen off the bus|is lost|unknown error|not found", re.IGNORECASE)
REQUIREMENT = r"((?:(?:cuda|brand|driver|arch)[<>=!]+[\w.]+,?)(?: ?,?(?:cuda|brand|driver|arch)[<>=!]+[\w.]+)*)"
# In text without white space, which a terminal's line ends do not disturb.
AMOUNT = r"([\d.]+(?:[KMGT]iB|bytes))"
OUT_OF_MEMORY = re.compile(
    rf"totalcapac\w+?tyof{AMOUNT}ofwhich{AMOUNT}isfree\.(?P<said>.{{0,400}}?)"
    rf"Oftheallocatedmemory{AMOUNT}isallocatedbyPyTorch,and{AMOUNT}isreserved"
)
OUT_OF_MEMORY_OLD = re.compile(
    rf"{AMOUNT}totalcapacity;{AMOUNT}alreadyallocated;{AMOUNT}free;{AMOUNT}(?:reserved|cached)"
)
GIB = {"bytes": 2.0**-30, "KiB": 2.0**-20, "MiB": 2.0**-10, "GiB": 1.0, "TiB": 1024.0}
# What CUDA, NCCL and the framework take beside their own accounts, in GiB and as a share of the GPU.
UNACCOUNTED_GIB, UNACCOUNTED_SHARE = 2.0, 0.15
PODMAN = r"Emulate Docker CLI using podman|podman (?:run|create|start|compose|version)|podman:|setting up CDI devices:"
NOT_THERE = r"(?:executable file not found|no such file or directory|(?:command )?not found)"
ROOTLESS = r"rootless|/\.config/docker/|/run/user/\d+/docker"
NVML_UNKNOWN = (
    r"Failed to initialize NVML: Unknown Error",
    r"NVMLError_Unknown: Unknown Error",
    r"initialize NVML: Unknown Error",
    r"NVML_ERROR_UNKNOWN",
)
UNSUPPORTED_COMBINATION = (
    r"unsupported display driver / cuda driver combination",
    r"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    r"cudaErrorSystemDriverMismatch",
)
FORWARD_COMPATIBILITY = (
    r"forward compatibility was attempted on non[- ]?supported (?:HW|hardware)",
    r"CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
    r"cudaErrorCompatNotSupportedOnDevice",
)
FABRIC_NOT_RUNNING = (
    r"nvidia-fabricmanager\.service.{0,120}?Active: (?:inactive|failed)",
    r"Unit nvidia-fabricmanager\.service could not be found",
    r"nvidia-fabricmanager\.service: Failed with result",
    r"Failed to start (?:nvidia-fabricmanager\.service|NVIDIA fabric manager service)",
)
# An NVSwitch that is there; the service's own messages name NVSwitch on machines without one.
NVSWITCH = (
    r"/dev/nvidia-nvswitch\d|nvidia-nvswitch\d+:|\[[\w ]*NVSwitch\]|Number of NVSwitches:? ?[1-9]"
    r"|fabric(?:\.state)?:? ?(?:state)? ?:? ?(?:In Progress|Not Started)"
)


# Facts: what a text says besides.


def _driver(case: Case) -> str | None:
    return case.versions.get("driver") or case.text.fact(rf"(?:Driver|KMD) Version\s*:\s*{VERSION}")


def _cuda(case: Case) -> str | None:
    """The newest CUDA version that the driver runs."""
    if case.versions.get("cuda"):
        return case.versions["cuda"]
    told = case.text.fact(DRIVER_AND_CUDA)
    if told:
        return told
    number = case.text.fact(r"driver on your system is too old \(found version\s*(\d{4,5})\)")
    return "%d.%d" % (int(number) // 1000, int(number) % 1000 // 10) if number else None


def _requirement(case: Case) -> str | None:
    """All that an image requires of the driver, as its NVIDIA_REQUIRE_CUDA has it."""
    text = case.text
    return cuda_requirement.effective(
        text.fact(rf"(?:NVIDIA_REQUIRE_CUDA=\"?|--require=){REQUIREMENT}"),
        text.fact(r"(?<!\w)CUDA_VERSION\"?[=:]\s*\"?(\d+\.\d+)"),
    )


def _required(case: Case) -> str | None:
    """What the image requires, as "cuda>=12.8"."""
    condition = case.text.fact(r"unsatisfied condition:\s*((?:cuda|driver|brand|arch)\s*(?:>=|<=|!=|=|>|<)\s*[\w.]+)")
    condition = re.sub(r"\s", "", condition).rstrip(".") if condition else None
    if condition and condition.startswith("cuda"):
        return condition
    # The condition that failed may be of an alternative only: the requirement's first one is the CUDA version.
    cuda = re.match(r"cuda>=[\d.]+", _requirement(case) or "")
    return cuda.group().rstrip(".") if cuda else condition


def _kernel_version(case: Case) -> str | None:
    """Version of the loaded kernel module, of /proc/driver/nvidia/version or the kernel log."""
    return case.text.fact(
        rf"(?:NVRM version:|loading) NVIDIA UNIX (?:Open Kernel Module for \S+|\S+ Kernel Module)\s+{VERSION}"
    ) or case.text.fact(rf"this kernel module has the version {VERSION}")


def _libraries(case: Case) -> list[str]:
    """Versions of the driver's libraries in the system's folders, not of those that an image brings."""
    return case.text.facts(rf"/lib(?:32|64)?/(?:[\w-]+/)*lib(?:cuda|nvidia-ml)\.so\.{VERSION}")


def _mismatch_facts(case: Case) -> dict[str, Any]:
    return {
        "nvml_library": case.text.fact(rf"NVML library version:\s*{VERSION}"),
        "client": case.text.fact(rf"the client .{{0,60}}?has the version {VERSION}"),
        "kernel_module": _kernel_version(case),
    }


def _image_facts(case: Case) -> dict[str, Any]:
    required, cuda = _required(case), _cuda(case)
    wanted = re.match(r"cuda>=(1[1-9][\d.]*)", required or "")
    return {
        "required": required,
        "driver": _driver(case) or case.text.fact(rf"version {VERSION} was detected and compatibility mode"),
        "cuda": cuda,
        "driver_wanted": cuda_requirement.driver_for(wanted.group(1)) if wanted else None,
    }


def _bus_facts(case: Case) -> dict[str, Any]:
    """Bus ids of the GPUs that are gone, as written."""
    ids = list(BUS_ID.finditer(case.text.flat))
    ends = [match.start() for match in ids[1:]] + [len(case.text.flat)]
    gone = [
        match.group(1)
        for match, end in zip(ids, ends)
        if OFF_BUS.search(case.text.flat[match.end() : min(end, match.end() + 160)])
    ]
    gone += case.text.facts(r"\b([0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) [^:]{0,40}: NVIDIA Corporation[^()]{0,90}\(rev ff\)")
    # The kernel log names one GPU with and without its function.
    gone = [bus_id for bus_id in dict.fromkeys(gone) if bus_id + ".0" not in gone]
    return {"bus_ids": gone, "driver": _driver(case) or _kernel_version(case)}


def _xid_facts(case: Case) -> dict[str, Any]:
    codes = case.text.facts(r"Xid \(?(?:PCI:)?[0-9a-f:.]+\)?:\s*(\d+)")
    ids = case.text.facts(r"(?:Xid \(?PCI:|GPU ?)((?:[0-9a-f]{8}|[0-9a-f]{4}):[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?)")
    return {"bus_ids": ids, "xid": [int(code) for code in codes]}


def _memory_facts(case: Case) -> dict[str, Any]:
    start = r"Free memory on device[^(]{0,20}\("
    numbers = {
        "free_gib": start + r"([\d.]+)/",
        "total_gib": start + r"[\d.]+/([\d.]+)",
        "wanted_gib": r"less than desired GPU memory utilization \([\d.]+,\s*([\d.]+)",
        "gpu_memory_utilization": r"less than desired GPU memory utilization \(([\d.]+)",
    }
    facts: dict[str, Any] = {}
    for name, pattern in numbers.items():
        value = case.text.fact(pattern)
        facts[name] = float(value) if value else None
    table = r"\| +\d+ +(?:N/A +N/A +|\d+ +\d+ +)?(\d+ +(?:C|G|C\+G|M\+C) +[^|]{1,90}?\d+MiB) +\|"
    facts["holders"] = [" ".join(row.split()) for row in case.text.facts(table)]
    facts["holder_pids"] = [int(pid) for pid in case.text.facts(r"Process (\d+) has [\d.]+ \w+ memory in use")]
    return facts


def _engine(case: Case) -> str | None:
    if case.text.has(PODMAN):
        return "podman"
    if case.text.has(r"Error response from daemon|dockerd|docker: |docker compose"):
        return "docker"
    return "containerd" if case.text.has(r"nerdctl|containerd") else None


def _cdi_facts(case: Case) -> dict[str, Any]:
    return {
        "engine": _engine(case),
        "rootless": case.text.has(ROOTLESS) or None,
        "devices": case.text.facts(r"((?:[a-z][\w-]*\.)*nvidia\.com/\w+=[\w:.-]*\w)"),
        "stale_library": case.text.fact(r"(/[\w./-]*lib[\w-]+\.so\.\d+\.[\d.]*\d)['\"]?: no such file"),
    }


def _toolkit_facts(case: Case) -> dict[str, Any]:
    return {
        "engine": _engine(case),
        "driver_name": case.text.fact(r"could not select device driver \"(\w*)\""),
        "capabilities": case.text.facts(r"with capabilities: (\[\[.*?\]\])"),
        "missing": case.text.facts(
            r"((?:/[\w/.-]*/)?nvidia-(?:container-runtime-hook|container-runtime|container-toolkit|container-cli|ctk|cdi-hook))"
            r"['\"]?: (?:executable file not found|no such file|command not found|not found)"
        ),
    }


def _runtime_facts(case: Case) -> dict[str, Any]:
    return {
        "engine": _engine(case),
        "rootless": case.text.has(ROOTLESS) or None,
        "runtimes": case.text.fact(r"Runtimes: ((?:[\w.-]+ ){0,7}[\w.-]+) (?:Default Runtime|Init Binary)"),
    }


def _fabric_facts(case: Case) -> dict[str, Any]:
    return {
        "driver": _driver(case) or case.text.fact(rf"match with (?:the )?driver version {VERSION}"),
        "fabric_manager": case.text.fact(rf"interface version {VERSION}"),
    }


def _module_facts(case: Case) -> dict[str, Any]:
    return {"kernel": case.text.fact(r"not found in directory /lib/modules/(\S+)")}


def _compat_facts(case: Case) -> dict[str, Any]:
    return {
        "driver": _driver(case) or _kernel_version(case),
        "cuda": _cuda(case),
        "compat_library": case.text.fact(rf"compat/libcuda\.so\.{VERSION}"),
    }


def _uuid_facts(case: Case) -> dict[str, Any]:
    return {"uuids": case.text.facts(r"((?:MIG-)?(?:GPU|MIG)-[0-9a-f][0-9a-f-]+(?:/\d+/\d+)?)")}


def _lost_facts(case: Case) -> dict[str, Any]:
    return {"driver": _driver(case), "host_gpus": len(case.text.facts(r"GPU (\d+): [^()]+ \(UUID: GPU-")) or None}


# Rules on numbers.


def _gib(amount: str) -> float:
    unit = amount.lstrip("0123456789.")
    return float(amount[: -len(unit)]) * GIB[unit]


def others_hold_memory(case: Case) -> bool:
    """Whether an out-of-memory message leaves much of the GPU that neither is free nor belongs to the process."""
    for match in OUT_OF_MEMORY.finditer(case.text.squeezed):
        total, free, _said, allocated, reserved = match.groups()
        own = re.search(rf"thisprocesshas{AMOUNT}", match.group("said"))
        mine = max(_gib(allocated) + _gib(reserved), _gib(own.group(1)) if own else 0)
        if _held(_gib(total), _gib(free), mine):
            return True
    for match in OUT_OF_MEMORY_OLD.finditer(case.text.squeezed):
        total_gib, allocated_gib, free_gib, reserved_gib = map(_gib, match.groups())
        if _held(total_gib, free_gib, max(allocated_gib, reserved_gib)):
            return True
    return False


def _held(total: float, free: float, mine: float) -> bool:
    return total - free - mine > max(UNACCOUNTED_GIB, UNACCOUNTED_SHARE * total)


def _library_differs(case: Case) -> bool:
    kernel = _kernel_version(case)
    return bool(kernel) and any(library != kernel for library in _libraries(case))


def _driver_is_enough(case: Case) -> bool:
    """Whether the driver runs the image's CUDA version by itself."""
    cuda, required = _cuda(case), re.match(r"cuda>=([\d.]+)", _requirement(case) or "")
    if not cuda or not required:
        return False
    return cuda_requirement.version_numbers(cuda) >= cuda_requirement.version_numbers(required.group(1))[:2]


def _compat_image(case: Case) -> bool:
    """Whether the image puts its own CUDA libraries first, as vLLM's does from 0.15 on, or the driver needs none."""
    vllm = case.versions.get("vllm") or case.text.fact(r"vllm[\w/-]*[: =]+v?(\d+\.\d+)") or "0"
    return cuda_requirement.version_numbers(vllm) >= (0, 15) or _driver_is_enough(case)


def _requirement_unmet(case: Case) -> bool:
    """Whether the text holds an image's requirement and a driver that is surely too old for it."""
    requirement, cuda = _requirement(case), _cuda(case)
    if not requirement or not cuda:
        return False
    return cuda_requirement.judge(requirement, cuda_requirement.Offer(cuda, _driver(case))).satisfied is False


HOST_CHECKS = ("nvidia-smi -L", "cat /proc/driver/nvidia/version", "journalctl --dmesg --boot | grep -E 'NVRM|Xid'")
NO_DEVICES_CHECKS = (
    "journalctl --dmesg --boot | grep NVRM",
    "lspci -nnk -d 10de:",
    "modinfo --field license nvidia",
    "nvidia-smi -q | grep -i 'recovery action'",
)

KINDS = (
    Kind(
        "kernel_module_not_loaded",
        "The NVIDIA kernel module is not loaded, or the driver is not installed on the host: install it, or build it "
        "for the running kernel (headers, DKMS, Secure Boot key), and load it. Reinstalling Docker or the toolkit "
        "does not help.",
        "modprobe nvidia; journalctl --dmesg --boot --no-pager | grep -iE 'nvrm|nvidia|nouveau' | tail -n 20",
        because_of=("driver_needs_open_kernel_module", "driver_library_mismatch", "gpu_fell_off_bus"),
        facts=_module_facts,
    ),
    Kind(
        "driver_library_mismatch",
        "The driver's user-space libraries were upgraded (often by unattended upgrades) under an older kernel module "
        "that is still loaded: reboot, or unload and load the nvidia modules with no GPU in use, then recreate the "
        "containers started before. Hold the driver packages, so that it does not come again.",
        "cat /proc/driver/nvidia/version; ls /usr/lib/*-linux-gnu/libnvidia-ml.so.*.* /usr/lib64/libnvidia-ml.so.*.*; "
        "grep -h nvidia /var/log/apt/history.log | tail -n 5",
        facts=_mismatch_facts,
    ),
    Kind(
        "driver_needs_open_kernel_module",
        "This GPU generation works with the open kernel modules only: remove the proprietary one (nvidia-dkms-XXX), "
        "install the open flavour of the same driver (nvidia-driver-XXX-open, nvidia-dkms-XXX-open) and reboot.",
        "journalctl --dmesg --boot | grep NVRM; modinfo --field license nvidia",
        facts=_bus_facts,
    ),
    Kind(
        "driver_too_old_for_image",
        "The host's driver is too old for the CUDA version of the image: upgrade the driver, or use an image built "
        "for the CUDA version that nvidia-smi shows. The CUDA toolkit (nvcc) on the host is irrelevant, and forward "
        "compatibility works on data-centre GPUs only.",
        "nvidia-smi --query-gpu=driver_version,name --format=csv",
        because_of=("driver_library_mismatch", "kernel_module_not_loaded"),
        facts=_image_facts,
    ),
    Kind(
        "cuda_compat_library_conflict",
        "CUDA compatibility libraries in the image come before the host's newer driver libraries: put the host's "
        "first with LD_LIBRARY_PATH=/usr/local/nvidia/lib64:/usr/local/nvidia/lib:/usr/lib/x86_64-linux-gnu, or "
        "start the container with --gpus. Do not downgrade the driver.",
        "docker exec CONTAINER sh -c 'ldconfig -p | grep libcuda.so; ls /usr/local/cuda*/compat; cat "
        "/etc/ld.so.conf.d/*'",
        because_of=("driver_library_mismatch",),
        facts=_compat_facts,
    ),
    Kind(
        "fabric_manager_missing",
        "NVSwitches connect the GPUs, and CUDA starts only once the fabric manager has set these up: install and "
        "start nvidia-fabricmanager on the host in exactly the driver's version (and nvlsm on Blackwell). nvidia-smi "
        "looks normal without it.",
        "systemctl status nvidia-fabricmanager.service; nvidia-smi -q | grep -A 2 -i fabric; cat "
        "/proc/driver/nvidia/version",
        facts=_fabric_facts,
    ),
    Kind(
        "gpu_fell_off_bus",
        "A GPU is gone from the PCIe bus: hardware. Drain the node, look for Xid 79 and PCIe errors in the kernel "
        "log, check seating, power and cooling, and power-cycle. The other GPUs may be hidden by it as well: compare "
        "their number with the inventory.",
        "journalctl --dmesg --boot --no-pager | grep -iE 'xid|fallen off|pcieport|AER'; lspci -d 10de:",
        facts=_bus_facts,
    ),
    Kind(
        "gpu_requires_reset",
        "A GPU is listed but unusable until it is reset: drain the node, stop everything that uses the GPU, reset "
        "it, and power-cycle the machine if that does not help.",
        "nvidia-smi -q | grep -iE 'recovery action|reset required|pending'; nvidia-smi --gpu-reset -i INDEX",
        because_of=("gpu_fell_off_bus",),
        facts=_xid_facts,
    ),
    Kind(
        "gpu_memory_in_use",
        "Other processes hold memory of this GPU, often an engine that did not end: stop them and wait until the "
        "memory is free, or lower gpu_memory_utilization where sharing is meant.",
        "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory,name --format=csv",
        because_of=("gpu_requires_reset", "gpu_fell_off_bus"),
        facts=_memory_facts,
    ),
    Kind(
        "nvidia_container_toolkit_missing",
        "The NVIDIA Container Toolkit is not installed on the host, or Docker was not restarted since: install "
        "nvidia-container-toolkit, run nvidia-ctk runtime configure --runtime=docker, restart Docker. Renaming the "
        "driver in the compose file changes nothing.",
        "nvidia-ctk --version; command -v nvidia-container-runtime nvidia-container-runtime-hook nvidia-container-cli",
        facts=_toolkit_facts,
    ),
    Kind(
        "docker_daemon_without_nvidia_runtime",
        "This Docker daemon knows no runtime named nvidia: register it in its daemon.json (rootless: "
        "~/.config/docker/daemon.json) and restart the daemon, or ask for GPUs with --gpus or CDI instead of the "
        "runtime.",
        "docker info --format '{{json .Runtimes}}'; nvidia-ctk runtime configure --runtime=docker --dry-run",
        because_of=("nvidia_container_toolkit_missing",),
        facts=_runtime_facts,
    ),
    Kind(
        "docker_cdi_feature_disabled",
        'CDI is off in this Docker daemon: set "features": {"cdi": true} (and cdi-spec-dirs) in the daemon.json of '
        "this very daemon (rootless: ~/.config/docker/daemon.json) and restart it. Docker has CDI from 25 on, on by "
        "default from 28.2 on.",
        "docker info --format '{{.ServerVersion}} {{json .CDISpecDirs}}'; cat /etc/docker/daemon.json",
        facts=_cdi_facts,
    ),
    Kind(
        "cdi_spec_missing",
        "No CDI specification names this GPU device, or it is one of an earlier driver: write it with nvidia-ctk cdi "
        "generate (nvidia-cdi-refresh does it at each boot), and compare the directories that the engine reads with "
        "where it is.",
        "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml && nvidia-ctk cdi list",
        because_of=(
            "cdi_spec_generation_failed",
            "nvidia_container_toolkit_missing",
            "kernel_module_not_loaded",
            "driver_library_mismatch",
        ),
        facts=_cdi_facts,
    ),
    Kind(
        "cdi_spec_generation_failed",
        "The CDI specification could not be made, because driver or NVML on the host are not usable; the engine's "
        "message hides the real error. Run nvidia-smi and nvidia-ctk cdi generate on the host to see it.",
        "nvidia-smi -L; nvidia-ctk --debug cdi generate > /dev/null",
        because_of=(
            "kernel_module_not_loaded",
            "driver_library_mismatch",
            "driver_needs_open_kernel_module",
            "gpu_fell_off_bus",
            "gpu_requires_reset",
        ),
        facts=_cdi_facts,
    ),
    Kind(
        "container_lost_gpu_cgroup",
        "The host is fine, but the container lost the right to its GPU devices, as after systemctl daemon-reload "
        "with the systemd cgroup driver: recreate the container. CDI, the cgroupfs driver or links under /dev/char "
        "(nvidia-ctk system create-dev-char-symlinks) prevent it; do not reinstall the driver.",
        "nvidia-smi -L; ls -l /dev/char | grep nvidia; docker info --format '{{.CgroupDriver}}'",
        because_of=("driver_library_mismatch", "kernel_module_not_loaded", "gpu_fell_off_bus", "gpu_requires_reset"),
        facts=_lost_facts,
    ),
    Kind(
        "cuda_visible_devices_uuid",
        "vLLM takes the entries of CUDA_VISIBLE_DEVICES as numbers and fails on a UUID: give the GPU's index (0 for "
        "the only GPU in a container), choose GPUs by UUID with the container's device request instead, or use a "
        "release that maps UUIDs.",
        "nvidia-smi --query-gpu=index,uuid --format=csv",
        facts=_uuid_facts,
    ),
    Kind(
        "cuda_visible_devices_mig_uuid",
        "vLLM takes the entries of CUDA_VISIBLE_DEVICES as numbers and fails on a MIG UUID: within an allocation or "
        "container that holds this one slice set CUDA_VISIBLE_DEVICES=0, or use a release with vllm#41850. The "
        "parent GPU's index is not the slice, and the driver is not at fault.",
        "nvidia-smi -L; env CUDA_VISIBLE_DEVICES=0 python3 -c 'import torch; print(torch.cuda.get_device_name(0))'",
        facts=_uuid_facts,
    ),
)

SIGNATURES = (
    # The driver: kernel module and libraries
    Signature(
        "driver_library_mismatch",
        (
            r"Driver ?/ ?library version mismatch",
            r"LIB_RM_VERSION_MISMATCH|LibRmVersionMismatch",
            r"API mismatch: the client",
            r"kernel version [\d.]+ does not match DSO version [\d.]+",
        ),
    ),
    Signature("driver_library_mismatch", UNSUPPORTED_COMBINATION, HIGH, when=_library_differs),
    Signature(
        "driver_library_mismatch",
        UNSUPPORTED_COMBINATION,
        MEDIUM,
        needs=(r"unattended-upgrade|^Upgrade:.*nvidia|(?:Unpacking|Setting up) (?:lib)?nvidia-(?:driver|compute)",),
        checks=("cat /proc/driver/nvidia/version", "docker exec CONTAINER sh -c 'ldconfig -p | grep libcuda.so'"),
    ),
    Signature(
        "kernel_module_not_loaded",
        (
            r"NVIDIA-SMI has failed because it couldn'*t communicate with the NVIDIA driver",
            r"nvml error: driver not loaded",
            r"NVML: (?:ERROR_)?Driver_?Not_?Loaded",
            r"NVML_ERROR_DRIVER_NOT_LOADED|ERROR_DRIVER_NOT_LOADED|NVMLError_DriverNotLoaded",
            r"modprobe: FATAL: Module nvidia[\w-]* not found",
            r"modprobe: ERROR: could not insert '?nvidia",
            r"could not (?:insert|find) module (?:by name=)?'?nvidia[\w.-]*'?",
            r"/proc/driver/nvidia/version'?: No such file or directory",
            r"NVIDIA probe routine was not called for \d+ device",
        ),
    ),
    Signature(
        "kernel_module_not_loaded",
        (
            r"None of the NVIDIA (?:graphics adapters|devices) were initialized",
            r"No NVIDIA (?:graphics adapter|GPU|devices?) (?:found|probed)",
        ),
        MEDIUM,
        checks=("journalctl --dmesg --boot | grep NVRM", "lspci -nnk -d 10de:"),
        advice="The kernel module found no GPU that it can drive, and was not loaded: the kernel log says why "
        "(another driver such as nouveau or vfio-pci holds the GPU, this driver release does not know it, or "
        "the machine has none).",
    ),
    Signature(
        "kernel_module_not_loaded",
        (
            r"initialization error: driver (?:rpc )?error:",
            r"initialization error: cuda error: (?:no cuda-capable device|unknown)",
        ),
        MEDIUM,
        checks=HOST_CHECKS,
        advice="The driver on the host did not answer the container toolkit: run nvidia-smi on the host. If it "
        "fails, load or repair the driver; if it is slow, enable persistence (nvidia-persistenced); if it "
        "hangs, look for Xid lines.",
        next_command="time nvidia-smi -L; journalctl --dmesg --boot --no-pager | grep -E 'NVRM|Xid' | tail -n 20",
    ),
    Signature(
        "kernel_module_not_loaded",
        (
            r"(?:load library failed|error while loading shared libraries): libnvidia-ml\.so\.1",
            r"load library failed: libcuda\.so\.1",
        ),
        MEDIUM,
        checks=("cat /proc/driver/nvidia/version", "ldconfig -p | grep -E 'libnvidia-ml|libcuda'", "docker context ls"),
        advice="The driver's libraries are not on the host where the container runs: install the driver there (the "
        "toolkit does not bring it), or look at which machine Docker uses (Docker Desktop and snap see other "
        "libraries).",
        next_command="nvidia-smi -L; ldconfig -p | grep -E 'libnvidia-ml|libcuda'",
    ),
    Signature(
        "kernel_module_not_loaded",
        (
            r"couldn'*t find libnvidia-ml\.so library in your system",
            r"nvidia-smi: (?:command )?not found",
            r"Found no NVIDIA driver on your system",
        ),
        LOW,
        checks=("cat /proc/driver/nvidia/version", "docker info --format '{{json .Runtimes}}'"),
        last_resort=True,
    ),
    Signature(
        "driver_needs_open_kernel_module",
        (r"requires? (?:the )?(?:use of )?(?:the )?(?:NVIDIA )?open (?:GPU )?kernel modules?",),
    ),
    Signature(
        "driver_needs_open_kernel_module",
        (r"No devices were found", r"RmInitAdapter failed"),
        MEDIUM,
        # GPUs from Blackwell on, with the proprietary module.
        needs=(
            r"RTX ?50\d0|RTX PRO \d{4}|\bGB(?:10|20\d|100|200)\b|B[23]00|sm_1[0-9]\d|10de:2[9b-f][0-9a-f]{2}",
            r"NVIDIA UNIX x86_64 Kernel Module|NVIDIA UNIX aarch64 Kernel Module|license: ?NVIDIA",
        ),
        checks=NO_DEVICES_CHECKS,
    ),
    Signature(
        "driver_needs_open_kernel_module",
        (r"No devices were found", r"RmInitAdapter failed"),
        LOW,
        unless=(r"NVIDIA UNIX Open Kernel Module", r"not supported by open"),
        checks=NO_DEVICES_CHECKS,
        advice="The driver is loaded but has no GPU to show. The kernel log tells which of the causes it is: a GPU "
        "that needs the open kernel modules, one off the bus, one bound to vfio-pci, or a machine without a "
        "GPU.",
        next_command="journalctl --dmesg --boot --no-pager | grep NVRM; lspci -nnk -d 10de:",
        last_resort=True,
    ),
    # The driver and the image
    Signature(
        "cuda_compat_library_conflict",
        UNSUPPORTED_COMBINATION,
        HIGH,
        needs=(r"/compat\b|cuda-compat|compatibility mode|forward compat|LD_LIBRARY_PATH=|ld\.so\.conf",),
    ),
    Signature("cuda_compat_library_conflict", UNSUPPORTED_COMBINATION, HIGH, when=_compat_image),
    Signature("cuda_compat_library_conflict", FORWARD_COMPATIBILITY, HIGH, when=_driver_is_enough),
    Signature(
        "cuda_compat_library_conflict",
        UNSUPPORTED_COMBINATION,
        MEDIUM,
        checks=(
            "cat /proc/driver/nvidia/version",
            "docker exec CONTAINER sh -c 'ldconfig -p | grep libcuda.so; echo $LD_LIBRARY_PATH; ls "
            "/usr/local/cuda*/compat'",
            "nvidia-smi -L",
        ),
    ),
    Signature(
        "driver_too_old_for_image",
        (
            r"unsatisfied condition: (?:cuda|driver|brand|arch)",
            r"NVIDIA driver on your system is too old",
            r"version \d[\d.]+ was detected and compatibility mode is UNAVAILABLE",
        ),
    ),
    Signature("driver_too_old_for_image", FORWARD_COMPATIBILITY, HIGH, when=lambda case: not _driver_is_enough(case)),
    Signature(
        "driver_too_old_for_image",
        (
            r"CUDA driver version is insufficient for CUDA runtime version",
            r"cudaErrorInsufficientDriver",
            r"PTX was compiled with an unsupported toolchain",
            r"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        ),
        MEDIUM,
        checks=("nvidia-smi", "docker image inspect --format '{{json .Config.Env}}' IMAGE"),
    ),
    Signature(
        "driver_too_old_for_image", (r"NVIDIA_REQUIRE_CUDA=",), MEDIUM, when=_requirement_unmet, checks=("nvidia-smi",)
    ),
    # GPUs
    Signature(
        "fabric_manager_missing",
        (
            r"system not yet initialized",
            r"CUDA_ERROR_SYSTEM_NOT_READY|cudaErrorSystemNotReady",
            r"fabric manager .{0,60}version .{0,60}(?:don'?t|doesn'?t|does not|do not) match with",
        ),
    ),
    Signature("fabric_manager_missing", FABRIC_NOT_RUNNING, HIGH, needs=(NVSWITCH,)),
    Signature(
        "fabric_manager_missing",
        (r"fabric ?(?:\.state|state)? ?:? ?(?:state)? ?:? ?(?:In Progress|Not Started)",),
        MEDIUM,
        checks=("systemctl is-active nvidia-fabricmanager.service", "nvidia-smi -q | grep -A 2 -i fabric"),
    ),
    Signature(
        "gpu_fell_off_bus",
        (
            r"fallen off the bus",
            r"Xid \(?(?:PCI:)?[0-9a-f:.]+\)?: 79(?!\d)",
            r"GPU is lost",
            r"NVML_ERROR_GPU_IS_LOST|ERROR_GPU_IS_LOST|NVMLError_GpuIsLost",
            r"Unable to determine the device handle for GPU ?\d*:? ?[0-9a-f:.]+: (?:Unknown Error|No such device)",
            r"NVIDIA Corporation .{0,120}\(rev ff\)",
        ),
    ),
    Signature(
        "gpu_fell_off_bus",
        (r"Unable to determine the device handle for GPU ?\d*:? ?[0-9a-f:.]+:? ?Not Found",),
        MEDIUM,
        checks=("lspci -d 10de:", "journalctl --dmesg --boot | grep -E 'NVRM|Xid'"),
    ),
    Signature(
        "gpu_requires_reset",
        (
            r"GPU requires reset",
            r"recovery action changed from .{0,40} to 0x[1-9a-f]",
            r"GPU Recovery Action:? ?(?:GPU )?(?:Reset|Reboot|Node Reboot|Drain)",
            r"<gpu_recovery_action>(?:GPU )?(?:Reset|Reboot|Node Reboot|Drain)",
            r"Reset Required: Yes|<reset_required>Yes",
            r"NV_ERR_RESET_REQUIRED|NVML_ERROR_RESET_REQUIRED|ERROR_RESET_REQUIRED|NVMLError_ResetRequired",
            r"GPU marked for reset",
        ),
    ),
    Signature(
        "gpu_requires_reset",
        (
            # ERR! anywhere in the table but in the fan's place, which is the first of its row.
            r"^\|.+ERR!",
            # Uncorrectable memory errors, row remapping failed, the GPU's own firmware hangs.
            r"Xid \(?(?:PCI:)?[0-9a-f:.]+\)?: (?:48|64|95|119|120|140)(?!\d)",
            r"uncorrectable ECC error encountered",
            r"Remapped Rows .{0,160}?Pending: Yes",
        ),
        MEDIUM,
        checks=(
            "nvidia-smi -q | grep -iE 'recovery action|reset required|pending'",
            "journalctl --dmesg --boot | grep Xid",
        ),
    ),
    Signature(
        "gpu_memory_in_use",
        (
            r"Free memory on device .{0,20}\([\d.]+/[\d.]+ ?GiB\) on startup is less than desired",
            r"GPU memory was not properly cleaned up before initializing",
        ),
    ),
    Signature("gpu_memory_in_use", (r"out of memory",), HIGH, when=others_hold_memory),
    Signature(
        "gpu_memory_in_use",
        (r"CUDA-capable devices?(?:\(s\))? (?:is/)?are busy or unavailable", r"cudaErrorDevicesUnavailable"),
        HIGH,
        needs=(r"Exclusive_Process|E\. Process|Exclusive_Thread",),
        advice="The GPU is in exclusive mode and another process has it: stop that process, or set the compute mode "
        "to Default.",
        next_command="nvidia-smi --query-gpu=index,compute_mode --format=csv; "
        "nvidia-smi --query-compute-apps=gpu_uuid,pid,name --format=csv",
    ),
    Signature(
        "gpu_memory_in_use",
        (
            r"CUDA-capable devices?(?:\(s\))? (?:is/)?are busy or unavailable",
            r"cudaErrorDevicesUnavailable",
            r"Error in memory profiling\. Initial free memory",
        ),
        MEDIUM,
        checks=(
            "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory,name --format=csv",
            "nvidia-smi --query-gpu=index,compute_mode,mig.mode.current --format=csv",
            "nvidia-smi -q | grep -i 'recovery action'",
        ),
    ),
    # The container toolkit and Docker
    Signature(
        "docker_cdi_feature_disabled",
        (r"""could not select device driver ["']+cdi["']+ with capabilities""",),
    ),
    Signature(
        "docker_cdi_feature_disabled",
        (r"""error gathering device information while adding custom device ["']*[\w.]*nvidia\.com/""",),
        advice="This Docker takes the CDI name for a path: before 25 it has no CDI, and before 28.2 only with "
        '"features": {"cdi": true} in daemon.json. Upgrade Docker, or use --gpus.',
    ),
    Signature(
        "docker_cdi_feature_disabled",
        (r"""\bstat ["']*[\w.]*nvidia\.com/\w+=\S*?: no such file""",),
        MEDIUM,
        checks=("podman version", "docker version"),
        advice="This engine takes the CDI name for a path: Podman has CDI from 4.1 on, Docker from 25 on. Upgrade it.",
        next_command="podman version || docker version",
    ),
    Signature(
        "nvidia_container_toolkit_missing",
        (
            r"""could not select device driver ["']*(?:nvidia)?["']* with capabilities""",
            rf"""nvidia-container-(?:runtime-hook|toolkit|cli|runtime)["']*:? ?{NOT_THERE}""",
            r"couldn'*t find binary nvidia-container-cli",
            rf"""(?:nvidia-ctk|nvidia-cdi-hook)["']*: {NOT_THERE}""",
            r"Unable to locate package nvidia-container-toolkit",
        ),
    ),
    Signature(
        "nvidia_container_toolkit_missing",
        (r"The NVIDIA Driver was not detected\. GPU functionality will not be available",),
        LOW,
        checks=("nvidia-ctk --version", "docker info --format '{{json .Runtimes}}'", "nvidia-smi -L"),
        advice="The container was started without GPUs: ask for them (--gpus, CDI), with the toolkit installed on "
        "the host.",
        last_resort=True,
    ),
    Signature(
        "docker_daemon_without_nvidia_runtime",
        (
            r"""runtime "?nvidia"? not found""",
            r"""OCI runtime "nvidia" not found""",
        ),
        HIGH,
        needs=(PODMAN,),
        advice="Podman knows no runtime named nvidia, and needs none: drop it and ask for the GPU by CDI "
        "(--device nvidia.com/gpu=all) with a specification made by nvidia-ctk cdi generate.",
        next_command="nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml && nvidia-ctk cdi list",
    ),
    Signature(
        "docker_daemon_without_nvidia_runtime",
        (r"unknown or invalid runtime name: ?[\"']*nvidia", r"Unknown runtime specified ?[\"']*nvidia"),
        HIGH,
        needs=(ROOTLESS,),
        next_command="nvidia-ctk runtime configure --runtime=docker --config=$HOME/.config/docker/daemon.json "
        "&& systemctl --user restart docker",
    ),
    Signature(
        "docker_daemon_without_nvidia_runtime",
        (
            r"(?:unknown or )?invalid runtime name: ?[\"']*nvidia",
            r"Unknown runtime specified ?[\"']*nvidia",
            r"""runtime "?nvidia"? not found""",
            r"no runtime for \"?nvidia\"? is configured",
            r"RuntimeHandler \"?nvidia\"? not supported",
        ),
    ),
    Signature(
        "docker_daemon_without_nvidia_runtime",
        (r"exec: [\"']*nvidia-smi[\"']*: executable file not found",),
        LOW,
        checks=("docker info --format '{{json .Runtimes}}'", "nvidia-ctk --version", "nvidia-smi -L"),
        advice="The container got no GPU: it was started without a GPU request, or the runtime that serves it is not "
        "set up.",
        last_resort=True,
    ),
    Signature(
        "cdi_spec_generation_failed",
        (
            r"unresolvable CDI devices runtime\.nvidia\.com/",
            r"failed to (?:generate|get|create|construct) (?:automatic |in-memory )?(?:a )?(?:device )?CDI spec",
            r"failed to create device CDI specs",
            r"nvidia-cdi-refresh\.service: (?:Failed with result|Main process exited, code=exited, status=[1-9])",
            r"symbol lookup error: nvidia-ctk",
        ),
    ),
    Signature(
        "cdi_spec_missing",
        (
            r"unresolvable CDI devices (?!runtime\.)(?:[\w-]+\.)*nvidia\.com/",
            r"Error: setting up CDI devices",
            r"no CDI devices found",
        ),
        HIGH,
        needs=(PODMAN,),
        unless=(r"unresolvable CDI devices runtime\.",),
        advice="The docker command is Podman here, and it finds no CDI specification for the GPU: write it with "
        "nvidia-ctk cdi generate (nvidia-cdi-refresh does it at each boot) into a directory that Podman reads "
        "(--cdi-spec-dir). Docker's daemon.json is irrelevant.",
    ),
    Signature(
        "cdi_spec_missing",
        (
            r"unresolvable CDI devices (?!runtime\.)(?:[\w-]+\.)*nvidia\.com/",
            r"failed to discover GPU vendor from CDI",
            r"no known GPU vendor found",
            r"Found 0 CDI devices",
            r"CDI device .{0,20}nvidia\.com/\S{1,60} not found",
        ),
    ),
    Signature(
        "cdi_spec_missing",
        (
            r"failed to fulfil mount request: open /\S*lib(?:cuda|nvidia|\w*_nvidia)[\w-]*\.so\.\d[\d.]+: no such file",
            r"cannot stat '?/\S*lib(?:cuda|nvidia|\w*_nvidia)[\w-]*\.so\.\d[\d.]+'?: No such file",
            r"statfs /\S*lib(?:cuda|nvidia|\w*_nvidia)[\w-]*\.so\.\d[\d.]+: no such file",
        ),
        HIGH,
        advice="The CDI specification names files of an earlier driver: write it anew after each change of the driver "
        "(nvidia-cdi-refresh does it), then recreate the container.",
    ),
    Signature(
        "cdi_spec_missing",
        (
            r"CDI device injection failed",
            r"failed to inject CDI devices",
            r"cdi\.k8s\.io.{0,80}(?:fail|error|unresolvable)",
        ),
        MEDIUM,
        unless=(r"unresolvable CDI devices",),
        checks=("nvidia-ctk cdi list", "ls -l /etc/cdi /var/run/cdi", "nvidia-smi -L"),
    ),
    Signature(
        "container_lost_gpu_cgroup",
        NVML_UNKNOWN,
        HIGH,
        needs=(
            r"GPU \d+: .{3,60}\(UUID: GPU-|NVIDIA-SMI \d+\.\d|daemon-reload|^Reloading(?: requested.*)?\.|/dev/char/195"
            r"|c 195:\* m|Operation not permitted",
        ),
    ),
    Signature(
        "container_lost_gpu_cgroup",
        (
            r"""/dev/nvidia(?:\d|ctl|-uvm)["']?(?: for reading)?: Operation not permitted""",
            r"Couldn't stat device /dev/char/195:",
        ),
        MEDIUM,
        checks=("nvidia-smi -L", "ls -l /dev/char | grep nvidia"),
    ),
    Signature(
        "container_lost_gpu_cgroup",
        NVML_UNKNOWN,
        MEDIUM,
        checks=(
            "nvidia-smi -L",
            "docker exec CONTAINER nvidia-smi -L",
            "docker info --format '{{.CgroupDriver}} {{.CgroupVersion}}'",
            "journalctl --boot | grep -E 'systemd.*Reloading' | tail -n 3",
        ),
    ),
    Signature(
        "container_lost_gpu_cgroup",
        (
            r"Failed to initialize NVML: Insufficient Permissions",
            r"CUDA unknown error - this may be due to an incorrectly set up environment",
            r"Error 999: unknown error",
        ),
        LOW,
        checks=(
            "nvidia-smi -L",
            "docker exec CONTAINER nvidia-smi -L",
            "ls -l /dev/nvidia-uvm /dev/nvidiactl",
            "lsmod | grep nvidia_uvm",
        ),
        advice="CUDA cannot open the GPU's devices. If nvidia-smi works on the host and not in the container, "
        "recreate the container; if it works in both, load nvidia_uvm on the host (nvidia-modprobe -u -c 0).",
        last_resort=True,
    ),
    # The engine
    Signature(
        "cuda_visible_devices_mig_uuid",
        (r"""invalid literal for int\(\) with base 10: b?["']*MIG-""",),
    ),
    Signature(
        "cuda_visible_devices_uuid",
        (r"""invalid literal for int\(\) with base 10: b?["']*GPU-""",),
    ),
    Signature(
        "cuda_visible_devices_mig_uuid",
        (r"Model architectures .{0,90} failed to be inspected",),
        MEDIUM,
        needs=(r"CUDA_VISIBLE_DEVICES[\"']?[=:] ?[\"']*MIG-",),
        checks=("docker logs CONTAINER 2>&1 | grep 'invalid literal for int'",),
    ),
    Signature(
        "cuda_visible_devices_uuid",
        (r"Model architectures .{0,90} failed to be inspected",),
        MEDIUM,
        needs=(r"CUDA_VISIBLE_DEVICES[\"']?[=:] ?[\"']*GPU-",),
        checks=("docker logs CONTAINER 2>&1 | grep 'invalid literal for int'",),
    ),
)

FAMILY = Family("gpu", KINDS, SIGNATURES)
