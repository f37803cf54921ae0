# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wheels by their file names: what they are made for, and whether a target can install them.

The rules are those of PEP 427 (file names), 425 (tags), 600 and its forerunners (manylinux), 656 (musllinux) and
384/803 (stable ABIs). Written here because the library `packaging` is not on the servers; a test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.bundle import fields

SDIST = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.Z", ".tar", ".zip")
# What can be wrong with a file of a wheelhouse, in the order in which it is told, and what to do.
KINDS: Mapping[str, str] = {
    "sdist": "Build a wheel of it on a machine like the target, or pin a version that has one",
    "foreign_platform": "Download again for the target's platform (pip download --platform, --only-binary=:all:)",
    "wrong_python": "Download again for the target's Python version and ABI",
    "glibc_too_old": "Pin a version whose wheel asks for an older glibc, or use an image with a newer one",
    "not_a_wheel": "Remove the file; only wheels may be here",
}
# The names of manylinux before PEP 600, by the glibc that they mean.
LEGACY_MANYLINUX = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
# Oldest glibc that has a tag, by machine; 2.17 on the others.
OLDEST_GLIBC = {"x86_64": (2, 5), "i686": (2, 5)}
# Only these have manylinux tags (and 32-bit ones under conditions that a name does not tell: state their tags).
MANYLINUX_MACHINES = ("x86_64", "i686", "aarch64", "ppc64", "ppc64le", "s390x", "loongarch64", "riscv64", "armv7l")
_LINUX = re.compile(r"(?:(manylinux)_(\d+)_(\d+)|(manylinux1|manylinux2010|manylinux2014)|(linux))_(.+)")
_MUSL = re.compile(r"musllinux_(\d+)_(\d+)_(.+)")
_NAME = re.compile(r"[\w.]+\Z")
_BUILD = re.compile(r"(\d+)(.*)\Z", re.ASCII)
# A version as PEP 440 has it, in any of its spellings that can stand in a file name.
_VERSION = re.compile(
    r"v?(\d+!)?\d+(\.\d+)*([_.]?(a|b|c|rc|alpha|beta|pre|preview)[_.]?\d*)?([_.]?(post|rev|r)[_.]?\d*)?"
    r"([_.]?dev[_.]?\d*)?(\+[a-z0-9]+([_.][a-z0-9]+)*)?\Z",
    re.IGNORECASE | re.ASCII,
)

_python = fields.matching(r"\d+\.\d+(\.\d+\S*)?", "must be a Python version such as 3.11.2")
_glibc = fields.matching(r"\d+\.\d+", "must be a glibc version such as 2.36")
_word = fields.matching(r"[A-Za-z0-9_]+", "must be letters, digits and _")
_tag = fields.matching(r"[A-Za-z0-9_]+-[A-Za-z0-9_]+-[A-Za-z0-9_]+", "must be a tag such as cp311-cp311-linux_x86_64")


@dataclass(frozen=True)
class Target:
    """Where wheels are to be installed.

    python: full version; implementation: "cp" for CPython; abi: as in tags (cp311); machine: as `uname -m` says;
    glibc: major.minor, None where the C library is another; tags: all that it takes, as packaging.tags.sys_tags() of
    the target lists them, the best first. Without tags they are worked out from the rest.
    """

    python: str
    implementation: str
    abi: str
    machine: str
    glibc: str | None
    tags: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, data: Any, key: str = "target") -> Target:
        """The target of a plain mapping; raises ManifestError. key: how messages call it."""
        value = fields.mapping(key, data, ("python", "implementation", "abi", "machine", "glibc"), ("tags",))
        target = cls(
            _python(f"{key}.python", value["python"]),
            _word(f"{key}.implementation", value["implementation"]),
            _word(f"{key}.abi", value["abi"]),
            _word(f"{key}.machine", value["machine"]),
            fields.optional(_glibc)(f"{key}.glibc", value["glibc"]),
            fields.items(f"{key}.tags", value.get("tags") or (), _tag),
        )
        if target.implementation != "cp" and not target.tags:
            wanted = "must be cp, for CPython; for any other Python the tags have to be stated"
            raise fields.refuse(f"{key}.implementation", target.implementation, wanted)
        return target

    @property
    def interpreter(self) -> str:
        """Its own Python tag, such as cp311."""
        return self.implementation + "".join(self.python.split(".")[:2])

    @property
    def words(self) -> str:
        """The target for people."""
        library = f"glibc {self.glibc}" if self.glibc else "no glibc"
        return f"Python {self.python} ({self.abi}), linux {self.machine}, {library}"


