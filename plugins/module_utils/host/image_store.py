# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder of a host where the pieces of an image archive wait, and the systemd unit that feeds them to Docker."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import stat
import time
from collections.abc import Sequence
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils import image_transfer
from ansible_collections.tandem.vllm.plugins.module_utils.gpu_host.system import DOCKER_ROOT
from ansible_collections.tandem.vllm.plugins.module_utils.host import image_feed
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import Runner
from ansible_collections.tandem.vllm.plugins.module_utils.host.system import System

# Seconds after which nobody is writing a file any more. What is younger may come from another run, on its way now.
ABANDONED = 300
# Seconds that a look at the load waits for its end, and between two questions. To begin anew would cost more processor
# time, which Docker needs.
PATIENCE = 10.0
PAUSE = 1.0


class StoreError(Exception):
    """What the user is told."""


class ImageStore:
    """One image on one host. run: AnsibleModule.run_command; folder: where pieces wait, None is that of the ref."""

    def __init__(self, run: Runner, ref: str, folder: str | None = None) -> None:
        self._run = run
        self._folder = folder or image_transfer.folder(ref)
        self._unit = image_transfer.unit(ref)

    def prepare(self, shared: str | None, zstd: str | None, python: str, write: bool) -> dict[str, Any]:
        """Get ready for pieces, and tell what is there. Raises StoreError.

        Returns {loading: whether Docker loads an archive that is all there, and if not: folder, python, zstd, disks
        {folder, root}, held {name: {size, sha256}}, archive {size, compression, tar_size} of a shared one}. write:
        false changes nothing.
        """
        count = os.path.join(self._folder, image_transfer.COUNT)
        running = self._state().state == "running"
        if running and (shared or os.path.exists(count)):
            return {"loading": True}
        archive = _facts(shared) if shared else None
        held = {} if shared else self._held(write)
        if write:
            self._make()
            if os.path.exists(count):
                os.unlink(count)
        system = System(self._run)
        status, out, _err = self._run(["docker", "info", "--format", "{{.DockerRootDir}}"])
        root = out.strip() if status == 0 and out.startswith("/") else DOCKER_ROOT
        return {
            "loading": False,
            "folder": self._folder,
            "python": python,
            "zstd": zstd,
            "disks": {"folder": system.disk(os.path.dirname(self._folder)), "root": system.disk(root)},
            "held": held,
            "archive": archive,
        }

    def start(
        self,
        shared: str | None,
        count: int,
        python: str,
        docker: str,
        zstd: str | None,
        sha256: str | None,
        anew: bool = False,
    ) -> None:
        """Start loading in the background: the shared archive, the first `count` pieces, or with 0 all that will come.

        A load that is going on, of another run even, goes on; unless it has to begin `anew`. Raises StoreError.
        """
        if self._state().state == "running" and not anew:
            return
        names = [image_transfer.piece_name(index) for index in range(count)]
        files = self._files(shared, names)
        self._forget()
        argv = image_transfer.load_command(python, self._folder, docker, files, zstd, sha256)
        status, out, err = self._run(image_transfer.start_command(self._unit, argv))
        if status != 0:
            raise StoreError(f"the load cannot be started: {err.strip() or out.strip()}")

    def poll(self, shared: str | None) -> dict[str, Any]:
        """How far the load is: {running, percent} and, when it failed, {error}. Waits some seconds for its end."""
        until = time.monotonic() + PATIENCE
        state = self._state()
        while state.state == "running" and time.monotonic() < until:
            time.sleep(PAUSE)
            state = self._state()
        if state.state == "failed":
            journal = ["journalctl", f"_SYSTEMD_INVOCATION_ID={state.invocation}", "_TRANSPORT=stdout"]
            _status, log, _err = self._run([*journal, "--lines", "3", "--output", "cat"])
            self._forget()
            return {"running": False, "percent": 0, "error": log.strip() or state.result}
        if state.state == "running":
            names = image_transfer.piece_names(_listing(self._folder))
            files = self._files(shared, names)
            read = position(state.pid, files)
            return {"running": True, "percent": image_transfer.percent([os.path.getsize(f) for f in files], read)}
        self._forget()
        return {"running": False, "percent": 100}

    def clear(self) -> None:
        """Take away what an earlier run left, if it left anything and nothing works on it."""
        if os.path.isdir(self._folder) and self._state().state != "running":
            self._forget()
            shutil.rmtree(self._folder)

    def _files(self, shared: str | None, names: Sequence[str]) -> list[str]:
        """What is fed to Docker, without links: as the kernel names files that a process has open."""
        paths = [shared] if shared else [os.path.join(self._folder, name) for name in names]
        return [os.path.realpath(path) for path in paths]

    def _state(self) -> image_transfer.UnitState:
        _status, out, _err = self._run(["systemctl", "show", self._unit, "--property=" + image_transfer.SHOWN])
        return image_transfer.unit_state(out)

    def _forget(self) -> None:
        """Have systemd forget the unit, which stays, ended or failed, until then."""
        self._run(["systemctl", "stop", self._unit])
        self._run(["systemctl", "reset-failed", self._unit])

    def _held(self, write: bool) -> dict[str, dict[str, Any]]:
        """{size, sha256} of each piece that is there, by name; write: what is no whole piece is removed."""
        if not os.path.lexists(self._folder):
            return {}
        found = os.lstat(self._folder)
        # Anybody may make a folder of that name in /var/tmp.
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise StoreError(
                f"{self._folder} was not made by Tandem: it is no folder that is this user's alone. Remove it"
            )
        if write:
            for name in image_transfer.leftovers(_listing(self._folder)):
                path = os.path.join(self._folder, name)
                if time.time() - os.lstat(path).st_mtime > ABANDONED:
                    os.unlink(path)
        pieces = {}
        for name in image_transfer.piece_names(_listing(self._folder)):
            path = os.path.join(self._folder, name)
            pieces[name] = {"size": os.path.getsize(path), "sha256": image_feed.checksum(path)}
        return pieces

    def _make(self) -> None:
        if not os.path.isdir(self._folder):
            os.mkdir(self._folder, 0o700)
        with open(os.path.join(self._folder, image_transfer.TOOL), "w", encoding="utf-8") as stream:
            stream.write(inspect.getsource(image_feed))


def _listing(folder: str) -> Sequence[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _facts(archive: str) -> dict[str, Any]:
    """{size, compression, tar_size} of an archive on this host. Raises StoreError."""
    try:
        with open(archive, "rb") as stream:
            return image_transfer.archive_facts(stream.read(image_transfer.HEAD), os.path.getsize(archive))
    except OSError as error:
        raise StoreError(f"the shared archive {archive} cannot be read on the host: {error.strerror}") from error


def position(pid: str, files: Sequence[str]) -> tuple[int, int] | None:
    """The index of the file that process `pid` has open, and the bytes of it that are read; None when it has none."""
    folder = f"/proc/{pid}/fd"
    try:
        for descriptor in os.listdir(folder):
            path = os.readlink(os.path.join(folder, descriptor))
            if path in files:
                with open(f"/proc/{pid}/fdinfo/{descriptor}", encoding="ascii") as stream:
                    found = re.search(r"pos:\s+(\d+)", stream.read())
                    return (files.index(path), int(found.group(1))) if found else None
    except OSError:  # the process has ended meanwhile: the next look sees that
        pass
    return None
