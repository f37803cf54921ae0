# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Healthy hosts; then one change a fault, which exactly one check must tell, completely."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.gpu_host import judge as gpu_host
from ansible_collections.tandem.vllm.plugins.module_utils.gpu_host.judge import Check, Settings
from ansible_collections.tandem.vllm.plugins.module_utils.gpu_host.system import ARCHIVE_FOLDER
from ansible_collections.tandem.vllm.plugins.module_utils.placement import Model, Node, Placement, Replica, Service

REQUIREMENT = (
    "cuda>=12.8 brand=unknown,driver>=535,driver<536 "
    "brand=tesla,driver>=535,driver<536 brand=tesla,driver>=550,driver<551"
)
Facts = dict[str, Any]


def gpu(index: int, name: str, memory: int | None, **others: Any) -> Facts:
    return {
        "index": index,
        "uuid": f"GPU-{index:08x}-1111-2222-3333-444444444444",
        "bus_id": f"00000000:{index + 7:02X}:00.0",
        "name": name,
        "memory_total_mib": memory,
        "memory_used_mib": None if memory is None else 4,
        "memory_unified": memory is None,
        "remap_pending": False,
        "mig_mode": "disabled",
        "mig_devices": [],
        "compute_mode": "Default",
        "fabric_state": None,
        "fabric_status": None,
        "status": "ok",
        "faults": [],
        **others,
    }


def facts(gpus: list[Facts], driver: str, cuda: str, nvswitch: bool = False) -> Facts:
    return {
        "gpus": {
            "available": True,
            "reason": None,
            "usable": True,
            "gpu_count": len(gpus),
            "gpus": gpus,
            "processes": [],
            "driver": driver,
            "cuda": cuda,
            "nvml_library": None,
            "kernel_module": {"loaded": True, "version": driver, "flavour": "open"},
            "library_version": driver,
            "pci_gpus": [g["bus_id"].lower().replace("00000000", "0000") for g in gpus],
            "fabric_manager": {
                "needed": nvswitch,
                "active": nvswitch or None,
                "installed": nvswitch,
                "version": driver if nvswitch else None,
            },
            "kernel_log": {"read": True, "xid": [], "faults": []},
            "docker": {
                "available": True,
                "error": None,
                "engine": "docker",
                "version": "28.3.3",
                "rootless": False,
                "cgroup_driver": "systemd",
                "cgroup_version": "2",
                "runtimes": ["io.containerd.runc.v2", "nvidia", "runc"],
                "default_runtime": "runc",
                "cdi_enabled": True,
                "cdi_devices": [],
                "cdi_driver_version": None,
                "root_dir": "/var/lib/docker",
            },
            "toolkit": {"installed": True, "version": "1.17.8", "runtime_hook": True, "dev_char_links": True},
            "packages": {
                "manager": "apt",
                "driver": [
                    {"name": "nvidia-driver-580-server-open", "version": driver + "-0ubuntu1", "held": True},
                    {"name": "libnvidia-compute-580-server", "version": driver + "-0ubuntu1", "held": True},
                ],
                "unattended": True,
            },
        },
        "host": {
            "clock": {"synchronised": True},
            "clock_offset_s": 0.02,
            "clock_uncertainty_s": 0.1,
            "disks": [
                {"path": "/var/lib/docker", "exists": True, "free_mib": 200000, "total_mib": 900000},
                {"path": ARCHIVE_FOLDER, "exists": True, "free_mib": 90000, "total_mib": 100000},
                {"path": "/models/big", "exists": True, "free_mib": 500000, "total_mib": 2000000},
            ],
            "limits": {"nofile": 1048576, "nofile_hard": 1048576, "memlock": -1},
            "memory_mib": 1031800,
        },
        "image": {
            "found": True,
            "source": "archive",
            "image_id": "sha256:" + "ab" * 32,
            "cuda_requirement": REQUIREMENT,
            "cuda_version": "12.8.1",
            "requirement_disabled": False,
            "size_mib": 30000,
            "size_exact": True,
            "reason": None,
        },
        "containers": {
            "tandem-chat-node-a": {
                "state": "passed",
                "cause": None,
                "expected": [g["uuid"] for g in gpus],
                "container_gpus": [{"index": str(n), "uuid": g["uuid"], "name": g["name"]} for n, g in enumerate(gpus)],
                "framework": {"name": "torch", "state": "passed", "reason": None},
            }
        },
    }


A100 = "NVIDIA A100-SXM4-80GB"
H100 = "NVIDIA H100 80GB HBM3"
MIG = "MIG-11111111-2222-3333-4444-555555555555"
COMPLETED = {"fabric_state": "Completed", "fabric_status": "Success"}


def a100() -> Facts:
    return facts([gpu(n, A100, 81920) for n in range(4)], "580.95.05", "13.0")


def h100() -> Facts:
    return facts([gpu(n, H100, 81559, **COMPLETED) for n in range(8)], "570.133.20", "12.8", nvswitch=True)


def gb10() -> Facts:
    row = gpu(0, "NVIDIA GB10", None, mig_mode=None)
    return facts([row], "580.95.05", "13.0")


def h200() -> Facts:
    return facts([gpu(0, "NVIDIA H200", 143771)], "580.159.04", "13.0")


def a100_cdi() -> Facts:
    measured = a100()
    measured["gpus"]["docker"].update(
        cdi_devices=["nvidia.com/gpu=%s" % n for n in ("0", "1", "2", "3", "all")], cdi_driver_version="580.95.05"
    )
    return measured


NODES = {
    "a100": Node("10.0.0.1", ("0", "1", "2", "3"), "A100", 80),
    "h100": Node("10.0.0.1", tuple(map(str, range(8))), "H100", 80),
    "gb10": Node("10.0.0.1", ("0",), "GB10", 128),
    "h200": Node("10.0.0.1", ("0",), "H200", 141),
    "cdi": Node("10.0.0.1", ("0", "1", "2", "3"), "A100", 80, "cdi"),
}
HOSTS = {"a100": a100, "h100": h100, "gb10": gb10, "h200": h200, "cdi": a100_cdi}


def placement(node: Node, rank_group: bool = False) -> Placement:
    nodes = ("node-a", "node-b") if rank_group else ("node-a",)
    replica = Replica("chat-node-a", nodes, gpus=node.gpus)
    service = Service("chat", Model("/models/big", "big"), (replica,))
    return Placement("site", {"node-a": node, "node-b": node}, (service,), lab=not node.gpus)


def judge(
    measured: Facts,
    node: Node,
    settings: Settings | None = None,
    rank_group: bool = True,
    offsets: tuple[float, ...] = (0.02, -0.1, 0.3),
) -> dict[str, Check]:
    before = copy.deepcopy(measured)
    where = placement(node, rank_group)
    host = gpu_host.host_of(where, "node-a", measured, settings, offsets)
    checks = gpu_host.judge(host, where.lab)
    assert measured == before
    assert tuple(check.id for check in checks) == gpu_host.IDS
    return {check.id: check for check in checks}


