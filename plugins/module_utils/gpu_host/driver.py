# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the driver of a host and what belongs to it are as they must be. One function a check."""

from __future__ import annotations

import re

from ansible_collections.tandem.vllm.plugins.module_utils.gpu import cuda_requirement
from ansible_collections.tandem.vllm.plugins.module_utils.gpu_host.check import (
    Finding,
    Host,
    bus_id,
    failed,
    listing,
    not_checked,
    not_needed,
    passed,
    same_version,
)

# Errors after which a GPU has to be reset, by NVIDIA's catalogue of Xid errors: double-bit ECC, failed row remapping,
# uncontained ECC, GSP timeouts.
XID_RESET = (48, 64, 95, 119, 120)
# "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)": the last one of a GPU counts.
XID_RECOVERY = 154
RECOVERY_ACTION = re.compile(r"changed from .* to \S+ \(([^)]*)\)")
RESET = "With nothing using it, 'nvidia-smi --gpu-reset -i %s' on the node, or reboot the node"


def driver_loaded(host: Host) -> Finding:
    """The driver is loaded and answers. Where a check of its own says why it does not answer, this one passes."""
    module = host.section("kernel_module")
    reason = str(host.gpus.get("reason") or "nvidia-smi tells no GPU").rstrip(".")
    if not host.gpus:
        return not_checked("gpu_info told nothing")
    version = host.driver or "of unknown version"
    if not host.silent:
        return passed(" ".join(filter(None, [version, module.get("flavour")])))
    if module.get("loaded") is not False and (host.mismatch or host.off_bus):
        return passed(f"{version}, the kernel module is loaded")
    line = host.needs_open_module
    if line:
        remedy = "Install the driver with the open kernel modules in place of the proprietary ones, and reboot the node"
        return failed("these GPUs need the open kernel modules", remedy, line)
    if module.get("loaded"):
        faults = list(map(str, host.section("kernel_log").get("faults") or ()))
        remedy = "Run 'nvidia-smi' and 'dmesg | grep NVRM' on the node, install what is missing, or reboot the node"
        return failed(f"kernel module {version}, but nvidia-smi says: {reason}", remedy, faults[-1] if faults else "")
    if host.gpus.get("pci_gpus") == []:
        remedy = "Take the host out of tandem_nodes, or put the GPUs in"
        return failed(f"not loaded, and no NVIDIA GPU is on the PCI bus: {reason}", remedy)
    value = "not loaded" if module.get("loaded") is False else "no answer"
    return failed(f"{value}: {reason}", "Install the NVIDIA driver on the node, or 'modprobe nvidia' there")


def driver_matches_library(host: Host) -> Finding:
    """Kernel module and user-space library have one version, so that the next container can start."""
    if not host.mismatch:
        if not host.driver:
            return not_checked("the version of the kernel module was not read")
        if host.library:
            return passed(host.library)
        if host.silent:
            return not_checked("the version of the library was not read")
        return passed(f"{host.driver}, as nvidia-smi answers")
    remedy = (
        "Reboot the node, or unload and load the nvidia modules while nothing uses a GPU; "
        "then hold the driver packages: containers that run now do not start again before that"
    )
    value = host.library or "another version than the kernel module"
    evidence = str(host.gpus.get("reason") or "") if host.silent else ""
    wanted = f"must be {host.driver}, the version of the loaded kernel module" if host.driver else ""
    return failed(value, remedy, evidence, wanted)


def gpu_on_bus(host: Host) -> Finding:
    """No GPU has stopped answering the driver."""
    off = host.off_bus
    if off:
        words = listing([bus if bus != "?" else "a GPU whose address is not told" for bus in off])
        remedy = (
            "Read 'dmesg | grep -i nvrm' on the node; power the node off and on, then check seating, power and "
            "cooling of the GPU. One that is given to a virtual machine: gpu_host_accept: [gpu_on_bus]"
        )
        return failed(f"no answer from {words}", remedy, next(filter(None, off.values()), ""))
    if host.silent:
        return not_checked(host.silent)
    value = "%d answer" % len(host.rows)
    if host.off_bus_lines:
        return passed(value + "; one fell off earlier since boot", host.off_bus_lines[-1])
    return passed(value if host.gpus.get("pci_gpus") is not None else value + "; the bus itself was not read")


