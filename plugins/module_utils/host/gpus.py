# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a host's GPUs, driver, Docker and container toolkit. Changes nothing, and never fails on what it finds."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.gpu import docker_facts, driver_files
from ansible_collections.tandem.vllm.plugins.module_utils.gpu import facts as gpu_facts
from ansible_collections.tandem.vllm.plugins.module_utils.gpu.facts import Source
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import TIMED_OUT, Runner, limited
from ansible_collections.tandem.vllm.plugins.module_utils.smi import text as smi_text

LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
)
CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")
VERSION_LOCKS = ("/etc/dnf/plugins/versionlock.list", "/etc/yum/pluginconf.d/versionlock.list")
# A GPU whose firmware is stuck hangs what asks for it.
SMI_SECONDS = 60
DOCKER_PS = '{{.ID}}\t{{.Names}}\t{{.Label "tandem.environment"}}'
NVIDIA = "0x10de"
# PCI classes of display controllers: VGA and 3D.
DISPLAY = ("0x0300", "0x0302")


class GpuHost:
    """One host, read through files under `root` and commands through `run`. path: folders of programs, as in PATH."""

    def __init__(self, run: Runner, root: str = "/", path: str | None = None) -> None:
        self._run = run
        self._root = root
        self._path_variable = os.environ.get("PATH", "/usr/bin:/bin") if path is None else path

    def facts(self) -> dict[str, Any]:
        """The result of the module gpu_info, of this host."""
        smi, reason = self._smi()
        # A tool that cannot tell of the GPUs is not asked, and waited for, again.
        available = bool(smi_text.parse(smi).gpus)
        manager, packages, unattended = self._packages()
        source = Source(
            live=True,
            smi=smi,
            reason=reason,
            topology=self._output(limited(SMI_SECONDS, ["nvidia-smi", "topo", "-m"])) if available else None,
            kernel_version=self._read("/proc/driver/nvidia/version"),
            kernel_log=self._kernel_log(),
            docker_info=self._docker_info(),
            toolkit_version=self._output(["nvidia-ctk", "--version"]),
            library_version=self._library_version(),
            pci_gpus=self._pci_gpus(),
            # Numbered ones: the driver makes /dev/nvidia-nvswitchctl and the folder in /proc without a switch, too.
            nvswitch=bool(
                self._glob("/dev/nvidia-nvswitch[0-9]*") or self._glob("/proc/driver/nvidia-nvswitch/devices/*")
            ),
            fabric_unit=self._fabric_unit(),
            cdi_specs=self._cdi_specs(),
            runtime_hook=self._on_path(("nvidia-container-runtime-hook", "nvidia-container-toolkit")),
            runtime=self._on_path(("nvidia-container-runtime",)),
            dev_char_links=self._dev_char_links(),
            package_manager=manager,
            packages=packages,
            unattended=unattended,
        )
        pids = [process["pid"] for process in smi_text.parse(smi).processes if process["pid"] is not None]
        return gpu_facts.gather(source, self._containers(pids))

    def _smi(self) -> tuple[str, str | None]:
        """All that nvidia-smi says of the GPUs, and why there is nothing when it cannot be run."""
        status, said = self._said(limited(SMI_SECONDS, ["nvidia-smi", "-q", "-x"]))
        if status in TIMED_OUT:
            return said, f"nvidia-smi did not end within {SMI_SECONDS} s"
        if status == 127:
            return "", smi_text.NOT_INSTALLED
        gpus = smi_text.parse(said).gpus
        if status != 0 or not gpus:
            # The table sometimes lists what the long output stumbles over.
            more, table = self._said(limited(SMI_SECONDS, ["nvidia-smi"]))
            status = status or more
            said += "\n" + table
        if any(gpu["mig_devices"] or gpu["mig_mode"] == "enabled" for gpu in gpus):
            # Only the list names the UUIDs and profiles of MIG devices.
            said += "\n" + self._said(limited(SMI_SECONDS, ["nvidia-smi", "-L"]))[1]
        first = next((line.strip() for line in said.splitlines() if line.strip()), None)
        return said, (first or f"nvidia-smi ended with status {status} and said nothing") if status else None

    def _kernel_log(self) -> str | None:
        """The kernel's log of this boot; None when it may not be read."""
        journal = self._output(["journalctl", "--dmesg", "--boot", "--no-pager", "--output=short-monotonic"])
        if journal and "-- No entries --" in journal:
            journal = None
        if journal and "NVRM" in journal:
            return journal
        ring = self._output(["dmesg"])
        return ring if ring and (journal is None or "NVRM" in ring) else journal

    def _docker_info(self) -> str:
        """What `docker info` says; its complaint when it fails without a word on standard output."""
        _status, said = self._said(["docker", "info", "--format", "{{json .}}"])
        return said

    def _containers(self, pids: Iterable[int]) -> dict[int, tuple[str, str | None]]:
        """pid -> name and environment of the container that the process runs in."""
        ids = {}
        for pid in pids:
            identity = docker_facts.container_id(self._read(f"/proc/{pid}/cgroup") or "")
            if identity:
                ids[pid] = identity
        if not ids:
            return {}
        names = docker_facts.parse_ps(self._output(["docker", "ps", "--no-trunc", "--format", DOCKER_PS]) or "")
        # A container that Docker does not list (of another engine, or gone meanwhile) is told by its id.
        return {pid: names.get(identity, (identity[:12], None)) for pid, identity in ids.items()}

    def _library_version(self) -> str | None:
        """Version of the driver's libraries on the disk: what the next container gets."""
        names: list[str] = []
        for folder in LIBRARY_FOLDERS:
            for link in self._glob(folder + "/libnvidia-ml.so.1"):
                version = driver_files.library_version([os.path.basename(os.path.realpath(link))])
                if version:
                    return version
            names += self._glob(folder + "/libnvidia-ml.so.*") + self._glob(folder + "/libcuda.so.*")
        return driver_files.library_version(names)

    def _pci_gpus(self) -> list[str] | None:
        """Bus ids of NVIDIA's display controllers; None when the bus cannot be read."""
        if not self._is_there("/sys/bus/pci/devices"):
            return None
        found = []
        for device in self._glob("/sys/bus/pci/devices/*"):
            vendor = self._text(os.path.join(device, "vendor"))
            kind = self._text(os.path.join(device, "class"))
            if (vendor or "").strip() == NVIDIA and (kind or "").startswith(DISPLAY):
                found.append(os.path.basename(device))
        return sorted(found)

    def _fabric_unit(self) -> dict[str, str]:
        """LoadState and ActiveState of the fabric manager's unit; empty where there is no systemd."""
        shown = self._output(["systemctl", "show", "nvidia-fabricmanager.service", "--property=LoadState,ActiveState"])
        return dict(line.strip().split("=", 1) for line in (shown or "").splitlines() if "=" in line)

    def _cdi_specs(self) -> tuple[str, ...]:
        """The CDI specifications on the disk."""
        files = [name for folder in CDI_FOLDERS for name in self._glob(folder + "/*")]
        # /var/run is a link to /run on most hosts; other links may lead to the same file as well.
        unique = {os.path.realpath(name): name for name in files if name.endswith((".yaml", ".yml", ".json"))}
        return tuple(self._text(name) or "" for name in unique.values())

    def _dev_char_links(self) -> bool | None:
        """Whether /dev/char has links to the NVIDIA devices; None without such devices."""
        if not self._is_there("/dev/char") or not self._glob("/dev/nvidia*"):
            return None
        for name in self._glob("/dev/char/*"):
            try:
                target = os.readlink(name)
            except OSError:  # no link, or gone meanwhile
                continue
            if "nvidia" in target:
                return True
        return False

    def _packages(self) -> tuple[str | None, list[dict[str, Any]], bool | None]:
        """The package manager, the driver's packages, and whether upgrades happen unattended."""
        listed = self._output(["dpkg-query", "-W", "-f", "${Package}\\t${Version}\\t${Status}\\n"])
        if listed:
            holds = self._output(["apt-mark", "showhold"]) or ""
            policy = self._output(["apt-config", "dump", "APT::Periodic::Unattended-Upgrade"])
            return (
                "apt",
                driver_files.dpkg_packages(listed, holds),
                None if policy is None else driver_files.unattended(policy),
            )
        listed = self._output(["rpm", "-qa", "--qf", "%{NAME}\\t%{VERSION}-%{RELEASE}\\n"])
        if listed:
            locks = "\n".join(self._read(name) or "" for name in VERSION_LOCKS)
            _status, timer = self._said(["systemctl", "is-enabled", "dnf-automatic.timer"])
            return "dnf", driver_files.rpm_packages(listed, locks), timer.strip() == "enabled"
        return None, [], None

    def _on_path(self, names: Iterable[str]) -> bool:
        """Whether a program of one of these names is in a folder of PATH."""
        folders = [folder for folder in self._path_variable.split(":") if folder]
        return any(os.access(self._path(os.path.join(folder, name)), os.X_OK) for folder in folders for name in names)

    def _said(self, argv: list[str]) -> tuple[int, str]:
        """Exit status of a program, and all it printed; 127 and its error when it cannot be started."""
        status, out, err = self._run(argv)
        return status, out + ("\n" if out and err else "") + err

    def _output(self, argv: list[str]) -> str | None:
        """What a program printed; None when it failed."""
        status, out, _err = self._run(argv)
        return out if status == 0 else None

    def _path(self, path: str) -> str:
        return os.path.join(self._root, path.lstrip("/"))

    def _glob(self, pattern: str) -> list[str]:
        """The names under the root that match, in order."""
        return sorted(glob.glob(os.path.join(glob.escape(self._root), pattern.lstrip("/"))))

    def _is_there(self, path: str) -> bool:
        return os.path.exists(self._path(path))

    def _read(self, path: str) -> str | None:
        return self._text(self._path(path))

    def _text(self, name: str) -> str | None:
        """The text of a file; None when it is not there, or gone meanwhile, or not ours to read."""
        try:
            with open(name, encoding="utf-8", errors="replace") as stream:
                return stream.read()
        except OSError:
            return None
