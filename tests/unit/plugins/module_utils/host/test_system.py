# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.host import system as system_module
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker_daemon import Process
from ansible_collections.tandem.vllm.plugins.module_utils.host.system import System, parent_of_containers

# As timedatectl of systemd 252 and chronyc 4.3 answer, and where there is no systemd or no chronyd.
YES, NO = (0, "yes\n", ""), (0, "no\n", "")
NO_BUS = (1, "", "System has not been booted with systemd as init system (PID 1). Can't operate.\n")
MISSING = (127, "", "chronyc: No such file or directory")
NO_CHRONYD = (1, "506 Cannot talk to daemon\n", "")
TRACKING = """\
Reference ID    : C0A80001 (192.168.0.1)
Stratum         : 3
Ref time (UTC)  : Tue Dec 01 10:00:00 2026
System time     : 0.000012345 seconds slow of NTP time
Leap status     : %s
"""
CHRONY, CHRONY_LOST = (0, TRACKING % "Normal", ""), (0, TRACKING % "Not synchronised", "")
LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max open files            524288               524288               files
Max locked memory         8388608              8388608              bytes
"""


class Host:
    """A host's files under a folder, and its answers to commands."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.answers = {"timedatectl": NO_BUS, "chronyc": MISSING, "systemctl": (1, "", "")}
        self.asked: list[list[str]] = []

    @property
    def system(self) -> System:
        return System(self.run, str(self.root))

    def run(self, argv: Sequence[str]) -> tuple[int, str, str]:
        self.asked.append(list(argv))
        return self.answers[argv[0]]

    def write(self, path: str, text: str) -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def process(self, pid: int, name: str, parent: int = 1, argv: str = "", limits: str = LIMITS) -> None:
        self.write(f"/proc/{pid}/comm", name + "\n")
        self.write(f"/proc/{pid}/stat", f"{pid} ({name}) S {parent} 0\n")
        self.write(f"/proc/{pid}/cmdline", argv.replace(" ", "\0"))
        self.write(f"/proc/{pid}/limits", limits)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.mark.parametrize(
    ("timedatectl", "chronyc", "synchronised"),
    [
        (YES, CHRONY_LOST, True),
        (NO, MISSING, False),
        (NO, NO_CHRONYD, False),
        # chronyd without rtcsync keeps the clock, and does not tell the kernel so.
        (NO, CHRONY, True),
        (NO, CHRONY_LOST, False),
        (NO_BUS, CHRONY, True),
        (NO_BUS, CHRONY_LOST, False),
        (NO_BUS, MISSING, None),
        ((0, "\n", ""), MISSING, None),
        (MISSING, (0, "not what chronyc says", ""), None),
    ],
)
def test_synchronised(
    host: Host, timedatectl: tuple[int, str, str], chronyc: tuple[int, str, str], synchronised: bool | None
) -> None:
    host.answers.update(timedatectl=timedatectl, chronyc=chronyc)
    assert host.system.synchronised() is synchronised
    assert host.asked[0] == ["timedatectl", "show", "--property=NTPSynchronized", "--value"]
    assert host.asked[1:] == ([] if timedatectl is YES else [["chronyc", "-n", "tracking"]])


@pytest.mark.parametrize(
    ("path", "nearest", "exists"),
    [
        ("/models", "models", True),
        ("/models/", "models", True),
        ("/models/big/part", "models", False),
        ("/nowhere/at/all", "", False),
        ("/models/file/below", "models/file", False),
    ],
)
def test_disk(host: Host, monkeypatch: pytest.MonkeyPatch, path: str, nearest: str, exists: bool) -> None:
    host.write("/models/file", "")
    looked: list[str] = []

    def statvfs(place: str) -> SimpleNamespace:
        looked.append(os.path.normpath(place))
        return SimpleNamespace(f_bavail=3 * 2**18 - 1, f_bfree=2**19, f_blocks=2**20, f_frsize=4096, f_bsize=1)

    monkeypatch.setattr(system_module.os, "statvfs", statvfs)
    # Free is what is left for others than root, and rounded down.
    assert host.system.disk(path) == {"path": path, "exists": exists, "free_mib": 3071, "total_mib": 4096}
    assert looked == [os.path.normpath(host.root / nearest)]


