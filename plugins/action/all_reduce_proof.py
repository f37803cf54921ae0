# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of all_reduce_proof: collects again and again until the proof has ended, and shows how far it is."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.tandem.vllm.plugins.plugin_utils import progress

MODULE = "tandem.vllm.all_reduce_proof"
# A proof that works is over in a few seconds, so that one look is enough.
LOOK_SECONDS = 8
# The module itself gives up a container that is over its time: this is for a host whose clock was set back.
MARGIN = 120


class ActionModule(ActionBase):
    """Waits on the control node, so that every look is short and a lost connection ends nothing."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        args = dict(self._task.args)
        if args.get("step") == "collect" and args.get("wait") is None:
            host = (task_vars or {}).get("inventory_hostname", "?")
            latest, reason, _waited = progress.wait(
                lambda: self._look({**args, "wait": LOOK_SECONDS}, task_vars),
                done=lambda latest: latest["state"] != "running",
                failure=lambda _first, _latest: None,
                words=lambda latest: str(latest.get("progress") or latest["state"]),
                label=f"{host} {args.get('name')}",
                timeout=float(args.get("timeout", 180)) + MARGIN,
                interval=0,
            )
            result.update(latest)
            if reason is not None and not latest.get("failed"):
                result.update(failed=True, msg=f"{host}: the transport proof has not ended: {reason}")
            return result
        result.update(self._look(args, task_vars))
        return result

    def _look(self, args: dict[str, Any], task_vars: dict[str, Any] | None) -> progress.Result:
        answer: progress.Result = self._execute_module(MODULE, module_args=args, task_vars=task_vars)
        return answer
