# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Has apt fetch packages into a folder, and install them from one. Nothing of the host's own apt is written to."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.bundle import packages
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.packages import Deb, PackagesError, System
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import Runner
from ansible_collections.tandem.vllm.plugins.module_utils.host.wheel_folder import sha256_of

# apt's messages are read, and nobody is there to answer questions.
ENVIRONMENT = {"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive", "DEBIAN_PRIORITY": "critical"}
UPDATE = "Run 'apt-get update' on this machine, and begin again"
# invoke-rc.d and deb-systemd-invoke ask it whether a service may start.
POLICY = "/usr/sbin/policy-rc.d"


def system(run: Runner, root: str = "/") -> System:
    """What this host's packages are for; raises PackagesError where it has no apt or tells no release."""
    status, out, _err = run(["dpkg", "--print-architecture"])
    if status != 0 or run(["apt-get", "--version"])[0] != 0:
        raise PackagesError("it has no apt-get and dpkg: it is of no Debian family distribution")
    text = ""
    for name in ("etc/os-release", "usr/lib/os-release"):
        with contextlib.suppress(OSError), open(os.path.join(root, name), encoding="utf-8") as stream:
            text = stream.read()
        if text:
            break
    return System.read(text, out.strip())


def hashes(folder: str, paths: Iterable[str]) -> dict[str, str | None]:
    """SHA-256 of files below a folder by path; None for those that are not there."""
    return {path: sha256_of(os.path.join(folder, path)) for path in paths}


