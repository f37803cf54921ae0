# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.host.gpus import GpuHost

FIXTURES = Path(__file__).parents[4] / "fixtures"
MACHINES = FIXTURES / "gpu_hosts"
CONTAINER = "0123456789abcdef" * 4
JOURNAL = "journalctl --dmesg --boot --no-pager --output=short-monotonic"
DOCKER_INFO = "docker info --format {{json .}}"
DOCKER_PS = 'docker ps --no-trunc --format {{.ID}}\t{{.Names}}\t{{.Label "tandem.environment"}}'
DPKG = "dpkg-query -W -f ${Package}\\t${Version}\\t${Status}\\n"
RPM = "rpm -qa --qf %{NAME}\\t%{VERSION}-%{RELEASE}\\n"
FABRIC = "systemctl show nvidia-fabricmanager.service --property=LoadState,ActiveState"
POLICY = "apt-config dump APT::Periodic::Unattended-Upgrade"
INFO = {"ServerVersion": "29.1.3", "CgroupDriver": "systemd", "Runtimes": {"runc": {}, "nvidia": {}}}


class Host:
    """Files under a root, and answers to commands; a program without an answer is not installed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.answers: dict[str, tuple[int, str, str]] = {}
        self.asked: list[str] = []

    def run(self, argv: Sequence[str]) -> tuple[int, str, str]:
        argv = argv[4:] if argv[0] == "timeout" else argv
        command = " ".join(argv)
        self.asked.append(command)
        return self.answers.get(command, (127, "", f"{argv[0]}: No such file or directory"))

    def says(self, command: str, out: str, status: int = 0, err: str = "") -> None:
        self.answers[command] = (status, out, err)

    def write(self, path: str, text: str = "") -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def plays(self, machine: str) -> Host:
        """Say what a machine of the fixtures says."""
        folder = MACHINES / machine

        def text(name: str) -> str:
            file = folder / name
            return file.read_text() if file.exists() else ""

        status = int(text("exit") or 0)
        for command, name in (
            ("", "smi.txt"),
            (" -q -x", "query.xml"),
            (" -L", "list.txt"),
            (" topo -m", "topology.txt"),
        ):
            self.says("nvidia-smi" + command, text(name), status)
        self.says("dmesg", text("kernel.txt"))
        if text("toolkit.txt"):
            self.says("nvidia-ctk --version", text("toolkit.txt"))
        if text("version"):
            self.write("/proc/driver/nvidia/version", text("version"))
        self.write("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so." + text("library").strip())
        (self.root / "sys/bus/pci/devices").mkdir(parents=True)
        for line in text("pci").splitlines():
            address, kind = line.split()
            self.write(f"/sys/bus/pci/devices/{address}/vendor", "0x10de\n")
            self.write(f"/sys/bus/pci/devices/{address}/class", kind + "\n")
        for number in range(int(text("nvswitch") or 0)):
            self.write(f"/dev/nvidia-nvswitch{number}")
        if text("nvswitch"):
            self.says(FABRIC, "LoadState=loaded\nActiveState=active\n")
        return self

    def facts(self) -> dict[str, Any]:
        return GpuHost(self.run, str(self.root), "/usr/local/bin:/usr/bin").facts()


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


A100 = "NVIDIA A100-SXM4-80GB"
HEALTHY = {"available": True, "usable": True, "reason": None}


@pytest.mark.parametrize(
    ("machine", "expected", "count", "names", "on_the_bus", "versions"),
    [
        ("h200", HEALTHY, 1, {"NVIDIA H200"}, 1, ("580.159.04", "580.159.04", "580.159.04")),
        ("a100x4", HEALTHY, 4, {A100}, 4, ("580.159.04", "580.159.04", "580.159.04")),
        ("a100x4_held", HEALTHY, 4, {A100}, 4, ("580.159.04", "580.159.04", "580.159.04")),
        ("a100x4_mig", HEALTHY, 4, {A100}, 4, ("580.159.04", "580.159.04", "580.159.04")),
        ("a100x4_lost", HEALTHY, 3, {A100}, 4, ("580.159.04", "580.159.04", "580.159.04")),
        ("h100x8", HEALTHY, 8, {"NVIDIA H100 80GB HBM3"}, 8, ("570.158.01", "570.158.01", "570.158.01")),
        ("h200x2", HEALTHY, 2, {"NVIDIA H200"}, 2, ("580.159.04", "580.159.04", "580.159.04")),
        ("gb10", HEALTHY, 1, {"NVIDIA GB10"}, 1, ("580.95.05", "580.95.05", "580.95.05")),
        (
            "a100x4_lost_handle",
            {
                "available": False,
                "usable": False,
                "reason": "Unable to determine the device handle for GPU1: 0000:46:00.0: Unknown Error",
            },
            1,
            {None},
            4,
            (None, "580.159.04", "580.159.04"),
        ),
        (
            "a100x4_mismatch",
            {
                "available": False,
                "usable": False,
                "reason": "Failed to initialize NVML: Driver/library version mismatch",
                "nvml_library": "580.173",
            },
            0,
            set(),
            4,
            (None, "580.159.04", "580.173.02"),
        ),
        (
            "a100x4_unloaded",
            {
                "available": False,
                "usable": False,
                "reason": "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure "
                "that the latest NVIDIA driver is installed and running.",
            },
            0,
            set(),
            4,
            (None, None, "580.159.04"),
        ),
    ],
)
def test_machines(
    host: Host,
    machine: str,
    expected: dict[str, Any],
    count: int,
    names: set[str | None],
    on_the_bus: int,
    versions: tuple[str | None, ...],
) -> None:
    facts = host.plays(machine).facts()
    assert {name: facts[name] for name in expected} == expected
    assert (facts["gpu_count"], len(facts["gpus"])) == (count, count)
    assert {gpu["name"] for gpu in facts["gpus"]} == names
    assert len(facts["pci_gpus"]) == on_the_bus
    assert (facts["driver"], facts["kernel_module"]["version"], facts["library_version"]) == versions
    assert facts["kernel_module"]["loaded"] is (machine != "a100x4_unloaded")


def test_every_machine_is_in_the_table() -> None:
    [mark] = [m for m in test_machines.pytestmark if m.name == "parametrize"]
    assert {case[0] for case in mark.args[1]} == {folder.name for folder in MACHINES.iterdir() if folder.is_dir()}


def test_nvswitch(host: Host) -> None:
    facts = host.plays("h100x8").facts()
    assert facts["fabric_manager"] == {"needed": True, "active": True, "installed": True, "version": None}
    assert {(gpu["fabric_state"], gpu["fabric_status"]) for gpu in facts["gpus"]} == {("Completed", "Success")}
    assert facts["topology"]["gpu_link"] == "nvlink"


@pytest.mark.parametrize(
    ("unit", "active", "installed"),
    [
        ("LoadState=loaded\nActiveState=inactive\n", False, True),
        ("LoadState=not-found\nActiveState=inactive\n", False, False),
    ],
)
def test_fabric_manager_that_does_not_run(host: Host, unit: str, active: bool, installed: bool) -> None:
    host.plays("h100x8").says(FABRIC, unit)
    found = host.facts()["fabric_manager"]
    assert (found["needed"], found["active"], found["installed"]) == (True, active, installed)


def test_the_fabric_of_a_virtual_machine(host: Host) -> None:
    """The fabric is set up by the machine outside; there is no switch and no manager inside."""
    facts = host.plays("h200x2").facts()
    assert facts["fabric_manager"]["needed"] is True
    assert {(gpu["fabric_state"], gpu["fabric_status"]) for gpu in facts["gpus"]} == {("Completed", "Success")}
    assert facts["topology"]["links"]["GPU0"] == {"GPU1": "NV18"}


def test_what_the_driver_makes_without_a_switch(host: Host) -> None:
    """Seen on a machine with one H200 and no NVSwitch."""
    host.plays("h200").write("/proc/driver/nvidia-nvswitch/permissions")
    host.write("/dev/nvidia-nvswitchctl")
    assert host.facts()["fabric_manager"]["needed"] is False


def test_no_nvswitch_needs_no_fabric_manager(host: Host) -> None:
    found = host.plays("a100x4").facts()["fabric_manager"]
    assert found == {"needed": False, "active": None, "installed": None, "version": None}


def test_mig_devices_get_uuid_and_profile(host: Host) -> None:
    gpu = host.plays("a100x4_mig").facts()["gpus"][0]
    assert (gpu["mig_mode"], len(gpu["mig_devices"])) == ("enabled", 2)
    for device in gpu["mig_devices"]:
        assert device["uuid"].startswith("MIG-")
        assert (device["profile"], device["memory_total_mib"]) == ("3g.40gb", 40192)
    assert "nvidia-smi -L" in host.asked


def test_a_lost_gpu_is_in_the_kernel_log_and_on_the_bus(host: Host) -> None:
    facts = host.plays("a100x4_lost").facts()
    assert [xid["code"] for xid in facts["kernel_log"]["xid"]] == [79, 154]
    assert "0000:46:00.0" in facts["pci_gpus"]
    assert [gpu["bus_id"] for gpu in facts["gpus"]] == ["00000000:07:00.0", "00000000:85:00.0", "00000000:C7:00.0"]


def test_healthy_machines_are_asked_once(host: Host) -> None:
    host.plays("a100x4").facts()
    assert [command for command in host.asked if command.startswith("nvidia-smi")] == [
        "nvidia-smi -q -x",
        "nvidia-smi topo -m",
    ]


def test_the_table_helps_out(host: Host) -> None:
    host.plays("a100x4").says("nvidia-smi -q -x", "Segmentation fault", 139)
    facts = host.facts()
    assert (facts["available"], facts["gpu_count"]) == (True, 4)


def test_a_tool_that_says_nothing(host: Host) -> None:
    host.says("nvidia-smi -q -x", "", 139)
    host.says("nvidia-smi", "", 139)
    facts = host.facts()
    assert (facts["available"], facts["reason"]) == (False, "nvidia-smi ended with status 139 and said nothing")


def test_a_tool_that_hangs_is_not_waited_for_again(host: Host) -> None:
    host.says("nvidia-smi -q -x", "", 124)
    facts = host.facts()
    assert (facts["available"], facts["reason"]) == (False, "nvidia-smi did not end within 60 s")
    assert [command for command in host.asked if command.startswith("nvidia-smi")] == ["nvidia-smi -q -x"]


def test_a_bare_host(host: Host) -> None:
    facts = host.facts()
    assert (facts["available"], facts["usable"], facts["reason"]) == (False, False, "nvidia-smi is not installed")
    assert (facts["gpus"], facts["processes"], facts["pci_gpus"], facts["library_version"]) == ([], [], None, None)
    assert facts["kernel_module"] == {"loaded": False, "version": None, "flavour": None}
    assert facts["kernel_log"] == {"read": False, "xid": [], "faults": []}
    assert facts["docker"]["error"] == "docker: No such file or directory"
    assert facts["toolkit"] == {
        "installed": False,
        "version": None,
        "runtime_hook": False,
        "runtime": False,
        "dev_char_links": None,
    }
    assert facts["packages"] == {"manager": None, "driver": [], "unattended": None}
    assert facts["topology"] == {"links": {}, "nics": {}, "gpu_link": None}


def test_a_gpu_without_a_driver_is_on_the_bus(host: Host) -> None:
    for address, vendor, kind in (
        ("0000:01:00.0", "0x10de", "0x030000"),
        ("0000:01:00.1", "0x10de", "0x040300"),
        ("0000:02:00.0", "0x8086", "0x030000"),
    ):
        host.write(f"/sys/bus/pci/devices/{address}/vendor", vendor + "\n")
        host.write(f"/sys/bus/pci/devices/{address}/class", kind + "\n")
    assert host.facts()["pci_gpus"] == ["0000:01:00.0"]


@pytest.mark.parametrize(
    ("cgroup", "ps", "owner"),
    [
        (
            f"0::/system.slice/docker-{CONTAINER}.scope\n",
            f"{CONTAINER}\ttandem-chat-a\tlab\n",
            ("tandem-chat-a", "lab"),
        ),
        (f"0::/system.slice/docker-{CONTAINER}.scope\n", f"{CONTAINER}\tother\t\n", ("other", None)),
        (f"0::/system.slice/docker-{CONTAINER}.scope\n", "", (CONTAINER[:12], None)),
        ("0::/user.slice\n", f"{CONTAINER}\tother\t\n", (None, None)),
        (None, "", (None, None)),
    ],
)
def test_who_holds_the_memory(host: Host, cgroup: str | None, ps: str, owner: tuple[str | None, str | None]) -> None:
    host.plays("a100x4_held").says(DOCKER_PS, ps)
    if cgroup:
        host.write("/proc/2918311/cgroup", cgroup)
    [process] = host.facts()["processes"]
    assert (process["pid"], process["gpu_index"], process["memory_mib"]) == (2918311, 2, 41412)
    assert (process["container"], process["environment"]) == owner


@pytest.mark.parametrize(
    ("journal", "ring", "read", "codes"),
    [
        ("[1.0] host kernel: NVRM: Xid (PCI:0000:01:00): 79, x\n", None, True, [79]),
        ("-- No entries --\n", "[1.0] NVRM: Xid (PCI:0000:01:00): 31, x\n", True, [31]),
        ("[1.0] host kernel: usb\n", "[1.0] NVRM: Xid (PCI:0000:01:00): 31, x\n", True, [31]),
        ("[1.0] host kernel: usb\n", None, True, []),
        (None, None, False, []),
    ],
)
def test_kernel_log(host: Host, journal: str | None, ring: str | None, read: bool, codes: list[int]) -> None:
    if journal:
        host.says(JOURNAL, journal)
    if ring:
        host.says("dmesg", ring)
    else:
        host.says("dmesg", "", 1, "dmesg: read kernel buffer failed: Operation not permitted")
    log = host.facts()["kernel_log"]
    assert (log["read"], [xid["code"] for xid in log["xid"]]) == (read, codes)


def test_docker_and_the_way_to_the_gpus(host: Host) -> None:
    host.plays("h200").says(DOCKER_INFO, json.dumps(INFO), 0, "WARNING: no swap limit")
    host.write("/etc/cdi/nvidia.yaml", (FIXTURES / "smi" / "cdi_nvidia.txt").read_text())
    host.write("/etc/cdi/README", "kind: nvidia.com/gpu\ndevices:\n- name: none\n")
    host.write("/usr/bin/nvidia-container-runtime-hook")
    (host.root / "usr/bin/nvidia-container-runtime-hook").chmod(0o755)
    host.write("/usr/bin/nvidia-container-runtime")
    host.says("nvidia-ctk --version", "NVIDIA Container Toolkit CLI version 1.18.1\ncommit: efe\n")
    facts = host.facts()
    docker = facts["docker"]
    assert (docker["available"], docker["runtimes"], docker["cgroup_driver"]) == (True, ["nvidia", "runc"], "systemd")
    assert (docker["cdi_devices"], docker["cdi_driver_version"]) == (
        ["nvidia.com/gpu=0", "nvidia.com/gpu=all"],
        "580.159.04",
    )
    # The runtime is there but no program: nobody may run it.
    assert facts["toolkit"] == {
        "installed": True,
        "version": "1.18.1",
        "runtime_hook": True,
        "runtime": False,
        "dev_char_links": None,
    }


@pytest.mark.parametrize(("target", "found"), [("../nvidia0", True), ("../null", False)])
def test_links_to_the_devices(host: Host, target: str, found: bool) -> None:
    host.write("/dev/nvidia0")
    (host.root / "dev/char").mkdir()
    (host.root / "dev/char/195:0").symlink_to(target)
    host.write("/dev/char/file")
    assert host.facts()["toolkit"]["dev_char_links"] is found


def test_the_library_that_the_link_leads_to(host: Host) -> None:
    for version in ("570.1.2", "580.9.9"):
        host.write("/usr/lib64/libnvidia-ml.so." + version)
    assert host.facts()["library_version"] == "580.9.9"
    (host.root / "usr/lib64/libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.570.1.2")
    assert host.facts()["library_version"] == "570.1.2"


def test_packages_of_apt(host: Host) -> None:
    host.says(
        DPKG,
        "nvidia-driver-580\t580.1-1\tinstall ok installed\nnvidia-fabricmanager-580\t580.1.2-1\tinstall ok installed\n"
        "vim\t9\tinstall ok installed\n",
    )
    host.says("apt-mark showhold", "nvidia-driver-580\n")
    host.says(POLICY, 'APT::Periodic::Unattended-Upgrade "1";\n')
    facts = host.facts()
    assert facts["packages"] == {
        "manager": "apt",
        "driver": [
            {"name": "nvidia-driver-580", "version": "580.1-1", "held": True},
            {"name": "nvidia-fabricmanager-580", "version": "580.1.2-1", "held": False},
        ],
        "unattended": True,
    }
    assert facts["fabric_manager"]["version"] == "580.1.2"


def test_packages_of_dnf(host: Host) -> None:
    host.says(RPM, "nvidia-driver\t580.1-1\nbash\t5\n")
    host.says("systemctl is-enabled dnf-automatic.timer", "disabled\n", 1)
    assert host.facts()["packages"] == {
        "manager": "dnf",
        "driver": [{"name": "nvidia-driver", "version": "580.1-1", "held": False}],
        "unattended": False,
    }
