# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what tells of the driver outside nvidia-smi: module, libraries, packages, the container toolkit."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

MODULE = re.compile(r"NVIDIA UNIX\b(?P<words>.*?)\bKernel Module\b.*?\b(?P<version>\d+\.\d[\d.]*)")
LIBRARY = re.compile(r"lib(?:nvidia-ml|cuda)\.so\.(\d+\.\d[\d.]*)$")
TOOLKIT = re.compile(r"version:?\s+v?(\d[\w.+~-]*)", re.IGNORECASE)
# Packages whose upgrade replaces the driver's libraries or module under running containers.
DRIVER_PACKAGE = re.compile(
    r"(?:nvidia-(?:driver|dkms|kernel|utils|open|headless|compute|firmware|persistenced|fabricmanager|modprobe|legacy|imex)|"
    r"libnvidia-(?!container|egl-wayland)|libcuda1|linux-(?:modules|objects|signatures)-nvidia|cuda-drivers|"
    r"(?:kmod|akmod|dkms)-nvidia|nvidia-kmod|xorg-x11-drv-nvidia|libnvsdm|libcudadebugger)"
)
FABRIC_MANAGER = re.compile(r"nvidia-fabric-?manager(?:-\d+)?$")


def kernel_module(text: str | None, loaded: bool | None) -> dict[str, Any]:
    """{loaded, version, flavour}, of /proc/driver/nvidia/version or of the module's line in the kernel log.

    flavour: "open", "proprietary" or None.
    """
    found = MODULE.search(text or "")
    if not found:
        return {"loaded": loaded, "version": None, "flavour": None}
    flavour = "open" if "Open" in found["words"] else "proprietary"
    return {"loaded": loaded, "version": found["version"], "flavour": flavour}


def newest(versions: Iterable[str]) -> str | None:
    """The highest of some versions; None when there are none."""
    return max(versions, key=lambda version: [int(part) for part in re.findall(r"\d+", version)], default=None)


def library_version(names: Iterable[str]) -> str | None:
    """The driver version in names such as libnvidia-ml.so.580.159.04; the newest where there are several."""
    return newest(found.group(1) for found in map(LIBRARY.search, names) if found)


def toolkit_version(text: str) -> str | None:
    """The version in what `nvidia-ctk --version` prints."""
    found = TOOLKIT.search(text)
    return found.group(1) if found else None


def dpkg_packages(text: str, holds: str) -> list[dict[str, Any]]:
    """Driver packages of lines "name, tab, version, tab, status", of those that are installed. holds: a name a line."""
    held = {line.strip().partition(":")[0] for line in holds.splitlines()}
    found = []
    for line in text.splitlines():
        name, _tab, rest = line.partition("\t")
        version, _tab, status = rest.partition("\t")
        if DRIVER_PACKAGE.match(name) and status.strip().endswith("installed") and "not-installed" not in status:
            found.append({"name": name, "version": version, "held": name in held or status.startswith("hold ")})
    return found


def rpm_packages(text: str, locks: str) -> list[dict[str, Any]]:
    """Driver packages of lines "name, tab, version". locks: the list of dnf's versionlock plugin."""
    found = []
    for line in text.splitlines():
        name, _tab, version = line.partition("\t")
        if DRIVER_PACKAGE.match(name):
            held = any(
                re.search(r"(?:^|[\s:])" + re.escape(name) + r"(?=[-\s*]|$)", lock) for lock in locks.splitlines()
            )
            found.append({"name": name, "version": version.strip(), "held": held})
    return found


def unattended(text: str) -> bool:
    """Whether `apt-config dump APT::Periodic::Unattended-Upgrade` tells of an unattended upgrade."""
    found = re.search(r'Unattended-Upgrade\s+"([^"]*)"', text)
    return bool(found) and found is not None and found.group(1).strip() not in ("", "0", "never", "no", "false")


def fabric_manager_version(packages: Iterable[dict[str, Any]]) -> str | None:
    """Upstream version of the fabric manager's package, "580.159.04" of "580.159.04-0ubuntu1"; None when not there."""
    versions = [package["version"] for package in packages if FABRIC_MANAGER.match(package["name"])]
    numbers = [re.search(r"\d+\.\d[\d.]*", version) for version in versions]
    return newest(found.group().rstrip(".") for found in numbers if found)