def states(checks: dict[str, Check], state: str) -> list[str]:
    return [check.id for check in checks.values() if check.state == state]


def change(measured: Facts, path: str, value: Any) -> None:
    """Set what a path such as gpus.gpus.3.status names."""
    *way, last = path.split(".")
    there: Any = measured
    for step in way:
        there = there[int(step)] if isinstance(there, list) else there[step]
    if isinstance(there, list):
        there[int(last)] = value
    else:
        there[last] = value


def test_ids() -> None:
    assert " ".join(gpu_host.IDS) == (
        "driver_loaded driver_matches_library gpu_count gpu_on_bus gpu_reset gpu_model gpu_memory gpu_memory_in_use "
        "mig compute_mode fabric_manager image_cuda docker container_toolkit docker_gpu_access cdi_spec daemon_reload "
        "driver_packages disk_image disk_model nofile memlock clock container_gpus"
    )


@pytest.mark.parametrize(
    ("host", "not_needed", "not_checked"),
    [
        ("a100", ["fabric_manager", "cdi_spec"], []),
        ("h100", ["cdi_spec"], []),
        ("gb10", ["fabric_manager", "cdi_spec"], ["gpu_memory"]),
        ("h200", ["fabric_manager", "cdi_spec"], []),
        ("cdi", ["fabric_manager", "container_toolkit", "daemon_reload"], []),
    ],
)
def test_healthy_hosts(host: str, not_needed: list[str], not_checked: list[str]) -> None:
    checks = judge(HOSTS[host](), NODES[host])
    assert [check.message for check in checks.values() if check.state == "failed"] == []
    assert states(checks, "not_needed") == not_needed
    assert states(checks, "not_checked") == not_checked
    assert {check.remedy for check in checks.values()} == {""}
    assert all(check.variable.startswith("node-a: ") and check.value and check.wanted for check in checks.values())


def test_what_healthy_hosts_show() -> None:
    found = {name: check.value for name, check in judge(h100(), NODES["h100"]).items()}
    assert found["driver_loaded"] == "570.133.20 open"
    assert found["gpu_count"] == "8 of 8 (0, 1, 2, 3, 4, 5, 6, 7)"
    assert found["gpu_memory"] == "79.6 GiB"
    assert found["fabric_manager"] == "active, 570.133.20"
    assert found["image_cuda"] == "570.133.20 with CUDA 12.8, as the image requires: cuda>=12.8"
    assert found["disk_image"] == "195.3 GiB free in /var/lib/docker, 87.9 GiB free in /var/tmp"
    assert found["container_gpus"] == "tandem-chat-node-a: 8 of 8 GPUs"
    assert found["clock"] == "within 0.1 s of the other hosts, synchronised"
    assert judge(gb10(), NODES["gb10"])["gpu_memory"].value == "unified with the host's memory of 1007.6 GiB"


RESET_3 = "With nothing using it, 'nvidia-smi --gpu-reset -i 3' on the node, or reboot the node"
RESET_DONE = RESET_3 + ". When that was done since: gpu_host_accept: [gpu_reset]."
OFF_BUS = (
    "must all answer the driver. Read 'dmesg | grep -i nvrm' on the node; power the node off and on, then check "
    "seating, power and cooling of the GPU. One that is given to a virtual machine: gpu_host_accept: [gpu_on_bus]."
)
SAME_VERSION = (
    "the version of the loaded kernel module. Reboot the node, or unload and load the nvidia modules while nothing "
    "uses a GPU; then hold the driver packages: containers that run now do not start again before that."
)
XID = {"code": 48, "bus_id": "0000:0a:00", "line": "NVRM: Xid (PCI:0000:0a:00): 48, pid=1, DBE (double bit error)"}
FELL = "NVRM: Xid (PCI:0000:0a:00): 79, pid=1, GPU has fallen off the bus."
SILENT: Facts = {
    "available": False,
    "usable": False,
    "gpu_count": 0,
    "gpus": [],
    "processes": [],
    "driver": None,
    "cuda": None,
}
HELD = {"gpu_index": 2, "gpu_uuid": None, "pid": 4242, "name": "python3", "memory_mib": 70000}
NOBODY = {"container": None, "environment": None}
ULIMIT = "in daemon.json, or %s in docker.service, and restart Docker."
ENABLE_NTP = "Run 'timedatectl set-ntp true' on the node, or set up chrony there."
RELOAD = (
    "'systemctl daemon-reload' must not take the GPUs from running containers. Set tandem_gpus.access: cdi (best), or "
    "run 'nvidia-ctk system create-dev-char-symlinks --create-all' at each boot of the node, or set "
    "native.cgroupdriver=cgroupfs in Docker."
)
SERVER = "nvidia-fabricmanager.service"
JOINED = "must run in the driver's version and have set up the fabric, as the GPUs are joined by NVSwitch."


