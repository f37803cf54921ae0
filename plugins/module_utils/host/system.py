# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what every deployment asks of a host: clock, disks, memory, and the limits of its containers."""

from __future__ import annotations

import os
import re
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils import container_limits, daemon_json
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import Runner
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker_daemon import Process, processes, read

MIB = 2**20


class System:
    """One host, read through files under `root` and commands through `run` (which answers 127 for what is missing)."""

    def __init__(self, run: Runner, root: str = "/") -> None:
        self._run = run
        self._root = root

    def synchronised(self) -> bool | None:
        """Whether something keeps the clock in time; None when nothing on the host can tell.

        systemd asks the kernel. chrony tells the kernel only where it is set up to (rtcsync), so it is asked as well.
        """
        status, out, _err = self._run(["timedatectl", "show", "--property=NTPSynchronized", "--value"])
        kernel = {"yes": True, "no": False}.get(out.strip()) if status == 0 else None
        if kernel:
            return True
        status, out, _err = self._run(["chronyc", "-n", "tracking"])
        leap = re.search(r"^Leap status\s*:\s*(.+?)\s*$", out, re.MULTILINE) if status == 0 else None
        return leap[1] != "Not synchronised" if leap else kernel

    def disk(self, path: str) -> dict[str, Any]:
        """{path, exists, free_mib, total_mib} of the file system that `path` is on, or would be made on."""
        place = self._path(path)
        nearest = place
        while not os.path.exists(nearest) and nearest != os.path.dirname(nearest):
            nearest = os.path.dirname(nearest)
        found: dict[str, Any] = {"path": path, "exists": nearest == place, "free_mib": None, "total_mib": None}
        try:
            stat = os.statvfs(nearest)
        except OSError:  # a share that does not answer, say
            return found
        return {
            **found,
            "free_mib": stat.f_bavail * stat.f_frsize // MIB,
            "total_mib": stat.f_blocks * stat.f_frsize // MIB,
        }

    def memory_mib(self) -> int | None:
        """The host's memory in MiB."""
        total = re.search(rb"^MemTotal:\s+(\d+) kB", read(self._root, "/proc/meminfo"), re.MULTILINE)
        return int(total[1]) // 1024 if total else None

    def limits(self) -> dict[str, int | None]:
        """{nofile, nofile_hard: files; memlock: bytes} that a container gets from Docker; -1 is no limit."""
        found = processes(("containerd", "dockerd"), self._root)
        docker = next((process for process in found if process.name == "dockerd"), None)
        argv = docker.argv if docker else ()
        try:
            settings = daemon_json.parse(read(self._root, container_limits.config_file(argv))).settings
        except daemon_json.DaemonJsonError:  # Docker would not start with it: it gives no limits
            settings = {}
        parent = parent_of_containers(found)
        process, unit = {}, {}
        if parent:
            process = container_limits.of_process(read(self._root, f"/proc/{parent.pid}/limits").decode())
            keys = "MainPID,LimitNOFILE,LimitNOFILESoft,LimitMEMLOCK,LimitMEMLOCKSoft"
            _status, out, _err = self._run(
                ["systemctl", "show", "containerd.service", "docker.service", "--property=" + keys]
            )
            unit = container_limits.of_unit(out, (parent.pid, parent.parent))
        return container_limits.container_limits(process, unit, container_limits.default_ulimits(settings, argv))

    def _path(self, path: str) -> str:
        return os.path.normpath(os.path.join(self._root, path.lstrip("/")))


def parent_of_containers(found: list[Process]) -> Process | None:
    """The daemon whose children Docker's containers are: Docker's own containerd, else the system's, else dockerd.

    A host may have another containerd, Kubernetes' for example, that is neither dockerd's child nor the system's.
    """
    dockers = {process.pid for process in found if process.name == "dockerd"}

    def rank(process: Process) -> int:
        if process.name == "dockerd":
            return 2
        return 0 if process.parent in dockers else 1 if process.parent == 1 else 3

    return min(found, key=rank, default=None)
