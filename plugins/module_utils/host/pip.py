# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pip on this machine, resolving and downloading for a target that may be another one. It installs nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.bundle import pip_report
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.pip_report import Requirement, Resolution, Wheel
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.target import Distribution, tags
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.wheels import Target
from ansible_collections.tandem.vllm.plugins.module_utils.host import wheel_folder
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import TIMED_OUT, Runner, limited

# How often a package in the way is set free, to tell all of them in one message.
MOST_CONFLICTS = 8
DESCRIBE = """
import json, platform, sys
try:
    import pip
    version = pip.__version__
except ImportError:
    version = None
name = {"cpython": "cp", "pypy": "pp"}.get(sys.implementation.name, sys.implementation.name)
print(json.dumps({"python": platform.python_version(), "implementation": name, "machine": platform.machine(),
                  "system": platform.system(), "pip": version}))
"""


class PipError(Exception):
    """pip could not do it; the message says why and what to do."""


class Pip:
    """pip for a target with these packages. seconds: longest run of pip; scratch: an empty folder."""

    def __init__(
        self, run: Runner, target: Target, installed: Sequence[Distribution], seconds: int, scratch: str
    ) -> None:
        self._run = run
        self._target = target
        self._installed = installed
        self._seconds = seconds
        self._scratch = scratch
        self._argv: list[str] = []
        self.python = ""
        self.version = ""

    def choose(self, python: str) -> None:
        """Find a Python like the target's: this one, or python3.N of the PATH. Raises PipError."""
        pip_of: dict[str, str] = {}
        reasons = []
        for candidate in (python, "python" + ".".join(self._target.python.split(".")[:2])):
            told = self._describe(candidate)
            if told is None:
                reasons.append(f"{candidate} does not run here")
                continue
            if not pip_report.pip_too_old(told["pip"], pip_report.OLDEST_PIP):
                pip_of[candidate] = told["pip"]
            reason = pip_report.misfit(told, self._target)
            if reason is None and pip_of:
                # A pip can work for another Python; markers are then evaluated by that.
                owner = candidate if candidate in pip_of else next(iter(pip_of))
                self._argv = [owner, "-m", "pip", *(["--python", candidate] if owner != candidate else [])]
                self.python, self.version = told["python"], pip_of[owner]
                return
            reasons.append(f"{candidate} {reason or 'has no pip %d.%d or newer' % pip_report.OLDEST_PIP}")
        raise PipError(
            f"python = {python}: no Python here resolves as the target would ({self._target.words}): "
            f"{'; '.join(reasons)}. Which dependencies apply depends on it. Set python to one that does"
        )

    def index(self) -> str:
        """Where wheels come from, without host names."""
        _status, out, _err = self._run(limited(60, [*self._argv, "config", "list"]))
        return pip_report.index_words(out)

    def resolve(self, requirements: Sequence[Requirement], free: AbstractSet[str]) -> Resolution:
        """What the target needs. free: names that may get another version. Raises PipError."""
        if not os.path.isdir(self._stand_ins):
            best = self._target.tags[0] if self._target.tags else next(iter(tags(self._target)))
            wheel_folder.write_stand_ins(self._stand_ins, pip_report.stand_ins(self._installed, best))
        texts = [str(requirement) for requirement in requirements]
        if not free:
            # Where the target has it all, that is known in a moment, and without an index.
            status, out, _err = self._install(texts, pip_report.constraints(self._installed, free), "--no-index")
            if status == 0:
                return self._read(out)
        freed = set(free)
        conflicts: dict[str, dict[str, Any]] = {}
        for _round in range(MOST_CONFLICTS):
            status, out, err = self._install(texts, pip_report.constraints(self._installed, freed))
            found = self._read(out) if status == 0 else None
            if found and not conflicts:
                return found
            new = [] if found else pip_report.conflicts(out, self._installed, freed)
            conflicts.update((row["name"], row) for row in new)
            if not conflicts:
                raise PipError(f"pip found no wheels for the target: {pip_report.error_words(out, err)}")
            names = {row["name"] for row in new} - freed
            if found or not names:
                becoming = {**found.versions, **{d.name: d.version for d in found.in_target}} if found else None
                raise PipError(pip_report.conflict_words(list(conflicts.values()), becoming))
            # Only to tell what else is in the way.
            freed |= names
        raise PipError(pip_report.conflict_words(list(conflicts.values()), None))

    def own_wheel(self) -> Wheel:
        """The wheel of this pip's version, for a target that has none. Raises PipError."""
        status, out, err = self._install([f"pip=={self.version}"], "", "--no-deps")
        if status != 0:
            raise PipError(f"No wheel of pip {self.version}: {pip_report.error_words(out, err)}")
        return self._read(out, ()).wheels[0]

    def download(self, wheels: Sequence[Wheel], folder: str) -> None:
        """Fetch these wheels to a folder. Raises PipError."""
        listed = self._write("missing.txt", pip_report.hashed(wheels))
        status, out, err = self._limited(pip_report.download_argv(self._argv, self._target, listed, folder))
        if status != 0:
            raise PipError(f"pip could not download the wheels: {pip_report.error_words(out, err)}")

    @property
    def _stand_ins(self) -> str:
        return os.path.join(self._scratch, pip_report.STAND_INS)

    def _describe(self, python: str) -> dict[str, Any] | None:
        status, out, _err = self._run(limited(60, [python, "-c", DESCRIBE]))
        try:
            told = json.loads(out) if status == 0 else None
        except ValueError:
            return None
        return told if isinstance(told, dict) else None

    def _install(self, requirements: Sequence[str], constraints: str, *more: str) -> tuple[int, str, str]:
        self._write(pip_report.CONSTRAINTS, constraints)
        return self._limited(pip_report.resolve_argv(self._argv, self._target, requirements, self._scratch, more))

    def _read(self, out: str, installed: Sequence[Distribution] | None = None) -> Resolution:
        there = self._installed if installed is None else installed
        try:
            return pip_report.resolution(pip_report.embedded_report(out), self._stand_ins, there)
        except pip_report.PipReportError as error:
            raise PipError(str(error)) from error

    def _write(self, name: str, text: str) -> str:
        path = os.path.join(self._scratch, name)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
        return path

    def _limited(self, argv: Sequence[str]) -> tuple[int, str, str]:
        status, out, err = self._run(limited(self._seconds, argv))
        if status in TIMED_OUT:
            raise PipError(f"timeout = {self._seconds}: pip did not end in time. Raise it or look at the index")
        return status, out, err