FAULTS: list[tuple[str, str, dict[str, Any], str, str]] = [
    (
        "driver not loaded",
        "a100",
        {
            "gpus": {
                **SILENT,
                "reason": "nvidia-smi is not installed",
                "kernel_module": {"loaded": False, "version": None, "flavour": None},
                "library_version": None,
            }
        },
        "driver_loaded",
        "NVIDIA driver = not loaded: nvidia-smi is not installed: must be loaded and answer nvidia-smi. "
        "Install the NVIDIA driver on the node, or 'modprobe nvidia' there.",
    ),
    (
        "no GPU in the machine",
        "a100",
        {
            "gpus": {
                **SILENT,
                "reason": "nvidia-smi is not installed",
                "kernel_module": {"loaded": False, "version": None, "flavour": None},
                "library_version": None,
                "pci_gpus": [],
            }
        },
        "driver_loaded",
        "NVIDIA driver = not loaded, and no NVIDIA GPU is on the PCI bus: nvidia-smi is not installed: must be loaded "
        "and answer nvidia-smi. Take the host out of tandem_nodes, or put the GPUs in.",
    ),
    (
        "no module file and no answer",
        "a100",
        {"gpus": {**SILENT, "reason": "GPU access blocked by the operating system", "kernel_module": {"loaded": None}}},
        "driver_loaded",
        "NVIDIA driver = no answer: GPU access blocked by the operating system: must be loaded and answer nvidia-smi. "
        "Install the NVIDIA driver on the node, or 'modprobe nvidia' there.",
    ),
    (
        "tool missing",
        "a100",
        {"gpus": {**SILENT, "reason": "nvidia-smi is not installed"}},
        "driver_loaded",
        "NVIDIA driver = kernel module 580.95.05, but nvidia-smi says: nvidia-smi is not installed: must be loaded and "
        "answer nvidia-smi. Run 'nvidia-smi' and 'dmesg | grep NVRM' on the node, install what is missing, or reboot "
        "the node.",
    ),
    (
        "open module needed",
        "a100",
        {
            "gpus": {
                **SILENT,
                "reason": "No devices were found",
                "kernel_log": {
                    "read": True,
                    "xid": [],
                    "faults": [
                        "NVRM: installed in this system requires use of the NVIDIA open kernel modules.",
                        "NVRM: GPU 0000:07:00.0: RmInitAdapter failed! (0x22:0x56:890)",
                    ],
                },
            }
        },
        "driver_loaded",
        "NVIDIA driver = these GPUs need the open kernel modules (NVRM: installed in this system requires use of the "
        "NVIDIA open kernel modules.): must be loaded and answer nvidia-smi. Install the driver with the open kernel "
        "modules in place of the proprietary ones, and reboot the node.",
    ),
    (
        "library upgraded, nvidia-smi refuses",
        "h100",
        {
            "gpus": {
                **SILENT,
                "reason": "Failed to initialize NVML: Driver/library version mismatch",
                "nvml_library": "570.158",
                "library_version": "570.158.01",
            },
            # The same upgrade took this along: no fault of its own.
            "gpus.fabric_manager.version": "570.158.01",
        },
        "driver_matches_library",
        "NVIDIA user-space library = 570.158.01 (Failed to initialize NVML: Driver/library version mismatch): must be "
        "570.133.20, " + SAME_VERSION,
    ),
    (
        "library upgraded, versions not told",
        "a100",
        {
            "gpus": {
                **SILENT,
                "reason": "Failed to initialize NVML: Driver/library version mismatch",
                "kernel_module": {"loaded": True, "version": None, "flavour": None},
                "library_version": None,
            }
        },
        "driver_matches_library",
        "NVIDIA user-space library = another version than the kernel module (Failed to initialize NVML: Driver/library "
        "version mismatch): must have " + SAME_VERSION,
    ),
    (
        "a second library on the disk",
        "cdi",
        {"gpus.library_version": "580.105.08", "gpus.docker.cdi_driver_version": "580.105.08"},
        "driver_matches_library",
        "NVIDIA user-space library = 580.105.08: must be 580.95.05, " + SAME_VERSION,
    ),
    (
        "a GPU is not there",
        "a100",
        {"gpus.gpus": [gpu(n, A100, 81920) for n in range(3)], "gpus.pci_gpus": ["0000:07:00.0"] * 3},
        "gpu_count",
        "tandem_gpus.count = 3 of 4 (0, 1, 2): 3 must be among the GPUs that the node has: "
        "0: GPU-00000000-1111-2222-3333-444444444444, 1: GPU-00000001-1111-2222-3333-444444444444, "
        "2: GPU-00000002-1111-2222-3333-444444444444. Correct tandem_gpus to what 'nvidia-smi -L' lists on the node, "
        "or find out why the GPU is not there.",
    ),
    (
        "a GPU is on the bus only",
        "a100",
        {"gpus.gpus": [gpu(n, A100, 81920) for n in range(3)]},
        "gpu_on_bus",
        "NVIDIA GPUs on the PCI bus = no answer from 0000:0a:00: " + OFF_BUS,
    ),
    (
        "a GPU fell off and left the bus",
        "a100",
        {
            "gpus.gpus": [gpu(n, A100, 81920) for n in range(3)],
            "gpus.pci_gpus": ["0000:07:00.0", "0000:08:00.0", "0000:09:00.0"],
            "gpus.kernel_log.xid": [{"code": 79, "bus_id": "0000:0a:00", "line": FELL}],
        },
        "gpu_on_bus",
        f"NVIDIA GPUs on the PCI bus = no answer from 0000:0a:00 ({FELL}): " + OFF_BUS,
    ),
    (
        "a GPU is listed as lost",
        "a100",
        {
            "gpus.gpus.3": gpu(3, "", None, status="lost", faults=["GPU is lost"]),
            "gpus.kernel_log.faults": ["NVRM: GPU 0000:0a:00.0: GPU has fallen off the bus."],
        },
        "gpu_on_bus",
        "NVIDIA GPUs on the PCI bus = no answer from 0000:0a:00 (NVRM: GPU 0000:0a:00.0: GPU has fallen off the bus.): "
        + OFF_BUS,
    ),
    (
        "one lost GPU makes nvidia-smi fail",
        "a100",
        {
            "gpus": {
                **SILENT,
                "reason": "Unable to determine the device handle for GPU0000:0A:00.0: Unknown Error",
                "gpus": [gpu(3, "", None, status="lost")],
            }
        },
        "gpu_on_bus",
        "NVIDIA GPUs on the PCI bus = no answer from 0000:0a:00 (Unable to determine the device handle for "
        "GPU0000:0A:00.0: Unknown Error): " + OFF_BUS,
    ),
    (
        "one lost GPU, not told which",
        "a100",
        {"gpus": {**SILENT, "reason": "GPU is lost. Reboot the system to recover this GPU"}},
        "gpu_on_bus",
        "NVIDIA GPUs on the PCI bus = no answer from a GPU whose address is not told (GPU is lost. Reboot the system "
        "to recover this GPU): " + OFF_BUS,
    ),
    (
        "needs a reset",
        "a100",
        {"gpus.gpus.3.status": "requires_reset", "gpus.gpus.3.faults": ["fan", "GPU requires reset"]},
        "gpu_reset",
        "reset of GPUs = GPU 3 requires a reset (fan, GPU requires reset): no GPU of tandem_gpus may need one. "
        + RESET_3
        + ".",
    ),
    (
        "is in error",
        "a100",
        {"gpus.gpus.3.status": "error", "gpus.gpus.3.faults": ["power"]},
        "gpu_reset",
        "reset of GPUs = GPU 3 is in error (power): no GPU of tandem_gpus may need one. " + RESET_3 + ".",
    ),
    (
        "row remapping pending",
        "a100",
        {"gpus.gpus.3.remap_pending": True},
        "gpu_reset",
        "reset of GPUs = GPU 3 has a row remapping pending: no GPU of tandem_gpus may need one. " + RESET_3 + ".",
    ),
    (
        "double-bit error",
        "a100",
        {"gpus.kernel_log.xid": [XID]},
        "gpu_reset",
        "reset of GPUs = GPU 3 reported an error that needs a reset (NVRM: Xid (PCI:0000:0a:00): 48, pid=1, DBE "
        "(double bit error)): no GPU of tandem_gpus may need one. " + RESET_DONE,
    ),
    (
        "the driver asks for a reset",
        "a100",
        {
            "gpus.kernel_log.xid": [
                {
                    "code": 154,
                    "bus_id": "0000:0a:00.0",
                    "line": "NVRM: Xid (PCI:0000:0a:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU "
                    "Reset Required)",
                }
            ]
        },
        "gpu_reset",
        "reset of GPUs = GPU 3 reported an error that needs a reset (NVRM: Xid (PCI:0000:0a:00): 154, GPU recovery "
        "action changed from 0x0 (None) to 0x1 (GPU Reset Required)): no GPU of tandem_gpus may need one. "
        + RESET_DONE,
    ),
    (
        "another model",
        "a100",
        {"gpus.gpus.3.name": "NVIDIA A30"},
        "gpu_model",
        "tandem_gpus.model = A100: must be in the name of each GPU, but GPU 3 is NVIDIA A30. "
        "Correct tandem_gpus.model in host_vars, or name other GPUs in tandem_gpus.ids.",
    ),
    (
        "less memory",
        "a100",
        {"gpus.gpus.3.memory_total_mib": 40960},
        "gpu_memory",
        "tandem_gpus.memory_gib = 80: must be the memory of each GPU in GiB, but GPU 3 has 40.0 GiB. "
        "Correct tandem_gpus.memory_gib in host_vars, or name other GPUs in tandem_gpus.ids.",
    ),
    (
        "memory held by a process",
        "a100",
        {"gpus.gpus.2.memory_used_mib": 70500, "gpus.processes": [{**HELD, **NOBODY}]},
        "gpu_memory_in_use",
        "GPU memory in use = 70500 MiB on GPU 2: others than this environment's replicas may hold at most 1024 MiB of "
        "a GPU, but they are held by pid 4242 python3 with 70000 MiB. Stop these processes on the node ('kill' with "
        "their pids), or name other GPUs in tandem_gpus.ids.",
    ),
    (
        "memory held by a container of others",
        "a100",
        {
            "gpus.gpus.2.memory_used_mib": 70500,
            "gpus.processes": [{**HELD, "container": "comfy", "environment": "other"}],
        },
        "gpu_memory_in_use",
        "GPU memory in use = 70500 MiB on GPU 2: others than this environment's replicas may hold at most 1024 MiB of "
        "a GPU, but they are held by pid 4242 python3 with 70000 MiB in container comfy. Stop these processes on the "
        "node ('docker stop comfy'), or name other GPUs in tandem_gpus.ids.",
    ),
    (
        "memory held by nobody",
        "a100",
        {"gpus.gpus.2.memory_used_mib": 70500},
        "gpu_memory_in_use",
        "GPU memory in use = 70500 MiB on GPU 2: others than this environment's replicas may hold at most 1024 MiB of "
        "a GPU, but they are held by no process that nvidia-smi shows. Find the holder with 'fuser -v /dev/nvidia*' on "
        "the node and stop it, or reset the GPU.",
    ),
    (
        "memory held on a unified machine",
        "gb10",
        {"gpus.processes": [{**HELD, **NOBODY, "gpu_index": 0}]},
        "gpu_memory_in_use",
        "GPU memory in use = 70000 MiB on GPU 0: others than this environment's replicas may hold at most 1024 MiB of "
        "a GPU, but they are held by pid 4242 python3 with 70000 MiB. Stop these processes on the node ('kill' with "
        "their pids), or name other GPUs in tandem_gpus.ids.",
    ),
    (
        "MIG on, with devices",
        "a100",
        {"gpus.gpus.1.mig_mode": "enabled", "gpus.gpus.1.mig_devices": [{"index": 0, "uuid": MIG}]},
        "mig",
        "MIG mode = on for GPU 1: must be off on GPUs that tandem_gpus names as a whole. Run 'nvidia-smi -i 1 -mig 0' "
        f"on the node while nothing uses the GPU, or name MIG devices in tandem_gpus.ids: {MIG}.",
    ),
    (
        "MIG on, without devices",
        "a100",
        {"gpus.gpus.1.mig_mode": "enabled"},
        "mig",
        "MIG mode = on for GPU 1: must be off on GPUs that tandem_gpus names as a whole. Run 'nvidia-smi -i 1 -mig 0' "
        "on the node while nothing uses the GPU.",
    ),
    (
        "compute mode",
        "a100",
        {"gpus.gpus.0.compute_mode": "Prohibited", "gpus.gpus.2.compute_mode": "Exclusive_Thread"},
        "compute_mode",
        "compute mode = Prohibited on GPU 0, Exclusive_Thread on GPU 2: must be Default or Exclusive_Process on each "
        "GPU of tandem_gpus. Run 'nvidia-smi -i 0,2 -c DEFAULT' on the node.",
    ),
    (
        "fabric manager not installed",
        "h100",
        {
            "gpus.fabric_manager": {"needed": True, "active": False, "installed": False, "version": None},
            "gpus.gpus": [gpu(n, H100, 81559, fabric_state="In Progress", fabric_status=None) for n in range(8)],
        },
        "fabric_manager",
        f"{SERVER} = not installed: {JOINED} Install nvidia-fabricmanager 570.133.20, then 'systemctl enable --now "
        "nvidia-fabricmanager' on the node.",
    ),
    (
        "fabric manager stopped",
        "h100",
        {"gpus.fabric_manager.active": False},
        "fabric_manager",
        f"{SERVER} = not running: {JOINED} Run 'systemctl enable --now nvidia-fabricmanager' on the node; 'journalctl "
        "-u nvidia-fabricmanager' says why it ended.",
    ),
    (
        "fabric manager of another version",
        "h100",
        {"gpus.fabric_manager.version": "570.86.15"},
        "fabric_manager",
        f"{SERVER} = 570.86.15: must be 570.133.20, the version of the driver. Install nvidia-fabricmanager 570.133.20 "
        "and restart it while nothing uses a GPU.",
    ),
    (
        "fabric not set up",
        "h100",
        {"gpus.gpus.5.fabric_state": "In Progress", "gpus.gpus.5.fabric_status": None},
        "fabric_manager",
        f"{SERVER} = fabric state In Progress: {JOINED} Read 'journalctl -u nvidia-fabricmanager' on the node, then "
        "restart it while nothing uses a GPU.",
    ),
    (
        "driver too old for the image",
        "a100",
        {
            "gpus.driver": "545.29.06",
            "gpus.cuda": "12.3",
            "gpus.kernel_module.version": "545.29.06",
            "gpus.library_version": "545.29.06",
        },
        "image_cuda",
        "NVIDIA driver = 545.29.06 with CUDA 12.3: the image requires cuda>=12.8, or a driver of branch 535 or 550. "
        "Install driver 570.26 or newer, or use an image made for CUDA 12.3 or older.",
    ),
    (
        "driver too old for an image with CUDA_VERSION alone",
        "a100",
        {"image.cuda_requirement": None, "image.cuda_version": "13.2.0"},
        "image_cuda",
        "NVIDIA driver = 580.95.05 with CUDA 13.0: the image requires cuda>=13.2. Install driver 595.45.04 or newer, "
        "or use an image made for CUDA 13.0 or older.",
    ),
    (
        "Docker does not answer",
        "a100",
        {"gpus.docker": {"available": False, "error": "Cannot connect to the Docker daemon", "runtimes": []}},
        "docker",
        "docker = no answer (Cannot connect to the Docker daemon): Docker Engine 20.10 or newer must answer. Install "
        "Docker Engine on the node, or 'systemctl start docker' there.",
    ),
    (
        "podman",
        "a100",
        {"gpus.docker": {"available": True, "engine": "podman", "version": "5.4.0", "runtimes": []}},
        "docker",
        "docker = podman under Docker's name: Docker Engine 20.10 or newer must answer. Install Docker Engine on the "
        "node in place of podman-docker.",
    ),
    (
        "old Docker",
        "a100",
        {"gpus.docker.version": "19.03.15"},
        "docker",
        "docker = 19.03.15: Docker Engine 20.10 or newer must answer. Install a newer Docker Engine on the node.",
    ),
    (
        "toolkit missing",
        "a100",
        {
            "gpus.toolkit": {"installed": False, "version": None, "runtime_hook": False, "dev_char_links": False},
            "gpus.docker.runtimes": ["io.containerd.runc.v2", "runc"],
        },
        "container_toolkit",
        "NVIDIA container toolkit = not installed: nvidia-container-runtime-hook must be installed, as Docker calls it "
        "to give GPUs to a container. Install the package nvidia-container-toolkit on the node, then run with "
        "gpu_host_configure_docker: true.",
    ),
    (
        "toolkit without its hook",
        "a100",
        {"gpus.toolkit.runtime_hook": False},
        "container_toolkit",
        "NVIDIA container toolkit = nvidia-ctk 1.17.8 without the hook: nvidia-container-runtime-hook must be "
        "installed, as Docker calls it to give GPUs to a container. Install the package nvidia-container-toolkit on "
        "the node, then run with gpu_host_configure_docker: true.",
    ),
    (
        "Docker without the runtime",
        "a100",
        {"gpus.docker.runtimes": ["io.containerd.runc.v2", "runc"]},
        "docker_gpu_access",
        "/etc/docker/daemon.json = runtimes io.containerd.runc.v2, runc: the running daemon must know the runtime "
        "nvidia. Run with gpu_host_configure_docker: true, or 'nvidia-ctk runtime configure --runtime=docker' on the "
        "node and restart Docker.",
    ),
    (
        "rootless Docker without the runtime",
        "a100",
        {"gpus.docker.runtimes": [], "gpus.docker.rootless": True},
        "docker_gpu_access",
        "~/.config/docker/daemon.json = runtimes none: the running daemon must know the runtime nvidia. Run with "
        "gpu_host_configure_docker: true, or 'nvidia-ctk runtime configure --runtime=docker' on the node and restart "
        "Docker.",
    ),
    (
        "Docker too old for CDI",
        "cdi",
        {"gpus.docker.version": "24.0.7", "gpus.docker.cdi_enabled": None},
        "docker_gpu_access",
        "/etc/docker/daemon.json = Docker 24.0.7: CDI, which tandem_gpus.access asks for, needs Docker 25. Install "
        "Docker 25 or newer on the node, or set tandem_gpus.access: nvidia.",
    ),
    (
        "CDI off",
        "cdi",
        {"gpus.docker.cdi_enabled": False, "gpus.docker.cdi_devices": []},
        "docker_gpu_access",
        "/etc/docker/daemon.json = features.cdi is off: CDI must be on, as tandem_gpus.access asks for it. Run with "
        "gpu_host_configure_docker: true, or set features.cdi to true and restart Docker.",
    ),
    (
        "CDI devices missing",
        "cdi",
        {"gpus.docker.cdi_devices": ["nvidia.com/gpu=0", "nvidia.com/gpu=1"]},
        "docker_gpu_access",
        "/etc/docker/daemon.json = CDI devices nvidia.com/gpu=0, nvidia.com/gpu=1: Docker must find nvidia.com/gpu=2, "
        "nvidia.com/gpu=3. Run 'nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml' on the node.",
    ),
    (
        "CDI specification of another driver",
        "cdi",
        {"gpus.docker.cdi_driver_version": "570.133.20"},
        "cdi_spec",
        "CDI specification = 570.133.20: must be made for the loaded driver 580.95.05. Run 'nvidia-ctk cdi generate "
        "--output=/etc/cdi/nvidia.yaml' on the node.",
    ),
    (
        "a daemon-reload would take the GPUs",
        "a100",
        {"gpus.toolkit.dev_char_links": False},
        "daemon_reload",
        "Docker's cgroup driver = systemd, without links to the NVIDIA devices under /dev/char: " + RELOAD,
    ),
    (
        "driver packages not held",
        "a100",
        {"gpus.packages.driver.1.held": False},
        "driver_packages",
        "NVIDIA driver packages = not held: libnvidia-compute-580-server: must be held where unattended upgrades are "
        "on, which would stop the next container from starting. Run 'apt-mark hold libnvidia-compute-580-server' on "
        "the node.",
    ),
    (
        "driver packages not held, dnf",
        "a100",
        {
            "gpus.packages.manager": "dnf",
            "gpus.packages.driver": [{"name": "nvidia-driver-libs", "version": "580.95.05", "held": False}],
        },
        "driver_packages",
        "NVIDIA driver packages = not held: nvidia-driver-libs: must be held where unattended upgrades are on, which "
        "would stop the next container from starting. Run 'dnf versionlock add nvidia-driver-libs' on the node.",
    ),
    (
        "no room for the image",
        "a100",
        {"host.disks.0.free_mib": 30720},
        "disk_image",
        "disk for the image = 30.0 GiB free in /var/lib/docker: loading the image of 29.3 GiB needs 61.5 GiB in "
        "/var/lib/docker. Make room there, for example with 'docker image prune' on the node.",
    ),
    (
        "no room for the archive",
        "a100",
        {"host.disks.1.free_mib": 20480},
        "disk_image",
        "disk for the image = 20.0 GiB free in /var/tmp: loading the image of 29.3 GiB needs 29.3 GiB in /var/tmp. "
        "Make room there, for example with 'docker image prune' on the node.",
    ),
    (
        "no room for both in one file system",
        "a100",
        {
            "host.disks.0": {"path": "/var/lib/docker", "exists": True, "free_mib": 51200, "total_mib": 100000},
            "host.disks.1": {"path": ARCHIVE_FOLDER, "exists": True, "free_mib": 51200, "total_mib": 100000},
        },
        "disk_image",
        "disk for the image = 50.0 GiB free in /var/lib/docker: loading the image of 29.3 GiB needs 90.8 GiB in "
        "/var/lib/docker. Make room there, for example with 'docker image prune' on the node.",
    ),
    (
        "few open files",
        "a100",
        {"host.limits.nofile": 1024, "host.limits.nofile_hard": 4096},
        "nofile",
        'open files of a container = 1024: must be at least 8192. Set "default-ulimits": {"nofile": {"Name": '
        '"nofile", "Soft": 8192, "Hard": 8192}} ' + ULIMIT % "LimitNOFILE",
    ),
    (
        "little locked memory",
        "a100",
        {"host.limits.memlock": 8388608},
        "memlock",
        "locked memory of a container = 8192 KiB: must be unlimited for a replica over several nodes. Set "
        '"default-ulimits": {"memlock": {"Name": "memlock", "Soft": -1, "Hard": -1}} '
        + ULIMIT
        % "LimitMEMLOCK=infinity",
    ),
    (
        "clock ahead",
        "a100",
        {"host.clock_offset_s": 6.2, "host.clock.synchronised": False},
        "clock",
        "clock = 6.1 s ahead of the other hosts, not synchronised: must agree with them within 2 s. " + ENABLE_NTP,
    ),
    (
        "clock not compared and not synchronised",
        "a100",
        {"host.clock_offset_s": None, "host.clock.synchronised": False},
        "clock",
        "clock = not synchronised: must be synchronised, as it could not be compared. " + ENABLE_NTP,
    ),
    (
        "a container sees fewer GPUs",
        "a100",
        {
            "containers.tandem-chat-node-a.state": "failed",
            "containers.tandem-chat-node-a.cause": {
                "id": "gpu_set_differs",
                "evidence": "named 4, seen 3",
                "advice": "Look at what Docker was asked for.",
                "next_command": "docker run --gpus all x nvidia-smi -L",
            },
        },
        "container_gpus",
        "GPUs in a container started as a replica = tandem-chat-node-a: gpu_set_differs (named 4, seen 3): must be "
        "exactly the replica's, and usable. Look at what Docker was asked for. "
        "Next: 'docker run --gpus all x nvidia-smi -L'.",
    ),
    (
        "no container could be looked at",
        "a100",
        {"containers.tandem-chat-node-a": {"msg": "container.image = not set"}},
        "container_gpus",
        "GPUs in a container started as a replica = tandem-chat-node-a: unknown: must be exactly the replica's, and "
        "usable. container.image = not set.",
    ),
]


