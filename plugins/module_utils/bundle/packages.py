# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of a Debian family distribution in an offline bundle: their folder, its index, and how apt is to use it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

# What brings nginx to a gateway of the Debian family.
GATEWAY_PACKAGE = "nginx-light"
# The part of a bundle that holds packages, one folder a release of a distribution and architecture.
PART = "packages"
# apt's index of such a folder.
INDEX = "Packages"
# Tells the policy that keeps services from starting apart from one of the host's owner.
MARK = "tandem.vllm: no service starts while its package is installed"
MAKE_AGAIN = "Make the bundle again with playbooks/bundle.yml, and bring it anew"

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~-]*")
_URI = re.compile(r"'[^']+' (\S+) (\d+) SHA256:([0-9a-f]{64})")
_EPOCH = re.compile(r"_\d+%3a", re.IGNORECASE)
_ERROR = re.compile(r"^E: (.+)$", re.MULTILINE)
_INSTALL = re.compile(r"^Inst (\S+) (?:\[[^\]]*\] )?\((\S+) ", re.MULTILINE)


class PackagesError(Exception):
    """Packages cannot be fetched or installed; the message is for the user."""


@dataclass(frozen=True)
class System:
    """What packages are for. id, version: as in os-release (debian, 12); architecture: as dpkg names it (amd64)."""

    id: str
    version: str
    architecture: str

    @property
    def name(self) -> str:
        """Name of the folder of its packages."""
        return f"{self.id}-{self.version}-{self.architecture}"

    @classmethod
    def read(cls, os_release: str, architecture: str) -> System:
        """The system of an os-release file's text and of dpkg's word; raises PackagesError."""
        stated = {}
        for line in os_release.splitlines():
            key, _equals, value = line.strip().partition("=")
            try:
                stated[key] = "".join(shlex.split(value, comments=True))
            except ValueError:  # a quote that is not closed
                stated[key] = ""
        for key in ("ID", "VERSION_ID"):
            if not _PLAIN.fullmatch(stated.get(key, "")):
                raise PackagesError(f"os-release has no {key} that tells a release ({stated.get(key, 'not set')})")
        if not _PLAIN.fullmatch(architecture):
            raise PackagesError(f"dpkg names no architecture ({architecture or 'nothing'})")
        return cls(stated["ID"], stated["VERSION_ID"], architecture)


@dataclass(frozen=True)
class Deb:
    """A package file. file: its name in the folder; fetched: its name while apt fetches it; size: bytes."""

    file: str
    fetched: str
    size: int
    sha256: str


def parse_uris(text: str) -> tuple[Deb, ...]:
    """What `apt-get --print-uris` with SHA256 says would be fetched, sorted by file; raises PackagesError.

    A file is named without the epoch of its version, as in the archives: a % in a name would have to be quoted.
    """
    debs = []
    for line in text.splitlines():
        if not line.startswith("'"):
            continue
        match = _URI.match(line)
        if not match:
            raise PackagesError(f"apt names a file without its SHA-256: {line}")
        debs.append(Deb(_EPOCH.sub("_", match[1], count=1), match[1], int(match[2]), match[3]))
    return tuple(sorted(debs, key=lambda deb: deb.file))


def index(controls: Iterable[tuple[Deb, str]]) -> str:
    """The text of apt's index of the folder. controls: each package with its control file's text."""
    stanzas = [
        f"{control.strip()}\nFilename: ./{deb.file}\nSize: {deb.size}\nSHA256: {deb.sha256}\n"
        for deb, control in controls
    ]
    return "\n".join(stanzas)


def names(files: Iterable[Mapping[str, Any]]) -> list[str]:
    """The folders that a manifest's files of packages are in; files: {path, …} each."""
    parts = [str(file["path"]).split("/") for file in files]
    return sorted({part[1] for part in parts if len(part) == 3 and part[0] == PART})


