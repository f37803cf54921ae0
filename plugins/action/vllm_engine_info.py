# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of vllm_engine_info: asks the module until the engine is ready or idle, and shows how far it is."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.tandem.vllm.plugins.plugin_utils import progress

MODULE = "tandem.vllm.vllm_engine_info"
NOT_RUNNING = ("absent", "exited", "restarting")


class ActionModule(ActionBase):
    """Waits on the control node, so that every look is short and a lost connection ends nothing."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        args = dict(self._task.args)
        wait_for = args.get("wait_for", "nothing")

        def look() -> progress.Result:
            answer: progress.Result = self._execute_module(MODULE, module_args=args, task_vars=task_vars)
            return answer

        if wait_for == "nothing":
            result.update(look())
            return result
        host, container = (task_vars or {}).get("inventory_hostname", "?"), args.get("container")
        latest, reason, waited = progress.wait(
            look,
            done=Idle() if wait_for == "idle" else is_ready,
            failure=never if wait_for == "idle" else ended,
            words=idle_words if wait_for == "idle" else start_words,
            label=f"{host} {container}",
            timeout=float(args.get("timeout", 1800)),
            interval=float(args.get("interval", 2)),
        )
        result.update(latest, waited=round(waited, 1))
        if reason is not None and wait_for == "idle" and not latest.get("failed"):
            # An endless stream must not hold up a deployment for ever: the caller goes on, and the user is told.
            result["warnings"] = [f"{container} on {host} still had {idle_words(latest)} after {waited:.0f} s"]
        elif reason is not None:
            # `reason` alone is for callers that remove the container, after which the next command would mislead.
            result.update(failed=True, reason=reason, msg=give_up(str(host), str(container), wait_for, reason, latest))
        return result


def is_ready(result: progress.Result) -> bool:
    return bool(result["state"] == "ready")


class Idle:
    """True at the second look in a row that finds no request; an engine that does not run has none.

    Once is not enough: a request that the gateway has just passed on may not be counted yet.
    """

    def __init__(self) -> None:
        self._seen = False

    def __call__(self, result: progress.Result) -> bool:
        empty = result["state"] in NOT_RUNNING or result.get("in_engine") == 0
        done, self._seen = empty and self._seen, empty
        return done


def never(_first: progress.Result, _latest: progress.Result) -> None:
    """Nothing ends a wait for the last request but time."""


def ended(first: progress.Result, latest: progress.Result) -> str | None:
    """Why waiting on is of no use: the container is gone, has ended, or was restarted meanwhile."""
    if latest["state"] == "absent":
        return "there is no such container"
    if latest["state"] == "exited":
        return str(latest.get("cause"))
    if latest["restarts"] > first["restarts"]:
        return "the engine ended and was restarted: %s" % (latest.get("cause") or latest.get("failed_before"))
    return None


def start_words(result: progress.Result) -> str:
    if result["state"] == "ready":
        return "serving"
    said = result.get("answer") or result["last_log_line"]
    return "{} | {}".format(result["progress"], said[:160]) if said else str(result["progress"])


def idle_words(result: progress.Result) -> str:
    if result["state"] in NOT_RUNNING:
        return "the engine does not run"
    running = result.get("in_engine")
    return "%s requests in the engine" % ("?" if running is None else running)


def give_up(host: str, container: str, wait_for: str, reason: str, latest: progress.Result) -> str:
    last = latest.get("answer") or latest.get("last_log_line") or "nothing"
    said = f"{container} on {host} is not {wait_for}: {reason.rstrip('.')}. Last log line: {last[:300].rstrip('.')}."
    return f"{said} Next: on {host} run 'docker logs --tail 100 {container}'."
