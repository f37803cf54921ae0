# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether packages, disks, limits and clock of a host are as they must be. One function a check."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.gpu_host.check import (
    Finding,
    Host,
    failed,
    listing,
    not_checked,
    not_needed,
    passed,
)

DOCKER_ROOT = "/var/lib/docker"
# Where image_load puts the archive on the node.
ARCHIVE_FOLDER = "/var/tmp"  # noqa: S108
# An unpacked image takes somewhat more than the sum of its layers.
UNPACKED = 1.1
# By how much compression makes layers of an image with CUDA libraries smaller, at most.
COMPRESSION = 3.0
UNLIMITED = -1
# vLLM raises its own soft limit of open files to this, where the hard limit is not lower.
ENGINE_NOFILE = 65535
ENABLE_NTP = "Run 'timedatectl set-ntp true' on the node, or set up chrony there"


def driver_packages(host: Host) -> Finding:
    """No unattended upgrade may exchange the driver's library under running containers."""
    facts = host.section("packages")
    packages = [p for p in facts.get("driver") or () if p.get("name")]
    loose = [str(p["name"]) for p in packages if not p.get("held")]
    if not facts.get("manager"):
        return not_checked("neither apt nor dnf answers")
    if not packages:
        return not_checked("the driver is not installed from packages")
    if not loose:
        return passed("held: " + listing([p["name"] for p in packages]))
    if facts.get("unattended") is None:
        return not_checked("whether unattended upgrades are on was not read")
    if not facts["unattended"]:
        return passed("not held, and unattended upgrades are off")
    hold = "dnf versionlock add" if facts["manager"] == "dnf" else "apt-mark hold"
    return failed("not held: " + listing(loose), f"Run '{hold} {' '.join(loose)}' on the node")


def disk_image(host: Host) -> Finding:
    """There is room for the image, and for its archive while it is loaded."""
    image = host.image
    if image.get("found") and image.get("source") == "docker":
        return passed("the image is there")
    size = image.get("size_mib")
    if not image.get("found") or size is None:
        return not_checked(str(image.get("reason") or "the size of the image was not read"))
    root = _disk(host, str(host.section("docker").get("root_dir") or DOCKER_ROOT))
    if root is None:
        return not_checked("free space in Docker's folder was not read")
    # Where only the compressed layers' size is known, the least and the most that it may become.
    # While it loads, Docker holds a copy of the archive beside what it unpacks of it.
    unpacked = (UNPACKED, UNPACKED) if image.get("size_exact", True) else (UNPACKED, UNPACKED * COMPRESSION)
    least, most = (_needs(root, _disk(host, ARCHIVE_FOLDER), (1 + f) * size, float(size)) for f in unpacked)
    short = [(disk, need) for disk, need in least if disk["free_mib"] < need]
    words = listing(["%s free in %s" % (_gib(disk["free_mib"]), disk["path"]) for disk, _need in short or least])
    if short:
        wanted = listing(["%s in %s" % (_gib(need), disk["path"]) for disk, need in short])
        wanted = f"loading the image of {_gib(size)} needs {wanted}"
        return failed(words, "Make room there, for example with 'docker image prune' on the node", wanted=wanted)
    if any(disk["free_mib"] < need for disk, need in most):
        return not_checked(f"{words}; how large the image of {_gib(size)} compressed becomes is not known")
    return passed(words)


def _needs(
    root: Mapping[str, Any], folder: Mapping[str, Any] | None, image: float, archive: float
) -> list[tuple[Mapping[str, Any], float]]:
    """How many MiB each file system must have free for the unpacked image and, while it is loaded, its archive."""
    if folder is None:
        return [(root, image)]
    # Equal to the MiB means one file system: it has to hold both.
    if (folder["free_mib"], folder.get("total_mib")) == (root["free_mib"], root.get("total_mib")):
        return [(root, image + archive)]
    return [(root, image), (folder, archive)]