@pytest.mark.parametrize(
    ("host", "changes", "check", "message"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS]
)
def test_one_fault_is_one_failed_check(host: str, changes: dict[str, Any], check: str, message: str) -> None:
    measured = HOSTS[host]()
    for path, value in changes.items():
        change(measured, path, {**measured["gpus"], **value} if path == "gpus" else value)
    # The clock's own fault is among the others' clocks, too.
    offsets = (measured["host"]["clock_offset_s"] or 0.0, -0.1, 0.1)
    checks = judge(measured, NODES[host], offsets=offsets)
    assert states(checks, "failed") == [check]
    assert checks[check].message == "node-a: " + message
    # Accepted on request, by the id, and never passed.
    checks = judge(measured, NODES[host], Settings(accept=(check,)), offsets=offsets)
    assert states(checks, "failed") == []
    assert states(checks, "accepted") == [check]
    assert checks[check].to_dict()["message"] == "node-a: " + message


def test_every_check_can_fail() -> None:
    # The host's contract tells a missing model.
    assert {fault[3] for fault in FAULTS} == set(gpu_host.IDS) - {"disk_model"}


EACH_GPU = ("gpu_reset", "gpu_model", "gpu_memory", "gpu_memory_in_use", "compute_mode")


@pytest.mark.parametrize(
    ("changes", "not_checked"),
    [
        ({"gpus": {**SILENT, "reason": "x"}}, {"gpu_count", "gpu_on_bus", "mig", "image_cuda", *EACH_GPU}),
        (
            {"gpus.gpus": [gpu(n, A100, 81920) for n in (4, 5)], "gpus.pci_gpus": None},
            {"mig", *EACH_GPU},
        ),
        (
            {"gpus": {}, "host": {}, "image": {}, "containers": {}},
            set(gpu_host.IDS) - {"cdi_spec"},
        ),
        (
            {
                "gpus.docker": {"available": False, "error": "x"},
            },
            {"docker_gpu_access", "daemon_reload"},
        ),
        ({"gpus.gpus.0.memory_used_mib": None, "gpus.processes": None}, {"gpu_memory_in_use"}),
        ({"gpus.packages": {"manager": None, "driver": [], "unattended": None}}, {"driver_packages"}),
        ({"gpus.packages.driver": []}, {"driver_packages"}),
        ({"gpus.packages.unattended": None, "gpus.packages.driver.0.held": False}, {"driver_packages"}),
        ({"image": {"found": False, "reason": "no such image"}}, {"image_cuda", "disk_image"}),
        ({"image.cuda_requirement": "cuda>=x"}, {"image_cuda"}),
        ({"image.size_mib": None}, {"disk_image"}),
        # 29.3 GiB compressed may become 32 GiB, or 97, and Docker holds the archive beside it.
        ({"image.size_exact": False, "host.disks.0.free_mib": 70000}, {"disk_image"}),
        ({"host.disks": []}, {"disk_image", "disk_model"}),
        ({"containers": {}}, {"container_gpus"}),
        ({"containers": {}, "image.source": "docker"}, {"container_gpus"}),
        (
            {"containers.tandem-chat-node-a": {"state": "not_checked", "reason": "check mode starts no container"}},
            {"container_gpus"},
        ),
        ({"host.limits": {"nofile": None, "memlock": None}}, {"nofile", "memlock"}),
        ({"host.clock_offset_s": None, "host.clock": {"synchronised": None}}, {"clock"}),
        ({"gpus.fabric_manager.needed": None}, {"fabric_manager"}),
        ({"gpus.toolkit": {}}, {"container_toolkit", "docker_gpu_access", "daemon_reload"}),
        ({"gpus.docker.cgroup_driver": None}, {"daemon_reload"}),
        # As on WSL: nvidia-smi answers, and there is no kernel module to look at.
        ({"gpus.kernel_module": {"loaded": None, "version": None}, "gpus.driver": None}, {"driver_matches_library"}),
    ],
)
def test_what_could_not_be_read_is_no_pass(changes: dict[str, Any], not_checked: set[str]) -> None:
    measured = a100()
    for path, value in changes.items():
        change(measured, path, {**measured["gpus"], **value} if path == "gpus" and value else value)
    checks = judge(measured, NODES["a100"])
    assert set(states(checks, "not_checked")) == not_checked
    assert all(checks[name].value for name in not_checked)