@dataclass(frozen=True)
class WheelName:
    """What a wheel's file name says. name: as written there; build: number and rest, or empty; the rest: tag parts."""

    name: str
    version: str
    build: tuple[int, str] | tuple[()]
    pythons: tuple[str, ...]
    abis: tuple[str, ...]
    platforms: tuple[str, ...]

    @property
    def project(self) -> str:
        """The project's name as package indexes compare it."""
        return canonical_name(self.name)

    @property
    def tags(self) -> Iterator[str]:
        """Every tag of the compressed set, python-abi-platform."""
        return (f"{p}-{a}-{f}" for p in self.pythons for a in self.abis for f in self.platforms)


def canonical_name(name: str) -> str:
    """A project's name as package indexes compare it: enum-compat, of Enum_Compat."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse(file: str) -> WheelName | str:
    """What a wheel's file name says, or why it is none."""
    if not file.endswith(".whl"):
        return "its name does not end with .whl"
    parts = file[:-4].split("-")
    if len(parts) not in (5, 6):
        return "its name has %d parts between hyphens, not 5 or 6 (name-version[-build]-python-abi-platform)" % len(
            parts
        )
    name, version, tags = parts[0], parts[1], parts[-3:]
    if "__" in name or not _NAME.match(name):
        return f"'{name}' is no project name"
    if not _VERSION.match(version):
        return f"'{version}' is no version"
    build = _BUILD.match(parts[2]) if len(parts) == 6 else None
    if len(parts) == 6 and not build:
        return f"'{parts[2]}' is no build number"
    pythons, abis, platforms = (tuple(part.lower().split(".")) for part in tags)
    if "" in pythons + abis + platforms or not all(python.isidentifier() for python in pythons):
        return f"'{'-'.join(tags)}' is no tag"
    return WheelName(name, version, (int(build[1]), build[2]) if build else (), pythons, abis, platforms)


@lru_cache(maxsize=16)
def target_tags(target: Target) -> frozenset[str]:
    """All tags that a target takes: those stated, else those that follow from the rest of it."""
    if target.tags:
        return frozenset(tag.lower() for tag in target.tags)
    major, minor = (int(part) for part in target.python.split(".")[:2])
    platforms = tuple(_platforms(target.machine, _version(target.glibc) if target.glibc else None))
    own = target.interpreter
    # A build without the global lock takes a stable ABI of its own.
    stable = "abi3t" if re.match(r"cp\d+.*t", target.abi) else "abi3"
    pairs = {(own, target.abi), (own, stable), (own, "none")}
    pairs |= {(f"cp{major}{older}", stable) for older in range(2, minor)}
    plain = {f"py{major}", *(f"py{major}{older}" for older in range(minor + 1))}
    found = {f"{python}-{abi}-{platform}" for python, abi in pairs for platform in platforms}
    found |= {f"{python}-none-{platform}" for python in plain for platform in platforms}
    found |= {f"{python}-none-any" for python in plain | {own}}
    return frozenset(tag.lower() for tag in found)


def wheel_problems(names: Iterable[str], target: Target) -> list[dict[str, Any]]:
    """What is wrong with the files of a wheelhouse for a target: {file, problem, kind} each, the gravest kinds first.

    kind: one of KINDS. Where a tag is wrong, `needs` and `have` as well: of glibc_too_old the two versions.
    """
    order = list(KINDS)
    rows = [{"file": name, **row} for name in names for row in _problems(name.rpartition("/")[2], target)]
    return sorted(rows, key=lambda row: (order.index(row["kind"]), row["file"]))