def disk_model(host: Host) -> Finding:
    """The model directories are there; Tandem copies none, and the host's contract says what a missing one needs."""
    disks = {path: _disk(host, path, need_free=False) for path in host.models}
    if not disks:
        return not_needed("no replica runs here")
    unread = [path for path, disk in disks.items() if disk is None]
    if unread:
        return not_checked(f"{listing(unread)} was not looked at")
    missing = [path for path, disk in disks.items() if disk and not disk.get("exists")]
    if missing:
        return not_needed(f"{listing(missing)} is not there, which the check of the contract tells")
    return passed("there: " + listing(disks))


def _disk(host: Host, path: str, need_free: bool = True) -> Mapping[str, Any] | None:
    """What host_info told of a path; None where it told nothing."""
    for disk in host.system.get("disks") or ():
        if disk.get("path") == path and (disk.get("free_mib") is not None or not need_free):
            found: Mapping[str, Any] = disk
            return found
    return None


def _gib(mib: float) -> str:
    return "%.1f GiB" % (mib / 1024)


def nofile(host: Host) -> Finding:
    """Containers may open enough files."""
    wanted, found, hard = host.settings.nofile, _limits(host).get("nofile"), _limits(host).get("nofile_hard")
    if hard is not None and (hard == UNLIMITED or hard >= ENGINE_NOFILE):
        found = hard
    if found is None:
        return not_checked("the limit that containers inherit was not read")
    if found == UNLIMITED or found >= wanted:
        return passed("unlimited" if found == UNLIMITED else str(found))
    remedy = (
        'Set "default-ulimits": {"nofile": {"Name": "nofile", "Soft": %d, "Hard": %d}} in daemon.json, '
        "or LimitNOFILE in docker.service, and restart Docker"
    ) % (wanted, wanted)
    return failed(str(found), remedy, wanted=f"must be at least {wanted}")


def memlock(host: Host) -> Finding:
    """Containers of replicas over several nodes may lock memory, as RDMA needs."""
    if not host.rank_group:
        return not_needed("no replica here spans several nodes")
    if not host.node.gpus:
        return not_needed("CPU lab mode: no device here locks memory")
    found = _limits(host).get("memlock")
    if found is None:
        return not_checked("the limit that containers inherit was not read")
    if found == UNLIMITED:
        return passed("unlimited")
    remedy = (
        'Set "default-ulimits": {"memlock": {"Name": "memlock", "Soft": -1, "Hard": -1}} in daemon.json, '
        "or LimitMEMLOCK=infinity in docker.service, and restart Docker"
    )
    return failed("%d KiB" % (found // 1024), remedy)


def _limits(host: Host) -> Mapping[str, Any]:
    found = host.system.get("limits")
    return found if isinstance(found, Mapping) else {}


def clock(host: Host) -> Finding:
    """The host's clock agrees with the other hosts'.

    What counts is the difference to the median of all hosts, less what the measurement is uncertain by. Of an even
    number of hosts the control node's clock decides the median: of two that differ, one alone could not be told wrong.
    A clock that is not synchronised but agrees passes; one that could not be compared must be synchronised.
    """
    system, limit = host.system, host.settings.clock_tolerance_s
    told = system.get("clock")
    synchronised = told.get("synchronised") if isinstance(told, Mapping) else None
    offset, offsets = system.get("clock_offset_s"), host.offsets
    words = {True: "synchronised", False: "not synchronised", None: "synchronisation not known"}[synchronised]
    if offset is None:
        if synchronised is None:
            return not_checked("the clock was not read")
        if synchronised:
            return passed("synchronised; the difference to the others was not measured")
        return failed("not synchronised", ENABLE_NTP, wanted="must be synchronised, as it could not be compared")
    if len(offsets) < 2:
        return not_needed("there is no other host; " + words)
    middle = median(offsets if len(offsets) % 2 else [*offsets, 0.0])
    apart = offset - middle
    doubt = system.get("clock_uncertainty_s") or 0.0
    value = "%.1f s %s the other hosts, %s" % (abs(apart), "ahead of" if apart > 0 else "behind", words)
    if abs(apart) - doubt > limit:
        return failed(value, ENABLE_NTP, wanted=f"must agree with them within {limit:g} s")
    return passed("within %.1f s of the other hosts, %s" % (max(abs(apart), 0.1), words))