def test_cpu_lab_mode() -> None:
    measured = a100()
    change(measured, "gpus", {**measured["gpus"], **SILENT, "toolkit": {}, "reason": "nvidia-smi is not installed"})
    change(measured, "host.limits", {"nofile": 1024, "nofile_hard": 4096, "memlock": -1})
    checks = judge(measured, Node("10.0.0.1"), rank_group=False)
    lab = [check for check in checks.values() if check.state == "not_checked"]
    assert {check.value for check in lab} == {"CPU lab mode"}
    judged = ["docker", "disk_image", "disk_model", "nofile", "memlock", "clock"]
    assert [check.id for check in lab] == [name for name in gpu_host.IDS if name not in judged]
    assert states(checks, "failed") == ["nofile"]
    assert states(checks, "passed") == ["docker", "disk_image", "disk_model", "clock"]


def ours(memory: int | None, environment: str = "site") -> Facts:
    return {**HELD, "memory_mib": memory, "container": "tandem-chat-node-a", "environment": environment}


@pytest.mark.parametrize(
    ("used", "processes", "state", "value"),
    [
        (72000, [ours(71500)], "passed", "GPU 2: 500 MiB"),
        (72000, [ours(None)], "passed", "GPU 2: held by tandem-chat-node-a"),
        (72000, [ours(60000)], "failed", "12000 MiB on GPU 2"),
        (72000, [ours(71500, "other")], "failed", "72000 MiB on GPU 2"),
        (72000, [{**ours(71500), "gpu_index": 1}], "failed", "72000 MiB on GPU 2"),
        (
            72000,
            [{**ours(71500), "gpu_index": None, "gpu_uuid": "GPU-00000002-1111-2222-3333-444444444444"}],
            "passed",
            "GPU 2: 500 MiB",
        ),
        (1024, [], "passed", "GPU 2: 1024 MiB"),
        (1025, [], "failed", "1025 MiB on GPU 2"),
        (1025, None, "failed", "1025 MiB on GPU 2"),
    ],
)
def test_memory_of_our_own_containers_does_not_count(
    used: int, processes: list[Facts] | None, state: str, value: str
) -> None:
    measured = a100()
    change(measured, "gpus.gpus.2.memory_used_mib", used)
    change(measured, "gpus.processes", processes)
    check = judge(measured, NODES["a100"])["gpu_memory_in_use"]
    assert check.state == state
    assert value in check.value


