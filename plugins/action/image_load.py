# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of image_load: copies the archive, starts the load on the host and shows how far it is."""

from __future__ import annotations

import os
import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.tandem.vllm.plugins.module_utils.placement import fingerprint
from ansible_collections.tandem.vllm.plugins.plugin_utils import progress

MODULE = "tandem.vllm.image_load"
# Not below /tmp, which is often a small file system in memory.
REMOTE_FOLDER = "/var/tmp"  # noqa: S108


class ActionModule(ActionBase):
    """Does nothing on a host that has the image."""

    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        args = dict(self._task.args)
        ref, archive = args.get("ref"), args.get("archive")
        found = self._module(args, task_vars)
        if found.get("failed") or found.get("image_id"):
            result.update(found)
            return result
        host = str((task_vars or {}).get("inventory_hostname", "?"))
        if not archive or not os.path.isfile(archive):
            result.update(failed=True, msg=f"{host} has no image {ref}, and there is no archive ({archive})")
            return result
        if not self._task.check_mode:
            # Named after the image, whatever the archive is called: the name becomes that of a systemd unit, too.
            remote = os.path.join(REMOTE_FOLDER, f"tandem-image-{fingerprint(str(ref))}.tar")
            try:
                result.update(self._load(args, task_vars, archive, remote, host))
            finally:
                self._remove(remote)
        result["changed"] = not result.get("failed")
        return result

    def _load(
        self, args: dict[str, Any], task_vars: dict[str, Any] | None, archive: str, remote: str, host: str
    ) -> dict[str, Any]:
        size = os.path.getsize(archive)
        display, began = Display(), time.monotonic()
        display.display(f"{host}: sending the image archive, {size / 2**30:.1f} GiB")
        self._connection.put_file(archive, remote)
        display.display(f"{host}: sent in {time.monotonic() - began:.0f} s, loading")
        started = self._module({**args, "step": "start", "path": remote}, task_vars)
        if started.get("failed"):
            return started
        latest, reason, _waited = progress.wait(
            look=lambda: self._module({**args, "step": "poll", "path": remote}, task_vars),
            done=lambda r: not r["running"] and "error" not in r,
            failure=lambda _first, r: r.get("error"),
            words=words,
            label=host,
            timeout=float(args.get("timeout", 3600)),
            interval=2.0,
        )
        if reason is None and not latest.get("image_id"):
            reason = "the archive was loaded, but it does not hold {}".format(args["ref"])
        if reason is not None:
            return {"failed": True, "msg": f"{host}: image archive {archive}: {reason}"}
        return latest

    def _module(self, args: dict[str, Any], task_vars: dict[str, Any] | None) -> progress.Result:
        answer: progress.Result = self._execute_module(MODULE, module_args=args, task_vars=task_vars)
        return answer

    def _remove(self, path: str) -> None:
        command = f"rm -f {self._connection._shell.quote(path)}"
        self._low_level_execute_command(command)  # type: ignore[no-untyped-call]  # Ansible leaves it untyped


def words(result: progress.Result) -> str:
    """How far a load is."""
    if not result["running"]:
        return "image loaded"
    return "unpacking the image" if result["percent"] >= 100 else f"reading the image archive, {result['percent']} %"