def of_folder(files: Iterable[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
    """Those of a manifest's files that are in this folder of packages."""
    return [file for file in files if str(file["path"]).rpartition("/")[0] == f"{PART}/{name}"]


def whole(paths: Iterable[str], package: str = GATEWAY_PACKAGE) -> list[str]:
    """The folders, as packages/<name>, that hold an index and the package itself."""
    found: dict[str, set[str]] = {}
    for path in paths:
        folder, _slash, file = path.rpartition("/")
        held = "index" if file == INDEX else "package" if re.match(re.escape(package) + r"_.*\.deb$", file) else ""
        found.setdefault(folder, set()).add(held)
    return sorted(folder for folder, held in found.items() if {"index", "package"} <= held)


def differences(files: Iterable[Mapping[str, Any]], found: Mapping[str, str | None]) -> list[dict[str, str]]:
    """Files that differ from the manifest: {path, reason, remedy} each. found: SHA-256 by path, None for missing."""
    rows = []
    for file in files:
        path, sha256 = file["path"], found.get(file["path"])
        if sha256 is None:
            rows.append({"path": path, "reason": "is missing", "remedy": MAKE_AGAIN})
        elif sha256 != file["sha256"]:
            reason = f"is not as the manifest says: SHA-256 {sha256}, not {file['sha256']}"
            rows.append({"path": path, "reason": reason, "remedy": MAKE_AGAIN})
    return rows


def said(problems: Iterable[Mapping[str, str]]) -> str:
    """The differences in words."""
    rows = list(problems)
    told = "; ".join(f"{row['path']} {row['reason']}" for row in rows[:5])
    more = f"; and {len(rows) - 5} more" if len(rows) > 5 else ""
    return f"{told}{more}. {rows[0]['remedy']}." if rows else ""


def apt_error(out: str, err: str) -> str:
    """What apt complains of, in one line."""
    errors = [*_ERROR.findall(out + "\n" + err)]
    return "; ".join(errors) or (err.strip() or out.strip())[-400:] or "it said nothing"


def would_install(text: str) -> list[dict[str, str]]:
    """What `apt-get --simulate install` says would be installed: {name, version} each."""
    return [{"name": match[1], "version": match[2]} for match in _INSTALL.finditer(text)]


def needed(index_text: str, installs: Iterable[Mapping[str, str]]) -> list[str]:
    """The files of an index that hold these packages, {name, version} each; raises PackagesError for one without."""
    files = {}
    for stanza in index_text.split("\n\n"):
        stated = dict(line.split(": ", 1) for line in stanza.splitlines() if ": " in line and line[0] != " ")
        files[stated.get("Package"), stated.get("Version")] = stated.get("Filename", "")
    found = []
    for install in installs:
        file = files.get((install["name"].partition(":")[0], install["version"]))
        if not file:
            raise PackagesError(f"apt names {install['name']} {install['version']}, which the index does not have")
        found.append(file.rpartition("/")[2])
    return found


def sources(folder: str) -> str:
    """A sources.list with this folder alone. What is in it was compared with the manifest: nothing is signed."""
    return f"deb [trusted=yes] file:{quote(folder)} ./\n"


def conf(work: str, hold: str, lock_seconds: int) -> str:
    """apt's configuration for installing from a sources.list in `work` alone; it goes after the host's own.

    hold: a script that apt runs when it has dpkg's lock. lock_seconds: how long that lock is waited for.
    """
    return f"""\
Dir::Etc::SourceList "{work}/sources.list";
Dir::Etc::SourceParts "-";
Dir::State::Lists "{work}/lists";
Dir::Cache "{work}/cache";
// A release that the host prefers is none of this folder's: apt would refuse it.
APT::Default-Release "";
// What the host does after an update is about its own lists.
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
APT::Sandbox::User "root";
APT::Install-Recommends "false";
APT::Get::Assume-Yes "true";
APT::Get::Remove "false";
Acquire::Languages "none";
DPkg::Lock::Timeout "{lock_seconds}";
DPkg::Options {{ "--force-confdef"; "--force-confold"; }};
DPkg::Pre-Invoke {{ "sh {hold}"; }};
"""


def policy() -> str:
    """A policy-rc.d that lets no service start."""
    return f"#!/bin/sh\n# {MARK}\nexit 101\n"


def hold(policy_file: str, place: str, kept: str) -> str:
    """A script that puts the policy in place, and keeps the host's own aside."""
    return f"""\
set -eu
if [ -e {place} ] || [ -L {place} ]; then
  grep -qsF '{MARK}' {place} || mv -f {place} {kept}
fi
install -m 755 {policy_file} {place}
"""