def test_memory_in_use_limit_is_a_setting() -> None:
    measured = a100()
    change(measured, "gpus.gpus.2.memory_used_mib", 3000)
    assert judge(measured, NODES["a100"], Settings(memory_in_use_mib=3000))["gpu_memory_in_use"].state == "passed"


def mig_host() -> Facts:
    measured = h200()
    row = measured["gpus"]["gpus"][0]
    device = {"index": 0, "uuid": MIG, "profile": "3g.71gb", "memory_total_mib": 71424, "memory_used_mib": 50}
    row.update(mig_mode="enabled", mig_devices=[device], memory_used_mib=60000)
    return measured


@pytest.mark.parametrize("name", [MIG, MIG.lower().replace("mig", "MIG"), "0:0"])
def test_a_mig_device(name: str) -> None:
    checks = judge(mig_host(), Node("10.0.0.1", (name,), "H200", 71))
    assert states(checks, "failed") == []
    assert checks["gpu_count"].state == "not_needed"
    assert checks["mig"].state == "passed"
    # Its own memory counts, not the GPU's.
    assert checks["gpu_memory"].value == "69.8 GiB"
    assert checks["gpu_memory_in_use"].value == f"GPU {name}: 50 MiB"


def test_mig_devices_whose_uuids_are_not_told() -> None:
    measured = mig_host()
    change(measured, "gpus.gpus.0.mig_devices.0.uuid", None)
    assert judge(measured, Node("10.0.0.1", (MIG,)))["mig"].state == "not_checked"
    assert judge(measured, Node("10.0.0.1", ("0:0",)))["mig"].state == "passed"
    assert judge(measured, Node("10.0.0.1", ("0",)))["mig"].remedy == (
        "Run 'nvidia-smi -i 0 -mig 0' on the node while nothing uses the GPU, or name MIG devices in tandem_gpus.ids: "
        "their UUIDs, as 'nvidia-smi -L' lists them"
    )


