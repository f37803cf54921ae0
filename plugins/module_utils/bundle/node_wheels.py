# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wheelhouse on its way into a target: which files belong to it, what is wrong with them, and what is made of it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.bundle import compare
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.compare import FileFacts
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.fields import ManifestError, refuse
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.manifest import Manifest, Wheelhouse, sha256sums
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.wheels import (
    Target,
    WheelName,
    canonical_name,
    parse,
)
from ansible_collections.tandem.vllm.plugins.module_utils.placement import plain

REQUIREMENTS = "requirements.txt"
# What a derived image was made of: the id of the image below, and the hash of the wheels.
BASE_LABEL = "tandem.base"
WHEELS_LABEL = "tandem.wheelhouse"
SHORT = 12
ELF = b"\x7fELF"
# A version that a library asks for, among the strings of an ELF file.
_GLIBC = re.compile(rb"\0GLIBC_(\d+)\.(\d+)(?:\.\d+)?(?=\0)")
_PIN = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(?:\[[^]]*\])?\s*==\s*([A-Za-z0-9.!+_-]+)\s*")


@dataclass(frozen=True)
class NodeWheels:
    """A wheelhouse and what it is for.

    manifest: holds the wheelhouse and its files only; requirement: as pip takes it; project, version: what it pins.
    """

    manifest: Manifest
    requirement: str
    project: str
    version: str

    @classmethod
    def read(cls, entry: Any, files: Sequence[Any], requirement: str) -> NodeWheels:
        """Of an entry of manifest.json's `wheelhouses` and its `files`; raises ManifestError, which names the key."""
        found = _PIN.fullmatch(requirement)
        if not found:
            wanted = "must name one project and one version, as in ray[default]==2.60.0"
            raise refuse("requirement", requirement, wanted)
        folder = entry.get("folder") if isinstance(entry, Mapping) else None
        prefix = f"{folder}/"
        manifest = Manifest.from_dict(
            plain(
                {
                    "schema": 1,
                    "environment": "-",
                    "created": "2026-01-01",
                    "made_with": {"tandem": "-", "python": "-", "pip": "-"},
                    "files": [file for file in files if str(dict(file).get("path")).startswith(prefix)],
                    "images": [],
                    "wheelhouses": [entry],
                    "models": [],
                    "needs": {},
                }
            )
        )
        if manifest.file(prefix + REQUIREMENTS) is None:
            raise ManifestError(f"{prefix}{REQUIREMENTS} is not among the manifest's files")
        if requirement not in manifest.wheelhouses[0].requirements:
            wanted = f"must be one that {folder} was made for: {', '.join(manifest.wheelhouses[0].requirements)}"
            raise refuse("requirement", requirement, wanted)
        return cls(manifest, requirement, canonical_name(found[1]), found[2])

    @property
    def wheelhouse(self) -> Wheelhouse:
        """The manifest's entry."""
        return self.manifest.wheelhouses[0]

    @property
    def names(self) -> list[str]:
        """Its files' names, sorted."""
        return sorted(file.path[len(self.wheelhouse.folder) + 1 :] for file in self.manifest.files)

    @property
    def ray_version(self) -> str | None:
        """The version that Ray has with it; None where the requirement is another project."""
        return self.version if self.project == "ray" else None

    @property
    def digest(self) -> str:
        """SHA-256, as hex, of the wheels' and the list's lines in SHA256SUMS' form: what derived images go by.

        What else lies in the folder, such as pip's own wheel and when it was made, does not count: it is not installed.
        """
        installed = {wheel.file for wheel in self.wheelhouse.wheels} | {REQUIREMENTS}
        prefix = len(self.wheelhouse.folder) + 1
        files = [(file.path[prefix:], file.sha256) for file in self.manifest.files]
        lines = sorted(f"{sha256}  {name}\n" for name, sha256 in files if name in installed)
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    @property
    def pip_wheel(self) -> str | None:
        """Its newest wheel of pip: what installs where the target has no pip of its own. None without."""
        found = [(_numbers(wheel.version), name) for name, wheel in self._parsed() if wheel.project == "pip"]
        return max(found)[1] if found else None

    @property
    def projects(self) -> list[str]:
        """The projects that it brings, sorted; not pip, which is not installed."""
        return sorted({canonical_name(wheel.name) for wheel in self.wheelhouse.wheels} - {"pip"})

    def problems(self, found: Mapping[str, FileFacts], target: Target | None) -> list[dict[str, str]]:
        """What is wrong with a folder: {path, reason, remedy} each, by path; path is the file's name there.

        found: all that is in it, by name. target: the real one; without, that of the manifest counts.
        """
        prefix = self.wheelhouse.folder + "/"
        facts = {prefix + name: fact for name, fact in found.items()}
        manifest = replace(
            self.manifest, wheelhouses=(replace(self.wheelhouse, target=target or self.wheelhouse.target),)
        )
        findings = compare.compare(manifest, sha256sums(manifest), facts)
        findings += compare.wheelhouse_findings(manifest, facts)
        rows = [{**row, "path": row["path"][len(prefix) :]} for row in findings]
        return sorted(rows, key=lambda row: row["path"])

    def lacking(self, installed: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
        """Its wheels, {name, version} each, that are not installed in that version. installed: {name, version} each."""
        has = {(canonical_name(str(row["name"])), str(row["version"])) for row in installed}
        wheels = [wheel for wheel in self.wheelhouse.wheels if canonical_name(wheel.name) in self.projects]
        missing = [wheel for wheel in wheels if (canonical_name(wheel.name), wheel.version) not in has]
        return [{"name": wheel.name, "version": wheel.version} for wheel in missing]

    def to_bring(self, found: Mapping[str, FileFacts]) -> list[str]:
        """Its files that are missing in a folder or altered there, by name."""
        prefix = self.wheelhouse.folder + "/"
        rows = compare.compare(self.manifest, sha256sums(self.manifest), {prefix + name: found[name] for name in found})
        amiss = {row["path"] for row in rows}
        return [name for name in self.names if prefix + name in amiss]

    def _parsed(self) -> list[tuple[str, WheelName]]:
        parsed = [(name, parse(name.rpartition("/")[2])) for name in self.names]
        return [(name, wheel) for name, wheel in parsed if isinstance(wheel, WheelName)]


def labels(image_id: str, digest: str) -> dict[str, str]:
    """The labels of the image made of another one with the wheels of that hash: only one that was proved has them."""
    return {BASE_LABEL: image_id, WHEELS_LABEL: digest}


def derived_name(image_id: str, ray_version: str | None, digest: str) -> str:
    """What an image is called that is made of another one with wheels of that hash. ray_version: that it then has."""
    what = f"ray{ray_version}" if ray_version else "wheels"
    # A tag takes no '+' and no '!'.
    return f"tandem/{short_id(image_id)}:" + re.sub(r"[^A-Za-z0-9_.-]", "-", f"{what}-{digest[:SHORT]}")


def left_over(names: Iterable[str]) -> list[str]:
    """What a copy that was cut off leaves behind: Ansible's temporary files, which are renamed at the end."""
    return sorted(name for name in names if name.rpartition("/")[2].startswith(".ansible_tmp"))


def glibc_problem(member: str, asked: tuple[int, int] | None, target: Target) -> str | None:
    """Why a library of a wheel cannot be loaded; None where it can. asked: the newest glibc that it asks for."""
    if asked is None or target.glibc is None:
        return None
    if asked <= tuple(_numbers(target.glibc)[:2]):
        return None
    return f"{member} asks for GLIBC_{asked[0]}.{asked[1]}, the target has glibc {target.glibc}, whatever the tag says"


def newest_glibc(data: bytes) -> tuple[int, int] | None:
    """The newest glibc that the strings of an ELF file ask for, (major, minor); None where they ask for none."""
    versions = [(int(major), int(minor)) for major, minor in _GLIBC.findall(data)]
    return max(versions) if versions else None


def short_id(image_id: str) -> str:
    """The first digits of an image's id."""
    return image_id.rpartition(":")[2][:SHORT]


def message(headline: str, findings: Iterable[Mapping[str, str]]) -> str:
    """Findings under a headline, a line each; one alone stands in the headline's line."""
    lines = ["{path}: {reason}. {remedy}.".format(**row) for row in findings]
    return f"{headline}: {lines[0]}" if len(lines) == 1 else "\n- ".join([f"{headline}:", *lines])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
