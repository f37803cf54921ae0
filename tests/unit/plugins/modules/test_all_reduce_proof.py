# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.vllm.plugins.module_utils.transport.script import MARK
from ansible_collections.tandem.vllm.plugins.modules import all_reduce_proof
from ansible_collections.tandem.vllm.plugins.modules.all_reduce_proof import main

NAME = "tandem-proof"
IMAGE = "sha256:" + "0" * 64
LOG = (Path(__file__).parents[3] / "fixtures/transport/gloo.txt").read_text()
STAMPED = "".join(f"2026-01-01T00:00:00.00000000{n}Z {line}\n" for n, line in enumerate(LOG.splitlines()))
COMMON: dict[str, Any] = {
    "name": NAME,
    "rank": 0,
    "nodes": 2,
    "node_names": ["node-a", "node-b"],
    "master_address": "10.0.0.1",
    "master_port": 29400,
    "backend": "gloo",
    "timeout": 60,
}
CONTAINER = {"image": IMAGE, "env": {"GLOO_SOCKET_IFNAME": "eth0"}, "memory": "4g"}


class Host:
    """A host's Docker. label: of the container that is there; None: there is none. asked: the argv in order."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.label: str | None = "all_reduce_proof"
        self.exit_code = 0
        self.running_since: str | None = None
        self.log = STAMPED
        self.run: tuple[int, str, str] = (0, "0123\n", "")

    def run_command(self, argv: Sequence[str], handle_exceptions: bool) -> tuple[int, str, str]:
        assert not handle_exceptions
        self.asked.append(list(argv))
        command = list(argv[4:]) if argv[:2] == ["timeout", "-k"] else list(argv)
        if command[1] == "run":
            return self.run
        if command[1] == "rm":
            return 0, NAME, ""
        if self.label is None:
            return 1, "[]", f"Error: No such container: {NAME}"
        running = self.running_since is not None
        if command[1] == "wait" and running:
            return 124, "", ""
        state = {
            "Status": "running" if running else "exited",
            "ExitCode": self.exit_code,
            "StartedAt": self.running_since or "",
            "OOMKilled": False,
            "Error": "",
        }
        answers = {
            "wait": f"{self.exit_code}\n",
            "logs": self.log,
            "container": self.label
            if "--format" in command
            else json.dumps([{"Id": "0123", "State": state, "RestartCount": 0}]),
        }
        return 0, answers[command[1]], ""


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    host = Host()
    monkeypatch.setattr(
        all_reduce_proof.AnsibleModule, "run_command", lambda _self, argv, **more: host.run_command(argv, **more)
    )
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield host
    for number, handler in handlers.items():
        signal.signal(number, handler)


def run(capsys: pytest.CaptureFixture[str], **more: Any) -> tuple[int, dict[str, Any]]:
    """Exit status and result."""
    with patch_module_args({**COMMON, **more}), pytest.raises(SystemExit) as ended:
        main()
    result = json.loads(capsys.readouterr().out)
    result.pop("invocation", None)  # ansible-core 2.19 adds it
    assert not result.get("changed")
    return int(ended.value.code or 0), result


def test_start(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    status, result = run(capsys, step="start", container=CONTAINER)
    assert (status, result) == (0, {"changed": False, "state": "started", "problems": [], "cause": None})
    label, removed, started = host.asked
    assert label[4:7] == ["docker", "container", "inspect"]
    assert removed == ["timeout", "-k", "5", "60", "docker", "rm", "--force", "--volumes", NAME]
    assert started[:7] == ["timeout", "-k", "5", "60", "docker", "run", "--detach"]


def test_start_fails(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    host.run = (125, "", f"docker: Error response from daemon: No such image: {IMAGE}.\nSee 'docker run --help'.")
    status, result = run(capsys, step="start", container=CONTAINER)
    assert (status, result["state"], result["cause"]["id"]) == (1, "failed", "image_missing")
    assert result["msg"].startswith(f"node-a: the transport proof failed. The container {NAME} could not be started")
    assert len(result["problems"]) == 1


def test_collect(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    status, result = run(capsys, step="collect", container=CONTAINER)
    assert status == 0
    assert [size["size_bytes"] for size in result.pop("sizes")] == [2**20, 2**24]
    assert result == {
        "changed": False,
        "state": "passed",
        "backend": "gloo",
        "transport": "gloo/tcp",
        "transports": ["gloo/tcp"],
        "interface": "eth0",
        "interfaces_found": ["eth0"],
        "gdr": None,
        "bus_gbit": 5.797,
        "latency_us": 3371.4,
        "world_size": 2,
        "nccl_version": None,
        "torch_version": "2.13.0+cpu",
        "problems": [],
        "cause": None,
        "log_tail": [],
    }
    # The program ends after `timeout`; Docker gets some time more.
    assert host.asked[1] == ["timeout", "-k", "5", "80", "docker", "wait", NAME]
    assert host.asked[-1][4:6] == ["docker", "rm"]


def test_a_short_look_leaves_what_runs(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    host.running_since = time.strftime("%Y-%m-%dT%H:%M:%S.1Z", time.gmtime())
    told = MARK + json.dumps({"rank": 0, "stage": "wait for all ranks", "missing": [1]})
    host.log = f"2026-01-01T00:00:00.000000001Z {told}\n"
    status, result = run(capsys, step="collect", wait=8)
    assert (status, result) == (
        0,
        {
            "changed": False,
            "state": "running",
            "progress": "wait for all ranks; rank 1 of node-b not there yet",
            "problems": [],
            "cause": None,
        },
    )
    assert not [argv for argv in host.asked if argv[4:6] == ["docker", "rm"]]


def test_what_is_over_its_time_is_removed(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    host.running_since = "2026-01-01T00:00:00Z"
    host.log = ""
    status, result = run(capsys, step="collect", wait=8)
    assert (status, result["cause"]["id"]) == (1, "unknown")
    assert "The container had not ended after 60 s" in result["msg"]
    assert host.asked[-1][4:6] == ["docker", "rm"]


def test_a_short_look_at_what_has_ended(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    status, result = run(capsys, step="collect", wait=8)
    assert (status, result["state"]) == (0, "passed")
    assert host.asked[1] == ["timeout", "-k", "5", "8", "docker", "wait", NAME]
    assert host.asked[-1][4:6] == ["docker", "rm"]


def test_a_failure_keeps_what_was_measured(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    status, result = run(capsys, step="collect", rank=1, expect={"minimum_gbit": 20})
    assert (status, result["failed"], result["state"]) == (1, True, "failed")
    assert result["msg"].startswith("node-b: the transport proof failed. The nodes reach 5.797 Gbit/s")
    assert (result["cause"]["id"], result["bus_gbit"]) == ("bandwidth_below_floor", 5.797)


@pytest.mark.parametrize("step", ["start", "collect"])
def test_a_container_of_something_else_is_left_alone(capsys: pytest.CaptureFixture[str], host: Host, step: str) -> None:
    host.label = ""
    status, result = run(capsys, step=step, container=CONTAINER)
    assert (status, result["cause"]["id"]) == (1, "name_taken")
    assert [argv[4:7] for argv in host.asked] == [["docker", "container", "inspect"]]


def test_nothing_to_collect(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    host.label = None
    status, result = run(capsys, step="collect")
    assert (status, result["cause"]["id"], result["transport"]) == (1, "container_gone", None)


@pytest.mark.parametrize("step", ["start", "collect"])
def test_check_mode(capsys: pytest.CaptureFixture[str], host: Host, step: str) -> None:
    status, result = run(capsys, step=step, container=CONTAINER, _ansible_check_mode=True)
    assert (status, result["state"]) == (0, "not_checked")
    assert host.asked == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"step": "start"}, "step is start but all of the following are missing: container"),
        ({"step": "start", "container": {"image": IMAGE, "privileged": True}}, "container.privileged"),
        ({"step": "start", "container": {"env": {}}}, "container.image = not set: is required"),
        ({"step": "collect", "rank": 2}, "rank = 2: must be from 0 to 1"),
        ({"step": "collect", "nodes": 1, "node_names": ["a"], "rank": 0}, "must make two ranks or more"),
    ],
)
def test_bad_input(capsys: pytest.CaptureFixture[str], host: Host, more: dict[str, Any], said: str) -> None:
    status, result = run(capsys, **more)
    assert (status, result["failed"]) == (1, True)
    assert said in result["msg"]
    assert host.asked == []


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the module warns of. ansible-core keeps it apart from the result where there is a controller, as here."""
    said: list[str] = []
    monkeypatch.setattr(all_reduce_proof.AnsibleModule, "warn", lambda _self, text: said.append(text))
    return said