def fitting(names: Iterable[str], target: Target) -> list[str]:
    """The project names, as their files write them, of the wheels that the target can install; sorted."""
    wheels = [parse(name.rpartition("/")[2]) for name in names]
    return sorted({w.name for w in wheels if isinstance(w, WheelName) and not target_tags(target).isdisjoint(w.tags)})


def _problems(file: str, target: Target) -> list[dict[str, Any]]:
    if file.endswith(SDIST):
        return [{"problem": "sdist", "kind": "sdist"}]
    wheel = parse(file)
    if isinstance(wheel, str):
        return [{"problem": "not a wheel: " + wheel, "kind": "not_a_wheel"}]
    takes = target_tags(target)
    if not takes.isdisjoint(wheel.tags):
        return []
    platforms = {tag.split("-")[2] for tag in takes}
    pairs = {tuple(tag.split("-")[:2]) for tag in takes}
    if platforms.isdisjoint(wheel.platforms):
        needs = _newer_glibc(wheel, target)
        if needs is None:
            return [_foreign(wheel, target)]
        words = f"needs glibc {needs}, the target has {target.glibc}"
        found = [{"problem": words, "kind": "glibc_too_old", "needs": needs, "have": target.glibc}]
    else:
        found = []
    pythons = {(python, abi) for python in wheel.pythons for abi in wheel.abis}
    if not found or pairs.isdisjoint(pythons):
        tag = f"{'.'.join(wheel.pythons)}-{'.'.join(wheel.abis)}"
        if not pairs.isdisjoint(pythons):  # each part is fine, but not together, as in cp311-abi3-any
            tag += "-" + ".".join(wheel.platforms)
        words = f"tag {tag} on a target with Python {target.python} ({target.abi})"
        found.append({"problem": words, "kind": "wrong_python", "needs": tag, "have": target.abi})
    return found


def _newer_glibc(wheel: WheelName, target: Target) -> str | None:
    """The glibc that the wheel needs, when it is for this machine and only that is in the way."""
    if target.glibc is None:
        return None
    needed = [_glibc_of(platform, target.machine) for platform in wheel.platforms]
    newer = [version for version in needed if version and version > _version(target.glibc)]
    return "%d.%d" % min(newer) if newer else None


def _foreign(wheel: WheelName, target: Target) -> dict[str, Any]:
    linux = [_LINUX.fullmatch(platform) for platform in wheel.platforms]
    musl = [_MUSL.fullmatch(platform) for platform in wheel.platforms]
    have = "linux"
    if any(m and m[m.lastindex or 0] != target.machine for m in linux + musl):
        have = f"linux {target.machine}"
    elif any(musl):
        have = f"linux target with glibc {target.glibc}" if target.glibc else "linux"
    elif any(linux):
        have = f"linux {target.machine}" if target.glibc else "linux target without glibc"
    needs = ".".join(wheel.platforms)
    where = have if " target " in have else have + " target"
    return {"problem": f"platform tag {needs} on a {where}", "kind": "foreign_platform", "needs": needs, "have": have}


def _glibc_of(platform: str, machine: str) -> tuple[int, int] | None:
    """The glibc that a platform tag asks for; None when it names none, or another machine."""
    found = _LINUX.fullmatch(platform)
    if not found or found[6] != machine or found[5]:
        return None
    return LEGACY_MANYLINUX[found[4]] if found[4] else (int(found[2]), int(found[3]))


def _platforms(machine: str, glibc: tuple[int, int] | None) -> Iterator[str]:
    """The platform tags of a Linux machine with that glibc. Glibc 2 is compatible down to the oldest that has a tag."""
    if glibc and machine in MANYLINUX_MACHINES:
        oldest = OLDEST_GLIBC.get(machine, (2, 17))
        for minor in range(oldest[1], glibc[1] + 1):
            yield f"manylinux_2_{minor}_{machine}"
        for name, version in LEGACY_MANYLINUX.items():
            if oldest <= version <= glibc:
                yield f"{name}_{machine}"
    yield f"linux_{machine}"


def _version(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)
