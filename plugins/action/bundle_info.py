# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of bundle_info: has a large bundle hashed in pieces, and shows how far it is."""

from __future__ import annotations

from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.model_manifest import GIB, pieces
from ansible_collections.tandem.vllm.plugins.module_utils.placement import plain
from ansible_collections.tandem.vllm.plugins.plugin_utils import progress

MODULE = "tandem.vllm.bundle_info"
# A second or two of work, so that a call's own time does not count; a larger file is one piece.
PIECE = GIB
# Larger bundles are hashed in this many pieces or fewer, so that they do not talk without end.
MOST_PIECES = 40


class ActionModule(ActionBase):
    """Looks, has the files hashed, and has all of it judged."""

    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        args = plain(self._task.args)
        look = self._module({**args, "quick": True}, task_vars)
        if look.get("failed") or boolean(args.get("quick", False), strict=False):
            result.update(look)
            return result
        files = [(file["path"], file["size"]) for file in look["to_hash"]]
        total = sum(size for _path, size in files)
        groups = pieces(files, max(PIECE, total // MOST_PIECES))
        hashed: dict[str, Any] = {"hashes": {}, "hashed_mib": 0.0, "seconds": look["seconds"]}
        if len(groups) > 1:  # else the judging call hashes them
            label = str((task_vars or {}).get("inventory_hostname", "?"))
            Display().display(f"{label}: hashing the bundle, {total / GIB:.1f} GiB in {len(files)} files")
            reason = self._hash(args, groups, hashed, total, label, task_vars)
            if reason is not None:
                result.update(failed=True, msg=f"{label}: bundle {args['path']}: {reason}")
                return result
        judged = self._module({**args, "hashes": hashed["hashes"]}, task_vars)
        result.update(judged)
        if not judged.get("failed"):
            for key in ("hashed_mib", "seconds"):
                result[key] = round(hashed[key] + judged[key], 1)
        return result

    def _hash(
        self,
        args: dict[str, Any],
        groups: list[list[str]],
        hashed: dict[str, Any],
        total: int,
        label: str,
        task_vars: dict[str, Any] | None,
    ) -> str | None:
        """Adds what each group of files came to; the reason why it could not."""
        waiting = iter(groups)

        def look() -> progress.Result:
            answer = self._module({**args, "files": next(waiting)}, task_vars)
            if not answer.get("failed"):
                hashed["hashes"].update(answer["hashes"])
                hashed["hashed_mib"] += answer["hashed_mib"]
                hashed["seconds"] += answer["seconds"]
            return answer

        # The clock is of no use here: a piece ends, whatever it takes.
        _latest, reason, _waited = progress.wait(
            look=look,
            done=lambda _result: len(hashed["hashes"]) == sum(len(group) for group in groups),
            failure=lambda _first, _result: None,
            words=lambda _result: f"hashed {hashed['hashed_mib'] / 1024:.1f} of {total / GIB:.1f} GiB",
            label=label,
            timeout=float("inf"),
            interval=0.0,
        )
        return reason

    def _module(self, args: dict[str, Any], task_vars: dict[str, Any] | None) -> progress.Result:
        answer: progress.Result = self._execute_module(MODULE, module_args=args, task_vars=task_vars)
        return answer