COST = {
    "hidden_size": 256,
    "layers": 4,
    "element_bytes": 2,
    "tensor_parallel": 2,
    "pipeline_parallel": 1,
    "nodes": 2,
}


def test_what_the_measured_network_costs(capsys: pytest.CaptureFixture[str], host: Host, warned: list[str]) -> None:
    status, result = run(capsys, step="collect", cost=COST)
    assert (status, result["state"]) == (0, "passed")
    assert warned == [
        "node-a, node-b, as measured: TP=2 over 2 nodes at 5.8 Gbit/s and 3371 us without RDMA: each token needs 9 "
        "all-reduces of 512 B over the network, at least 30.3 ms a token, and 43.4 ms for 2048 tokens of a prompt. "
        "Pipeline parallel over the same nodes, as ray-tp-pp.yml does it (TP=1, PP=2), needs 1 message of 1 KiB a "
        "token, 3.4 ms, and 6.3 ms for the prompt."
    ]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"rank": 1}, id="not the first node"),
        pytest.param({"cost": {**COST, "tensor_parallel": 1, "pipeline_parallel": 2}}, id="pipeline parallel"),
        pytest.param({"cost": None}, id="not asked for"),
        pytest.param({"expect": {"minimum_gbit": 20}}, id="failed"),
        pytest.param({"step": "start", "container": CONTAINER}, id="started"),
        pytest.param({"_ansible_check_mode": True}, id="check mode"),
    ],
)
def test_where_there_is_no_cost_to_tell(
    capsys: pytest.CaptureFixture[str], host: Host, warned: list[str], more: dict[str, Any]
) -> None:
    run(capsys, **{"step": "collect", "cost": COST, **more})
    assert warned == []


def test_what_still_runs_is_not_measured(capsys: pytest.CaptureFixture[str], host: Host, warned: list[str]) -> None:
    host.running_since = time.strftime("%Y-%m-%dT%H:%M:%S.1Z", time.gmtime())
    host.log = ""
    _status, result = run(capsys, step="collect", wait=8, cost=COST)
    assert (result["state"], warned) == ("running", [])


def test_a_cost_that_makes_no_sense(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    status, result = run(capsys, step="collect", cost={**COST, "layers": 0})
    assert (status, result["msg"]) == (
        1,
        "all_reduce_proof cannot run: cost.layers = 0: must be a whole number above zero. Correct the value.",
    )
    assert host.asked == []
