# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of ray_cluster_info: asks until the cluster is as expected, and shows what lacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.tandem.vllm.plugins.plugin_utils import progress

MODULE = "tandem.vllm.ray_cluster_info"
# So many looks in a row have to find what no waiting brings: while a head restarts, one look may see the old cluster.
SURE = 3


class ActionModule(ActionBase):
    """Waits on the control node, so that every look is short and a lost connection ends nothing."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        args = dict(self._task.args)
        variables = task_vars or {}

        def look() -> progress.Result:
            answer: progress.Result = self._execute_module(MODULE, module_args=args, task_vars=task_vars)
            return answer

        if not args.get("container") or not args.get("expect"):
            result.update(look())
            return result
        host, container = str(variables.get("inventory_hostname", "?")), str(args["container"])
        timeout = float(args.get("timeout", 0))
        latest, reason, waited = progress.wait(
            look,
            done=is_ready,
            failure=Hopeless(),
            words=words,
            label=f"{host} {container}",
            timeout=timeout,
            interval=float(args.get("interval", 3)),
        )
        result.update(latest)
        if timeout:
            result["waited"] = round(waited, 1)
        if reason is not None and not latest.get("failed"):
            hosts = hosts_by_address(variables.get("hostvars") or {})
            given_up = f" after {waited:.0f} s" if timeout else ""
            result.update(failed=True, msg=give_up(host, container, given_up, latest, hosts))
        return result


def is_ready(result: progress.Result) -> bool:
    return bool(result["ready"])


class Hopeless:
    """Why waiting on is of no use: several looks in a row found what does not pass by itself."""

    def __init__(self) -> None:
        self._seen = 0

    def __call__(self, _first: progress.Result, latest: progress.Result) -> str | None:
        self._seen = 0 if latest["retryable"] else self._seen + 1
        return str(latest["verdict"]) if self._seen >= SURE else None


def words(result: progress.Result) -> str:
    return str(result["verdict"])[:300]


def hosts_by_address(hostvars: Mapping[str, Any]) -> dict[str, str]:
    """Inventory name by the address that the contract gives a host, for messages."""
    found = {}
    for name in hostvars:
        address = hostvars[name].get("tandem_address")
        if isinstance(address, str):
            found[address] = str(name)
    return found


def give_up(host: str, container: str, given_up: str, latest: progress.Result, hosts: Mapping[str, str]) -> str:
    """What lacks, the end of this node's log, and the next command on each node whose log is not here."""
    parts = [f"The Ray cluster, seen from {container} on {host}, is not as expected{given_up}: {latest['verdict']}"]
    if latest["log_tail"]:
        parts.append(f"The log of {container} on {host} ends with: {' | '.join(latest['log_tail'][-3:])[-600:]}")
    if "No such container" in (latest["reason"] or ""):
        places, command = [host], "docker ps --all"
    else:
        places, command = elsewhere(host, latest, hosts) or [host], f"docker logs --tail 100 {container}"
    return ". ".join(part.rstrip(".") for part in parts) + f". Next: on {' and on '.join(places)} run '{command}'."


def elsewhere(host: str, latest: progress.Result, hosts: Mapping[str, str]) -> list[str]:
    """The other nodes whose logs may tell more: the missing ones; while nothing answers, the head."""
    addresses = latest["missing_addresses"]
    if latest["reachable"] is False:
        addresses = [str(latest["address"]).rsplit(":", 1)[0]] if latest["address"] else []
    names = [hosts.get(address, address) for address in addresses]
    return [name for name in dict.fromkeys(names) if name != host]