class Fetch:
    """Fetches one package and all that it depends on into a folder, whatever the host has installed.

    work: an empty folder of its own. Raises PackagesError.
    """

    def __init__(self, run: Runner, package: str, folder: str, work: str) -> None:
        self._run = run
        self._package = package
        self._folder = folder
        self._part = folder + ".part"
        # Without a name of its own in work, apt would write to the host's cache.
        for name in ("status", "extended_states"):
            with open(os.path.join(work, name), "w", encoding="utf-8"):
                pass
        os.makedirs(os.path.join(work, "archives", "partial"), exist_ok=True)
        self._options = {
            "Dir::State::status": os.path.join(work, "status"),
            "Dir::State::extended_states": os.path.join(work, "extended_states"),
            "Dir::Cache": work,
            "Dir::Cache::archives": os.path.join(work, "archives"),
            "Acquire::ForceHash": "SHA256",
            # What the lock guards, the host's own state and archives, is not used.
            "Debug::NoLocking": "true",
        }

    def _install(self, action: str, **more: str) -> str:
        stated = [word for key, value in {**self._options, **more}.items() for word in ("-o", f"{key}={value}")]
        argv = ["apt-get", *stated, "--quiet=2", "--yes", "--no-install-recommends", action, "install", self._package]
        status, out, err = self._run(argv)
        if status != 0:
            raise PackagesError(f"apt-get install {self._package}: {packages.apt_error(out, err)}. {UPDATE}")
        return out

    def wanted(self) -> tuple[Deb, ...]:
        """The package and all that it depends on, in the versions that apt would take now."""
        debs = packages.parse_uris(self._install("--print-uris"))
        if not debs:
            raise PackagesError(f"apt-get install {self._package}: there is nothing to fetch. {UPDATE}")
        return debs

    def missing(self, debs: Iterable[Deb]) -> list[Deb]:
        """Those that the folder does not have as they should be."""
        return [deb for deb in debs if sha256_of(os.path.join(self._folder, deb.file)) != deb.sha256]

    def stale(self, debs: Iterable[Deb]) -> list[str]:
        """Package files that the folder has and that are not wanted."""
        keep = {deb.file for deb in debs}
        try:
            held = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        return sorted(name for name in held if name.endswith(".deb") and name not in keep)

    def index_is_there(self) -> bool:
        """Whether the folder has an index."""
        return os.path.isfile(os.path.join(self._folder, packages.INDEX))

    def bring(self, debs: Iterable[Deb], missing: Iterable[Deb]) -> None:
        """Fetch the missing ones aside, and give them their names when all are whole."""
        lacking = list(missing)
        shutil.rmtree(self._part, ignore_errors=True)
        os.makedirs(os.path.join(self._part, "partial"))
        # What apt finds there it does not fetch.
        for deb in debs:
            if deb not in lacking:
                _link(os.path.join(self._folder, deb.file), os.path.join(self._part, deb.fetched))
        self._install("--download-only", **{"Dir::Cache::archives": self._part})
        for deb in lacking:
            if sha256_of(os.path.join(self._part, deb.fetched)) != deb.sha256:
                raise PackagesError(f"{deb.file} did not arrive as the distribution's index says. {UPDATE}")
        os.makedirs(self._folder, mode=0o755, exist_ok=True)
        for deb in lacking:
            place = os.path.join(self._part, deb.fetched)
            os.chmod(place, 0o644)
            os.replace(place, os.path.join(self._folder, deb.file))
        shutil.rmtree(self._part)

    def remove(self, stale: Iterable[str]) -> None:
        """Remove package files."""
        for name in stale:
            os.unlink(os.path.join(self._folder, name))

    def write_index(self, debs: Iterable[Deb]) -> bool:
        """Write the index where it is not as it should be; whether it was written."""
        place = os.path.join(self._folder, packages.INDEX)
        text = packages.index((deb, self._control(deb)) for deb in debs)
        with contextlib.suppress(OSError), open(place, encoding="utf-8") as stream:
            if stream.read() == text:
                return False
        with open(place + ".part", "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(place + ".part", 0o644)
        os.replace(place + ".part", place)
        return True

    def _control(self, deb: Deb) -> str:
        status, out, err = self._run(["dpkg-deb", "--field", os.path.join(self._folder, deb.file)])
        if status != 0:
            raise PackagesError(f"dpkg-deb cannot read {deb.file}: {err.strip()}")
        return out


class Install:
    """Installs a package from a folder with an index, and from nowhere else.

    work: an empty folder of its own; lock_seconds: how long dpkg's lock is waited for. Raises PackagesError.
    """

    def __init__(
        self, run: Runner, package: str, folder: str, work: str, lock_seconds: int, policy: str = POLICY
    ) -> None:
        self._run = run
        self._package = package
        self._policy = policy
        self._kept = policy + ".tandem"
        for name in ("lists/partial", "cache/archives/partial"):
            os.makedirs(os.path.join(work, name))
        scripts = {
            "policy-rc.d": packages.policy(),
            "hold": packages.hold(os.path.join(work, "policy-rc.d"), self._policy, self._kept),
            "sources.list": packages.sources(folder),
            "apt.conf": packages.conf(work, os.path.join(work, "hold"), lock_seconds),
        }
        for name, text in scripts.items():
            with open(os.path.join(work, name), "w", encoding="utf-8") as stream:
                stream.write(text)
        self._conf = os.path.join(work, "apt.conf")

    def _apt(self, *words: str) -> str:
        status, out, err = self._run(["apt-get", f"--config-file={self._conf}", *words])
        if status != 0:
            raise PackagesError(f"apt-get {' '.join(words)}: {packages.apt_error(out, err)}")
        return out

    def would_install(self) -> list[dict[str, str]]:
        """What installing would bring, {name, version} each; the host stays as it is."""
        self._apt("--quiet=2", "update")
        return packages.would_install(self._apt("--quiet=1", "--simulate", "install", self._package))

    def install(self) -> None:
        """Install it; services of what is installed do not start."""
        # What a run that was killed left.
        self._let_go()
        try:
            self._apt("--quiet=1", "install", self._package)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Put the host's own policy back."""
        if os.path.lexists(self._kept):
            os.replace(self._kept, self._policy)
            return
        with contextlib.suppress(OSError):
            with open(self._policy, encoding="utf-8", errors="replace") as stream:
                ours = packages.MARK in stream.read()
            if ours:
                os.unlink(self._policy)


def _link(source: str, place: str) -> None:
    try:
        os.link(source, place)
    except OSError:  # a file system that has no such links
        shutil.copyfile(source, place)


def as_rows(debs: Iterable[Deb]) -> list[Mapping[str, Any]]:
    """{file, size, sha256} each."""
    return [{"file": deb.file, "size": deb.size, "sha256": deb.sha256} for deb in debs]
