# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.tandem.vllm.plugins.action import ray_cluster_info
from ansible_collections.tandem.vllm.plugins.action.ray_cluster_info import give_up, hosts_by_address
from ansible_collections.tandem.vllm.plugins.plugin_utils import progress

READY = {
    "ready": True,
    "retryable": False,
    "verdict": "ready: 2 nodes alive",
    "missing_addresses": [],
    "log_tail": [],
    "reason": None,
    "reachable": True,
    "address": "10.0.0.1:6379",
}
MISSING = {
    **READY,
    "ready": False,
    "retryable": True,
    "verdict": "not ready: node 10.0.0.2 is missing",
    "missing_addresses": ["10.0.0.2"],
    "log_tail": ["one", "two", "three", "four"],
}
WRONG = {**READY, "ready": False, "verdict": "not ready: Ray is 2.60.0, expected 2.49.1"}
DOWN = {
    **MISSING,
    "verdict": "not ready: ray gcs unreachable: Timed out. The head is down",
    "reachable": False,
    "missing_addresses": ["10.0.0.1", "10.0.0.2"],
}
ABSENT = {
    **DOWN,
    "verdict": "not ready: No such container: tandem-ray",
    "reason": "No such container: tandem-ray",
    "log_tail": [],
}
LOGS = "docker logs --tail 100 tandem-ray"
HOSTS = {"10.0.0.1": "node1", "10.0.0.2": "node2"}
SEEN = "The Ray cluster, seen from tandem-ray on node1, is not as expected"
LOG = "The log of tandem-ray on node1 ends with: two | three | four"


@pytest.mark.parametrize(
    ("host", "latest", "hosts", "ends", "place", "command"),
    [
        # The missing node's own log is on the missing node.
        ("node1", MISSING, HOSTS, True, "node2", LOGS),
        ("node1", MISSING, {}, True, "10.0.0.2", LOGS),
        # Seen from the node itself, it is the log that is told.
        ("node2", MISSING, HOSTS, True, "node2", LOGS),
        # While the head does not answer, its log tells more.
        ("node2", DOWN, HOSTS, True, "node1", LOGS),
        ("node1", ABSENT, HOSTS, False, "node1", "docker ps --all"),
        (
            "node1",
            {**MISSING, "missing_addresses": ["10.0.0.2", "10.0.0.3"]},
            HOSTS,
            True,
            "node2 and on 10.0.0.3",
            LOGS,
        ),
    ],
)
def test_give_up(
    host: str, latest: dict[str, Any], hosts: dict[str, str], ends: bool, place: str, command: str
) -> None:
    log = f" The log of tandem-ray on {host} ends with: two | three | four." if ends else ""
    assert give_up(host, "tandem-ray", " after 9 s", latest, hosts) == (
        f"The Ray cluster, seen from tandem-ray on {host}, is not as expected after 9 s: {latest['verdict']}."
        f"{log} Next: on {place} run '{command}'."
    )


def test_hosts_by_address() -> None:
    hostvars = {"node1": {"tandem_address": "10.0.0.1"}, "gateway": {}, "odd": {"tandem_address": None}}
    assert hosts_by_address(hostvars) == {"10.0.0.1": "node1"}


class Run:
    """One run of the action; the module answers with one result after the other, the last one stays."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, results: list[dict[str, Any]], **arguments: Any) -> None:
        self.calls: list[dict[str, Any]] = []
        self.shown: list[str] = []
        display = MagicMock()
        display.display.side_effect = self.shown.append
        monkeypatch.setattr(progress, "Display", lambda: display)
        monkeypatch.setattr(progress, "time", MagicMock(**{"monotonic.return_value": 7.0}))
        loader, given = DataLoader(), {"container": "tandem-ray", "interval": "0", **arguments}
        given = {name: value for name, value in given.items() if value is not None}
        task = MagicMock(action="tandem.vllm.ray_cluster_info", args=given, async_val=0, check_mode=False)
        action = ray_cluster_info.ActionModule(task, MagicMock(), MagicMock(), loader, Templar(loader), MagicMock())

        def execute(name: str, module_args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
            assert name == "tandem.vllm.ray_cluster_info"
            self.calls.append(module_args)
            return dict(results[min(len(self.calls), len(results)) - 1])

        monkeypatch.setattr(action, "_execute_module", execute)
        self.result: dict[str, Any] = action.run(task_vars={"inventory_hostname": "node1", "hostvars": {}})
        assert all(call == given for call in self.calls)


@pytest.mark.parametrize("arguments", [{}, {"container": None, "status_text": "x", "expect": {"nodes": 2}}])
def test_one_look(monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any]) -> None:
    run = Run(monkeypatch, [MISSING], **arguments)
    assert (run.result, len(run.calls), run.shown) == (MISSING, 1, [])


def test_until_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, [DOWN, MISSING, READY], expect={"nodes": 2}, timeout="60")
    assert run.result.pop("waited") == 0.0
    assert (run.result, len(run.calls)) == (READY, 3)
    assert run.shown == [f"node1 tandem-ray: {result['verdict']} (0 s)" for result in (DOWN, MISSING, READY)]


def test_one_look_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, [MISSING], expect={"nodes": 2})
    assert (run.result["failed"], len(run.calls), "waited" in run.result) == (True, 1, False)
    assert run.result["msg"].startswith(f"{SEEN}: {MISSING['verdict']}. {LOG}. Next: on 10.0.0.2 run")
    assert run.result["missing_addresses"] == ["10.0.0.2"]


def test_what_no_waiting_brings(monkeypatch: pytest.MonkeyPatch) -> None:
    # Once may be the old cluster, while a head restarts.
    run = Run(monkeypatch, [WRONG, MISSING, WRONG, WRONG, READY], expect={"version": "2.49.1"}, timeout="60")
    assert (run.result["ready"], len(run.calls)) == (True, 5)
    run = Run(monkeypatch, [WRONG], expect={"version": "2.49.1"}, timeout="60")
    assert (run.result["failed"], len(run.calls)) == (True, 3)
    assert run.result["msg"].startswith(f"{SEEN} after 0 s: {WRONG['verdict']}. Next: on node1 run")


def test_a_module_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = {"failed": True, "msg": "ray_cluster_info cannot run: x"}
    run = Run(monkeypatch, [failed], expect={"nodes": 2}, timeout="60")
    assert (run.result["msg"], len(run.calls)) == ("ray_cluster_info cannot run: x", 1)