def gpu_reset(host: Host) -> Finding:
    """No GPU that is used needs a reset."""
    for row in host.used:
        index, faults = row.get("index"), listing(row.get("faults") or ())
        if row.get("status") in ("requires_reset", "error"):
            value = "GPU %s %s" % (index, "requires a reset" if row["status"] == "requires_reset" else "is in error")
            return failed(value, RESET % index, faults)
        if row.get("remap_pending"):
            return failed(f"GPU {index} has a row remapping pending", RESET % index)
        line = _reset_line(host, bus_id(row.get("bus_id")))
        if line:
            remedy = RESET % index + ". When that was done since: gpu_host_accept: [gpu_reset]"
            return failed(f"GPU {index} reported an error that needs a reset", remedy, line)
    value = "no GPU needs one"
    return passed(value if host.section("kernel_log").get("read") else value + "; the kernel log was not read")


def _reset_line(host: Host, bus: str) -> str:
    """The last line of the kernel log since boot that asks for a reset of a GPU; "" where there is none."""
    line = ""
    for xid in host.section("kernel_log").get("xid") or ():
        said = str(xid.get("line"))
        if bus_id(xid.get("bus_id")) != bus:
            continue
        if xid.get("code") in XID_RESET:
            line = said
        action = RECOVERY_ACTION.search(said)
        if xid.get("code") == XID_RECOVERY and action:
            line = "" if action[1] == "None" else said
    return line


def fabric_manager(host: Host) -> Finding:
    """Where GPUs are joined by NVSwitch, the fabric manager runs in the driver's version and has set the fabric up."""
    facts = host.section("fabric_manager")
    if host.mismatch:
        return not_checked("kernel module and library have different versions")
    if facts.get("needed") is None:
        return not_checked("whether the GPUs are joined by NVSwitch was not read")
    if not facts["needed"]:
        return not_needed("no NVSwitch")
    states = {
        " ".join(str(row[key]) for key in ("fabric_state", "fabric_status") if row.get(key))
        for row in host.used
        if row.get("fabric_state")
    }
    ready = {state for state in states if state in ("Completed", "Completed Success")}
    version, start = facts.get("version"), "'systemctl enable --now nvidia-fabricmanager' on the node"
    if facts.get("installed") is False:
        if states and states == ready:
            return passed("the fabric is set up; its manager runs outside of this host")
        package = f"nvidia-fabricmanager {host.driver}" if host.driver else "nvidia-fabricmanager"
        return failed("not installed", f"Install {package}, then {start}")
    if version and host.driver and not same_version(version, host.driver):
        remedy = f"Install nvidia-fabricmanager {host.driver} and restart it while nothing uses a GPU"
        return failed(version, remedy, wanted=f"must be {host.driver}, the version of the driver")
    if facts.get("active") is False:
        return failed("not running", f"Run {start}; 'journalctl -u nvidia-fabricmanager' says why it ended")
    if states - ready:
        remedy = "Read 'journalctl -u nvidia-fabricmanager' on the node, then restart it while nothing uses a GPU"
        return failed("fabric state " + listing(sorted(states - ready)), remedy)
    if facts.get("active") is None and not states:
        return not_checked("whether it runs was not read")
    return passed("active" + (f", {version}" if version else ""))


def image_cuda(host: Host) -> Finding:
    """The driver satisfies what the image requires of it."""
    image = host.image
    if not image.get("found"):
        return not_checked(str(image.get("reason") or "what the image requires was not read"))
    text = cuda_requirement.effective(image.get("cuda_requirement"), image.get("cuda_version"))
    if text is None:
        return passed("the image requires nothing")
    if image.get("requirement_disabled"):
        return passed("not held to the requirement: the image sets NVIDIA_DISABLE_REQUIRE")
    if host.silent:
        return not_checked(host.silent)
    driver = host.driver
    cuda = host.gpus.get("cuda") or (cuda_requirement.cuda_of(driver) if driver else None)
    value = f"{driver or 'of unknown version'} with CUDA {cuda or 'of unknown version'}"
    unknown, reasons = "", []
    for name in sorted({str(row.get("name") or "") for row in host.used}) or [""]:
        offer = cuda_requirement.Offer(cuda, driver, cuda_requirement.brands_of(name))
        answer = cuda_requirement.judge(text, offer)
        if answer.satisfied is False:
            newer = f"Install driver {answer.driver} or newer" if answer.driver else "Install a newer driver"
            remedy = newer + (f", or use an image made for CUDA {cuda} or older" if cuda else "")
            return failed(value, remedy, wanted="the image requires " + answer.reason)
        if answer.satisfied is None:
            unknown = f"{value}; {answer.reason}"
        reasons.append(answer.reason)
    if unknown:
        return not_checked(unknown)
    return passed(f"{value}, as the image requires: {listing(sorted(set(reasons)))}")