def test_cdi_that_docker_does_not_tell_of() -> None:
    measured = a100_cdi()
    change(measured, "gpus.docker.cdi_enabled", None)
    assert judge(measured, NODES["cdi"])["docker_gpu_access"].state == "not_checked"


def test_a_mig_device_that_is_gone() -> None:
    checks = judge(mig_host(), Node("10.0.0.1", ("MIG-0",)))
    assert states(checks, "failed") == ["mig"]
    assert checks["mig"].message == (
        f"node-a: MIG mode = MIG-0: must be among the node's MIG devices: {MIG}. Correct tandem_gpus.ids to what "
        "'nvidia-smi -L' lists on the node, or create the MIG devices again."
    )


@pytest.mark.parametrize(
    ("node", "check", "state", "variable", "value"),
    [
        (
            Node("10.0.0.1", ("GPU-00000001-1111-2222-3333-444444444444", "3")),
            "gpu_count",
            "passed",
            "tandem_gpus.ids",
            "2 of 2 (GPU-00000001-1111-2222-3333-444444444444, 3)",
        ),
        (Node("10.0.0.1", ("0", "7")), "gpu_count", "failed", "tandem_gpus.ids", "1 of 2 (0)"),
        # More GPUs than the contract names are no fault.
        (Node("10.0.0.1", ("0",)), "gpu_count", "passed", "tandem_gpus.count", "1 of 1 (0)"),
        (
            Node("10.0.0.1", ("0",)),
            "gpu_model",
            "not_needed",
            "tandem_gpus.model",
            "not stated in the contract; found " + A100,
        ),
        (
            Node("10.0.0.1", ("0",)),
            "gpu_memory",
            "not_needed",
            "tandem_gpus.memory_gib",
            "not stated in the contract; found 80.0 GiB",
        ),
        (Node("10.0.0.1", ("0",), "a100-sxm4"), "gpu_model", "passed", "tandem_gpus.model", A100),
        # 81920 MiB: 10 % below a nominal size passes, and 5 % above.
        (Node("10.0.0.1", ("0",), None, 88.8), "gpu_memory", "passed", "tandem_gpus.memory_gib", "80.0 GiB"),
        (Node("10.0.0.1", ("0",), None, 89), "gpu_memory", "failed", "tandem_gpus.memory_gib", "89"),
        (Node("10.0.0.1", ("0",), None, 76.2), "gpu_memory", "passed", "tandem_gpus.memory_gib", "80.0 GiB"),
        (Node("10.0.0.1", ("0",), None, 76), "gpu_memory", "failed", "tandem_gpus.memory_gib", "76"),
    ],
)
def test_the_contract(node: Node, check: str, state: str, variable: str, value: str) -> None:
    found = judge(a100(), node)[check]
    assert (found.state, found.variable, found.value) == (state, "node-a: " + variable, value)


def test_mixed_models_that_the_contract_does_not_state() -> None:
    measured = a100()
    change(measured, "gpus.gpus.3.name", "NVIDIA A30")
    check = judge(measured, Node("10.0.0.1", ("0", "1", "2", "3")))["gpu_model"]
    assert (check.state, check.value) == ("failed", f"{A100}, NVIDIA A30")
    assert check.wanted == "GPUs that are used together must be of one model"
    assert judge(measured, Node("10.0.0.1", ("0", "1", "2")))["gpu_model"].state == "not_needed"


