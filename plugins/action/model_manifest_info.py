# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of model_manifest_info: has a large model hashed in pieces, and shows how far it is."""

from __future__ import annotations

from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.tandem.vllm.plugins.module_utils.bundle import model_manifest
from ansible_collections.tandem.vllm.plugins.module_utils.placement import plain

MODULE = "tandem.vllm.model_manifest_info"
# Some seconds' work: long enough that a call's own second does not count, short enough to say something.
PIECE = 4 * model_manifest.GIB


class ActionModule(ActionBase):
    """Looks, has the files hashed that the host's record does not vouch for, and has all of it judged."""

    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        args = plain(self._task.args)
        if not boolean(args.get("hash", True), strict=False) or args.get("files") is not None:
            result.update(self._module(args, task_vars))
            return result
        look = self._module({**args, "hash": False}, task_vars)
        if look.get("failed"):
            result.update(look)
            return result
        files = [(file["path"], file["size"]) for file in look["to_hash"]]
        hashes, mib, seconds = dict(args.get("hashes") or {}), 0.0, 0.0
        groups = model_manifest.pieces(files, PIECE)
        # One piece needs no call of its own.
        for group in groups if len(groups) > 1 else []:
            piece = self._module({**args, "files": group}, task_vars)
            if piece.get("failed"):
                result.update(piece)
                return result
            hashes.update(piece["hashes"])
            mib, seconds = mib + piece["hashed_mib"], seconds + piece["seconds"]
            self._show(args["path"], sum(size for path, size in files if path in hashes), files, task_vars)
        # Where nothing is to be hashed, the look has said all.
        judged = self._module({**args, "hashes": hashes}, task_vars) if files else {**look, "seconds": 0.0}
        result.update(judged)
        if not judged.get("failed"):
            result.update(
                hashes={**hashes, **judged["hashes"]},
                hashed_mib=round(mib + judged["hashed_mib"], 1),
                seconds=round(look["seconds"] + seconds + judged["seconds"], 1),
            )
        return result

    def _show(self, path: str, done: int, files: list[tuple[str, int]], task_vars: dict[str, Any] | None) -> None:
        host, total = (task_vars or {}).get("inventory_hostname", "?"), sum(size for _path, size in files)
        said = f"{host} {path}: hashed {done / model_manifest.GIB:.1f} of {total / model_manifest.GIB:.1f} GiB"
        Display().display(said)

    def _module(self, args: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        answer: dict[str, Any] = self._execute_module(MODULE, module_args=args, task_vars=task_vars)
        return answer