def test_disk_that_does_not_answer(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def statvfs(place: str) -> None:
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr(system_module.os, "statvfs", statvfs)
    assert host.system.disk("/") == {"path": "/", "exists": True, "free_mib": None, "total_mib": None}


@pytest.mark.parametrize(
    ("text", "mib"), [("MemTotal:       24691712 kB\nMemFree:  1 kB\n", 24113), ("", None), ("MemFree: 1 kB\n", None)]
)
def test_memory(host: Host, text: str, mib: int | None) -> None:
    host.write("/proc/meminfo", text)
    assert host.system.memory_mib() == mib


def test_limits_without_docker(host: Host) -> None:
    assert host.system.limits() == {"nofile": None, "nofile_hard": None, "memlock": None}
    assert host.asked == []


def test_limits_of_containerd_and_its_unit(host: Host) -> None:
    host.process(40, "containerd")
    host.process(50, "dockerd", argv="dockerd --containerd=/run/containerd/containerd.sock", limits="")
    shown = "MainPID=40\nLimitNOFILE=524288\nLimitNOFILESoft=1024\nLimitMEMLOCK=8388608\n\nMainPID=50\nLimitNOFILE=9\n"
    host.answers["systemctl"] = (0, shown, "")
    assert host.system.limits() == {"nofile": 1024, "nofile_hard": 524288, "memlock": 8388608}
    assert host.asked == [
        [
            "systemctl",
            "show",
            "containerd.service",
            "docker.service",
            "--property=MainPID,LimitNOFILE,LimitNOFILESoft,LimitMEMLOCK,LimitMEMLOCKSoft",
        ]
    ]


def test_limits_of_dockers_own_containerd_are_those_of_dockers_unit(host: Host) -> None:
    host.process(50, "dockerd")
    host.process(60, "containerd", parent=50)
    host.answers["systemctl"] = (0, "MainPID=0\n\nMainPID=50\nLimitNOFILE=524288\nLimitNOFILESoft=2048\n", "")
    assert host.system.limits() == {"nofile": 2048, "nofile_hard": 524288, "memlock": 8388608}


def test_limits_without_systemd(host: Host) -> None:
    host.process(50, "dockerd")
    assert host.system.limits() == {"nofile": 524288, "nofile_hard": 524288, "memlock": 8388608}


ULIMITS = '{"default-ulimits": {"memlock": {"Name": "memlock", "Soft": -1, "Hard": -1}}}'


@pytest.mark.parametrize(
    ("path", "argv", "text", "memlock"),
    [
        ("/etc/docker/daemon.json", "dockerd", ULIMITS, -1),
        ("/snap/daemon.json", "dockerd --config-file=/snap/daemon.json", ULIMITS, -1),
        ("/etc/docker/daemon.json", "dockerd --config-file=/snap/daemon.json", ULIMITS, 8388608),
        ("/etc/docker/daemon.json", "dockerd", ULIMITS + "}", 8388608),
        ("/etc/docker/daemon.json", "dockerd --default-ulimit memlock=7", "", 7),
    ],
)
def test_default_ulimits_come_first(host: Host, path: str, argv: str, text: str, memlock: int) -> None:
    host.process(50, "dockerd", argv=argv)
    host.write(path, text)
    assert host.system.limits() == {"nofile": 524288, "nofile_hard": 524288, "memlock": memlock}


DOCKERD, OF_DOCKERD = Process(50, 1, "dockerd", ()), Process(60, 50, "containerd", ())
SYSTEMS, OF_K3S = Process(40, 1, "containerd", ()), Process(30, 29, "containerd", ())


@pytest.mark.parametrize(
    ("found", "parent"),
    [
        ([], None),
        ([OF_K3S, SYSTEMS, DOCKERD, OF_DOCKERD], OF_DOCKERD),
        ([OF_K3S, SYSTEMS, DOCKERD], SYSTEMS),
        ([OF_K3S, DOCKERD], DOCKERD),
        ([OF_K3S], OF_K3S),
    ],
)
def test_parent_of_containers(found: list[Process], parent: Process | None) -> None:
    assert parent_of_containers(found) == parent
