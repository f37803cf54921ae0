# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One nginx instance of its own: tries a configuration, puts it in place, reloads, and sees the reload through."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import Runner
from ansible_collections.tandem.vllm.plugins.module_utils.nginx.files import (
    MAIN,
    complaint,
    moved,
    pid_file,
    written_directories,
)

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700
RELOAD_SECONDS = 15.0


class NginxError(Exception):
    """nginx refused a configuration or a reload; the message is for the user."""


@dataclass(frozen=True)
class Instance:
    """directory: where nginx.conf and what it includes lie; binary: nginx; unit: its systemd unit; root: for tests."""

    run: Runner
    directory: str
    binary: str
    unit: str
    proc: str = "/proc"
    sleep: Callable[[float], None] = time.sleep

    def read(self, name: str) -> str | None:
        """A file of the configuration, None where there is none."""
        try:
            with open(os.path.join(self.directory, name), encoding="utf-8") as stream:
                return stream.read()
        except FileNotFoundError:
            return None

    def private(self, name: str) -> bool:
        """Whether a file has the mode that it should have."""
        return os.stat(os.path.join(self.directory, name)).st_mode & 0o7777 == FILE_MODE

    def others(self, names: Mapping[str, str]) -> dict[str, str]:
        """The configuration's files besides those named."""
        found = [n for n in os.listdir(self.directory) if n.endswith(".conf") and n not in names]
        return {name: self.read(name) or "" for name in sorted(found)}

    def can_validate(self) -> bool:
        """Whether nginx is there to try a configuration with."""
        return os.access(self.binary, os.X_OK)

    def validate(self, files: Mapping[str, str], scratch: str, secret_files: tuple[str, ...] = ()) -> None:
        """Try a whole configuration with `nginx -t` in a folder under `scratch`; nothing real is read or written.

        Raises NginxError with nginx's reason.
        """
        stage = tempfile.mkdtemp(prefix="tandem-nginx-", dir=scratch)
        try:
            places = {}
            for number, directory in enumerate(written_directories(files.get(MAIN, ""))):
                places[directory] = os.path.join(stage, "written-%d" % number)
                os.mkdir(places[directory])
            for name, text in files.items():
                self._write(os.path.join(stage, name), moved(text, places))
            status, out, err = self.run([self.binary, "-t", "-q", "-c", os.path.join(stage, MAIN)])
            if status != 0:
                raise NginxError(complaint(err or out, stage, self.directory, secret_files))
        finally:
            shutil.rmtree(stage, ignore_errors=True)

    def replace(self, files: Mapping[str, str]) -> dict[str, str | None]:
        """Put files in place, each in one step; returns what was there before, for `restore`."""
        if not os.path.isdir(self.directory):
            os.makedirs(self.directory, DIRECTORY_MODE)
        before = {name: self.read(name) for name in files}
        for name, text in files.items():
            path = os.path.join(self.directory, name)
            self._write(path + ".new", text)
            os.replace(path + ".new", path)
        return before

    def restore(self, before: Mapping[str, str | None]) -> None:
        """Undo `replace`."""
        self.replace({name: text for name, text in before.items() if text is not None})
        for name, text in before.items():
            if text is None:
                os.unlink(os.path.join(self.directory, name))

    def reload(self) -> bool:
        """Have the running process take the configuration; False where it does not run.

        Returns once new workers serve and each old one has stopped accepting. Raises NginxError where that does not
        happen: the old workers then go on with the old configuration.
        """
        master = self._master()
        if master is None:
            return False
        before = set(self._workers(master))
        status, out, err = self.run(["systemctl", "reload", self.unit])
        if status != 0:
            raise NginxError("'systemctl reload %s' failed: %s" % (self.unit, (err or out).strip()))
        waited = 0.0
        while not self._taken_over(master, before):
            if waited >= RELOAD_SECONDS:
                raise NginxError(
                    "no new workers within %d s of the reload; see 'journalctl -u %s' and the error log"
                    % (RELOAD_SECONDS, self.unit)
                )
            self.sleep(0.05)
            waited += 0.05
        return True

    def _taken_over(self, master: int, before: set[int]) -> bool:
        now = self._workers(master)
        old_leave = all(leaving for pid, leaving in now.items() if pid in before)
        new_serve = any(not leaving for pid, leaving in now.items() if pid not in before)
        return old_leave and new_serve

    def _master(self) -> int | None:
        """The running master process, None where there is none (a pid left over from a crash is not believed)."""
        path = pid_file(self.read(MAIN) or "")
        try:
            with open(path or "", encoding="utf-8") as stream:
                pid = int(stream.read())
        except (OSError, ValueError):
            return None
        return pid if "nginx: master process" in self._proc(pid, "cmdline") else None

    def _workers(self, master: int) -> dict[int, bool]:
        """The master's workers; True for one that only finishes its running requests."""
        workers = {}
        for entry in os.listdir(self.proc):
            if not entry.isdigit():
                continue
            # pid (comm) state ppid …: the name may hold spaces, so count from its closing bracket.
            fields = self._proc(int(entry), "stat").rpartition(")")[2].split()
            title = self._proc(int(entry), "cmdline")
            if len(fields) > 1 and fields[1] == str(master) and "worker process" in title:
                workers[int(entry)] = "shutting down" in title
        return workers

    def _proc(self, pid: int, name: str) -> str:
        try:
            with open(os.path.join(self.proc, str(pid), name), encoding="utf-8", errors="replace") as stream:
                return stream.read()
        except OSError:  # gone meanwhile
            return ""

    @staticmethod
    def _write(path: str, text: str) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            os.fchmod(stream.fileno(), FILE_MODE)
            stream.write(text)
