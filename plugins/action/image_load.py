# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of image_load: sends the archive in pieces, starts the load on the host, and shows how far it is."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.tandem.vllm.plugins.module_utils import image_transfer
from ansible_collections.tandem.vllm.plugins.plugin_utils import pieces, progress

MODULE = "tandem.vllm.image_load"


class ActionModule(ActionBase):
    """Does nothing on a host that has the image."""

    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        self._task_vars = task_vars
        self._host = str((task_vars or {}).get("inventory_hostname", "?"))
        args = dict(self._task.args)
        ref, archive = str(args.get("ref")), args.get("archive") or None
        self._shared = boolean(args.get("shared", False), strict=False)
        usable = archive is not None and (self._shared or os.path.isfile(archive))
        found = self._module("prepare" if usable else "look")
        if found.get("failed") or found.get("image_id"):
            result.update(found)
            return result
        if not usable:
            result.update(failed=True, msg=f"{self._host} has no image {ref}, and there is no archive ({archive})")
            return result
        try:
            result.update(self._bring(found, ref, str(archive), float(args.get("timeout", 3600))))
        except (pieces.SourceError, OSError) as error:
            # Another run may have brought the image meanwhile, and taken the pieces away.
            found = self._module("look")
            if found.get("image_id"):
                result.update(found)
            else:
                result.update(self._failure(f"{self._host}: image archive {archive}: {error}"))
        result["changed"] = not result.get("failed")
        return result

    def _bring(self, ready: dict[str, Any], ref: str, archive: str, timeout: float) -> dict[str, Any]:
        """Send and load. ready: the host's answer at prepare. In check mode only what would stop it is told."""
        if not ready["loading"]:
            facts = ready["archive"] if self._shared else facts_of(archive)
            on_control = shutil.which("zstd") is not None
            by = image_transfer.decompression(facts["compression"], bool(ready["zstd"]), on_control, self._shared)
            if by is None:
                return self._failure(image_transfer.no_zstd(self._host, archive, self._shared))
            problem = self._room_problem(ready, facts, by)
            if problem:
                advice = "Make room there, for example with 'docker image prune' on the host"
                return self._failure(f"{self._host}: the image {problem}. {advice}")
            if self._task.check_mode:
                return {}
            start: dict[str, Any] = {"pieces": 0, "decompress": by == image_transfer.NODE}
            if not self._shared:
                # Docker reads while pieces arrive, where none is there that may turn out to be wrong.
                started = {} if ready["held"] else self._module("start", **start)
                if started.get("failed"):
                    return started
                start.update(self._send(archive, ready, facts, by))
            started = self._module("start", **start)
            if started.get("failed") or started.get("image_id"):
                return started
        if self._task.check_mode:
            return {}
        return self._loaded(ref, archive, timeout)

    def _room_problem(self, ready: dict[str, Any], facts: dict[str, Any], by: str) -> str | None:
        # A compressed archive that does not tell its size is at least as large as it is.
        unpacked = facts["tar_size"] if facts["tar_size"] is not None else facts["size"]
        whole = unpacked if by == image_transfer.CONTROL else facts["size"]
        return image_transfer.room_problem(
            None if self._shared else image_transfer.Room.of(ready["disks"]["folder"]),
            image_transfer.Room.of(ready["disks"]["root"]),
            max(0, whole - image_transfer.held_size(ready["held"])),
            unpacked,
        )

    def _send(self, archive: str, ready: dict[str, Any], facts: dict[str, Any], by: str) -> dict[str, Any]:
        """Send the pieces that the host does not have. Raises SourceError and OSError.

        Returns {pieces: how many there are in all, anew: whether one of the host's was wrong}.
        """
        if not self._connection.has_pipelining:
            raise pieces.SourceError("this connection cannot feed a command with data. Use ansible.builtin.ssh")
        display = Display()
        whole = facts["tar_size"] if by == image_transfer.CONTROL else facts["size"]
        meter = Meter(self._host, whole)
        display.display(f"{self._host}: sending the image archive, {facts['size'] / image_transfer.GIB:.1f} GiB")
        count = read = there = wrong = 0
        parent = os.getppid()
        zstd = shutil.which("zstd") if by == image_transfer.CONTROL else None
        for piece in pieces.read(archive, zstd, image_transfer.PIECE_SIZE):
            count, size = count + 1, len(piece.data)
            read += size
            if image_transfer.is_there(ready["held"], piece.index, size, piece.sha256):
                there += 1
                meter.skip(size)
                continue
            wrong += image_transfer.piece_name(piece.index) in ready["held"]
            # Ansible's workers outlive a playbook that is killed. The next one shall find nobody at work.
            if os.getppid() != parent:
                raise pieces.SourceError("the playbook was ended")
            self._send_piece(ready, piece)
            meter.add(size)
        if zstd is None and read != facts["size"]:
            raise pieces.SourceError(f"it changed while it was read: {facts['size']} bytes before, {read} after")
        self._low_level_execute_command(  # type: ignore[no-untyped-call]  # Ansible leaves it untyped
            image_transfer.count_command(ready["folder"], count)
        )
        known = f"; {there} of {count} pieces were there already" if there else ""
        display.display(f"{self._host}: sent in {meter.seconds():.0f} s{known}, loading")
        return {"pieces": count, "anew": wrong > 0}

    def _send_piece(self, ready: dict[str, Any], piece: pieces.Piece) -> None:
        argv = image_transfer.receive_command(
            ready["python"], ready["folder"], piece.index, len(piece.data), piece.sha256
        )
        answer: dict[str, Any] = self._low_level_execute_command(  # type: ignore[no-untyped-call]  # Ansible leaves it untyped
            shlex.join(argv), in_data=piece.data
        )
        if answer["rc"] != 0:
            said = (answer["stderr"].strip() or answer["stdout"].strip()).splitlines()
            raise pieces.SourceError(said[-1] if said else f"the host's Python ended with exit status {answer['rc']}")

    def _loaded(self, ref: str, archive: str, timeout: float) -> dict[str, Any]:
        """Wait for the load, and take away the pieces when it is over."""
        latest, reason, _waited = progress.wait(
            look=lambda: self._module("poll"),
            done=lambda r: not r["running"] and "error" not in r,
            failure=lambda _first, r: r.get("error"),
            words=lambda r: image_transfer.load_words(r["running"], r["percent"]),
            label=self._host,
            timeout=timeout,
            interval=0.0,
        )
        # One that goes on, or that could not be looked at, is waited for when this is run again.
        if latest.get("running") is False:
            self._remove(image_transfer.folder(ref))
        if reason is None and not latest.get("image_id"):
            reason = f"the archive was loaded, but it does not hold {ref}"
        if reason is not None:
            return self._failure(f"{self._host}: image archive {archive}: {reason}")
        return latest

    def _failure(self, message: str) -> dict[str, Any]:
        return {"failed": True, "msg": message}

    def _module(self, step: str, **further: Any) -> progress.Result:
        args = {**self._task.args, "step": step, **further}
        answer: progress.Result = self._execute_module(MODULE, module_args=args, task_vars=self._task_vars)
        return answer

    def _remove(self, path: str) -> None:
        command = f"rm -rf {self._connection._shell.quote(path)}"
        self._low_level_execute_command(command)  # type: ignore[no-untyped-call]  # Ansible leaves it untyped


class Meter:
    """Shows how far a transfer is: when ten percent more are there, and otherwise every 15 seconds."""

    def __init__(self, label: str, whole: int | None) -> None:
        self._label, self._whole = label, whole
        self._sent, self._began = 0, time.monotonic()
        self._shown, self._shown_at = 0, self._began

    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    def skip(self, size: int) -> None:
        """So many bytes need not be sent."""
        if self._whole is not None:
            self._whole -= size

    def add(self, size: int) -> None:
        """So many bytes were sent."""
        self._sent += size
        now = time.monotonic()
        tenth = 10 * self._sent // (self._whole or 1) if self._whole is not None else 0
        if tenth > self._shown or now - self._shown_at >= progress.QUIET_SECONDS:
            self._shown, self._shown_at = tenth, now
            words = image_transfer.sent_words(self._sent, self._whole, now - self._began)
            Display().display(f"{self._label}: {words} ({now - self._began:.0f} s)")


def facts_of(archive: str) -> dict[str, Any]:
    """{size, compression, tar_size} of an archive: bytes, the method or None, bytes or None where it is not known."""
    with open(archive, "rb") as stream:
        return image_transfer.archive_facts(stream.read(image_transfer.HEAD), os.path.getsize(archive))