@pytest.mark.parametrize(
    ("changes", "check", "value"),
    [
        # A GPU that fell off and answers again, and Xid lines of GPUs that are not used.
        (
            {"gpus.kernel_log.xid": [{"code": 79, "bus_id": "0000:0a:00", "line": FELL}]},
            "gpu_on_bus",
            "4 answer; one fell off earlier since boot",
        ),
        (
            {"gpus.kernel_log.xid": [{**XID, "bus_id": "0000:5e:00"}]},
            "gpu_reset",
            "no GPU needs one",
        ),
        # An application's error is none of the GPU's.
        ({"gpus.kernel_log.xid": [{**XID, "code": 31}]}, "gpu_reset", "no GPU needs one"),
        (
            {
                "gpus.kernel_log.xid": [
                    XID,
                    {
                        "code": 154,
                        "bus_id": "0000:0a:00",
                        "line": "NVRM: Xid (PCI:0000:0a:00): 154, GPU recovery action changed from 0x1 (GPU Reset "
                        "Required) to 0x0 (None)",
                    },
                ]
            },
            "gpu_reset",
            "no GPU needs one",
        ),
        ({"gpus.kernel_log": {"read": False}}, "gpu_reset", "no GPU needs one; the kernel log was not read"),
        ({"gpus.gpus.0.faults": ["fan"], "gpus.gpus.0.fan": "ERR!"}, "gpu_reset", "no GPU needs one"),
        ({"gpus.library_version": "580.95"}, "driver_matches_library", "580.95"),
        ({"gpus.library_version": None}, "driver_matches_library", "580.95.05, as nvidia-smi answers"),
        ({"gpus.gpus.0.compute_mode": "Exclusive_Process"}, "compute_mode", "Default, Exclusive_Process"),
        ({"gpus.docker.cgroup_driver": "cgroupfs", "gpus.toolkit.dev_char_links": False}, "daemon_reload", "cgroupfs"),
        ({"gpus.docker.rootless": True}, "docker", "28.3.3, rootless"),
        (
            {"gpus.packages.unattended": False, "gpus.packages.driver.0.held": False},
            "driver_packages",
            "not held, and unattended upgrades are off",
        ),
        ({"image.cuda_requirement": None, "image.cuda_version": None}, "image_cuda", "the image requires nothing"),
        (
            {"image.cuda_requirement": "cuda>=99.0", "image.requirement_disabled": True},
            "image_cuda",
            "not held to the requirement: the image sets NVIDIA_DISABLE_REQUIRE",
        ),
        (
            {
                "gpus.driver": "535.183.06",
                "gpus.cuda": None,
                "gpus.kernel_module.version": "535.183.06",
                "gpus.library_version": "535.183.06",
            },
            "image_cuda",
            "535.183.06 with CUDA 12.2, as the image requires: brand=tesla,driver>=535,driver<536",
        ),
        ({"image.source": "docker", "host.disks.0.free_mib": 0}, "disk_image", "the image is there"),
        (
            {"image.size_exact": False, "image.size_mib": 10000},
            "disk_image",
            "195.3 GiB free in /var/lib/docker, 87.9 GiB free in /var/tmp",
        ),
        ({"host.limits": {"nofile": -1, "nofile_hard": -1}}, "nofile", "unlimited"),
        ({"host.limits": {"nofile": 8192, "nofile_hard": 8192}}, "nofile", "8192"),
        # What Docker gives since it sets no limit of its own: vLLM raises the soft one by itself.
        ({"host.limits": {"nofile": 1024, "nofile_hard": 524288}}, "nofile", "524288"),
        ({"host.limits": {"nofile": 20000, "nofile_hard": 20000}}, "nofile", "20000"),
        (
            {"host.clock_offset_s": None},
            "clock",
            "synchronised; the difference to the others was not measured",
        ),
        # As far as the measurement is uncertain, a difference is none.
        (
            {"host.clock_offset_s": 4.0, "host.clock_uncertainty_s": 2.5},
            "clock",
            "within 4.0 s of the other hosts, synchronised",
        ),
    ],
)
def test_what_is_no_fault(changes: dict[str, Any], check: str, value: str) -> None:
    measured = a100()
    for path, new in changes.items():
        change(measured, path, new)
    checks = judge(measured, NODES["a100"])
    assert states(checks, "failed") == []
    assert (checks[check].state, checks[check].value) == ("passed", value)


def test_a_fabric_that_is_managed_from_outside() -> None:
    measured = h100()
    change(measured, "gpus.fabric_manager", {"needed": True, "active": None, "installed": False, "version": None})
    check = judge(measured, NODES["h100"])["fabric_manager"]
    assert (check.state, check.value) == ("passed", "the fabric is set up; its manager runs outside of this host")


def test_a_model_that_is_not_there_is_the_contracts_matter() -> None:
    measured = a100()
    change(measured, "host.disks.2.exists", False)
    check = judge(measured, NODES["a100"])["disk_model"]
    assert (check.state, check.value) == (
        "not_needed",
        "/models/big is not there, which the check of the contract tells",
    )


def test_memlock_without_a_rank_group() -> None:
    measured = a100()
    change(measured, "host.limits.memlock", 65536)
    assert judge(measured, NODES["a100"], rank_group=False)["memlock"].state == "not_needed"


@pytest.mark.parametrize(
    ("offset", "offsets", "state"),
    [
        # Of two hosts that differ, the control node's clock tells which one is wrong.
        (6.0, (0.0, 6.0), "failed"),
        (0.0, (0.0, 6.0), "passed"),
        # A control node whose own clock is wrong does no harm.
        (10.0, (10.0, 10.2), "passed"),
        (-10.0, (-10.0, -10.2, -4.0), "passed"),
        (-4.0, (-10.0, -10.2, -4.0), "failed"),
        (6.0, (6.0, 0.0, 6.0, 0.0), "failed"),
        (6.0, (6.0,), "not_needed"),
    ],
)
def test_clocks_are_compared_with_each_other(offset: float, offsets: tuple[float, ...], state: str) -> None:
    measured = a100()
    change(measured, "host.clock_offset_s", offset)
    assert judge(measured, NODES["a100"], offsets=offsets)["clock"].state == state


def test_words_for_people() -> None:
    measured = a100()
    change(measured, "host.limits", {"nofile": 1024, "nofile_hard": 4096, "memlock": -1})
    change(measured, "gpus.docker.version", "19.03.15")
    change(measured, "gpus.gpus.1.mig_mode", "enabled")
    checks = [c.to_dict() for c in judge(measured, NODES["a100"], Settings(accept=("mig",))).values()]
    by_id = {check["id"]: check for check in checks}
    assert gpu_host.failures(checks, "node-a is not fit") == (
        f"node-a is not fit:\n- {by_id['docker']['message']}\n- {by_id['nofile']['message']}"
    )
    assert gpu_host.failures([by_id["docker"]], "Not fit") == "Not fit: " + by_id["docker"]["message"]
    assert gpu_host.failures([by_id["mig"], by_id["clock"]], "Not fit") == ""
    assert by_id["clock"]["message"] == ""
    assert gpu_host.rows([by_id["mig"], by_id["cdi_spec"]]) == [
        {
            "check": "mig",
            "state": "accepted",
            "found": "on for GPU 1",
            "wanted": "must be off on GPUs that tandem_gpus names as a whole",
            "remedy": "Run 'nvidia-smi -i 1 -mig 0' on the node while nothing uses the GPU",
        },
        {
            "check": "cdi_spec",
            "state": "not needed",
            "found": "containers get their GPUs from Docker's device driver nvidia",
            "wanted": "",
            "remedy": "",
        },
    ]
    assert gpu_host.summary(checks) == [
        "17 passed, 2 failed, 1 accepted, 2 not checked, 2 not needed",
        "failed: " + by_id["docker"]["message"],
        "failed: " + by_id["nofile"]["message"],
        "accepted, though it failed: " + by_id["mig"]["message"],
        "not checked (Docker does not answer as it must): docker_gpu_access, daemon_reload",
    ]
    assert gpu_host.summary([]) == []
