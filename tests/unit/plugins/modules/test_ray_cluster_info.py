# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.vllm.plugins.module_utils.ray import commands
from ansible_collections.tandem.vllm.plugins.modules import ray_cluster_info
from ansible_collections.tandem.vllm.plugins.modules.ray_cluster_info import ARGUMENTS, main

FIXTURES = Path(__file__).parents[3] / "fixtures/ray"
EXPECT = {"nodes": 2, "gpus_per_node": {"127.0.0.1": 2, "127.0.0.2": 1}}
ADDRESS = "127.0.0.1:6379"


def text(name: str) -> str:
    return (FIXTURES / name).read_text()


TABLE = json.loads(text("node-table.txt"))


def run(capsys: pytest.CaptureFixture[str], code: int = 0, **arguments: Any) -> dict[str, Any]:
    """What the module returns, without what Ansible adds; it never changes anything."""
    with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
        main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    result.pop("invocation", None)
    assert int(ended.value.code or 0) == code
    if not code:
        assert result.pop("changed") is False
    return result


class Host:
    """A Docker with one container, whose Ray answers what is set here: exit status, stdout, stderr."""

    def __init__(self) -> None:
        self.status = (0, text("status-v1-verbose.txt"), "a warning\n")
        looked = {"ray_version": "2.60.0", "python_version": "3.11.2", "nodes": TABLE}
        self.looked: dict[str, Any] = {**looked, "cluster": {"ray_version": "2.60.0", "python_version": "3.11.9"}}
        self.listed = (0, text("list-nodes.json.txt"), "")
        self.there = True
        self.asked: list[str] = []

    def run(self, argv: Sequence[str], **_more: Any) -> tuple[int, str, str]:
        command = list(argv)
        if command[:3] == ["docker", "container", "inspect"]:
            state = {"Status": "running", "ExitCode": 0, "StartedAt": "", "OOMKilled": False, "Error": ""}
            return (
                (0, json.dumps([{"Id": "ab" * 32, "State": state, "RestartCount": 0}]), "")
                if self.there
                else (1, "", "No such container")
            )
        if command[:2] == ["docker", "logs"]:
            return 0, "".join(f"2026-11-29T10:00:{n:02}Z \x1b[1mline {n}\x1b[22m\n" for n in range(20)), ""
        # Each has a limit on the host and a shorter one in the container.
        assert command[:4] == ["timeout", "-k", "5", "45"]
        assert command[4:9] == ["docker", "exec", "--env", f"RAY_ADDRESS={ADDRESS}", "tandem-ray"]
        assert command[9:13] == ["timeout", "-k", "2", "30"]
        self.asked.append(" ".join(command[13:15]))
        if not self.there:
            return 1, "", "Error response from daemon: No such container: tandem-ray"
        answers = {
            "ray status": self.status,
            "python3 -c": (0, "x\n" + commands.MARK + json.dumps(self.looked) + "\n", "noise"),
            "ray list": self.listed,
        }
        return answers[self.asked[-1]]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    found = Host()
    monkeypatch.setattr(AnsibleModule, "run_command", found.run)
    return found


def undocumented(result: dict[str, Any], documented: dict[str, Any], path: str = "") -> set[str]:
    """Keys of a result that the documentation lacks, and documented ones that the result lacks."""
    wrong = {path + key for key in set(result) ^ set(documented)}
    for key in set(result) & set(documented):
        below, value = documented[key].get("contains"), result[key]
        for entry in value if isinstance(value, list) else [value]:
            if below and isinstance(entry, dict):
                wrong |= undocumented(entry, below, f"{path}{key}.")
    return wrong


@pytest.mark.parametrize(
    "arguments",
    [
        {"status_text": ""},
        {"nodes_text": ""},
        {"status_text": text("status-unreachable.txt")},
        {"status_text": text("status-v2-verbose.txt")},
        {"status_text": text("status-v1-verbose.txt"), "nodes_text": text("node-table.txt"), "expect": EXPECT},
    ],
)
def test_every_key_is_documented(capsys: pytest.CaptureFixture[str], arguments: dict[str, Any]) -> None:
    documented = yaml.safe_load(ray_cluster_info.RETURN)
    # The action adds it.
    del documented["waited"]
    assert undocumented(run(capsys, **arguments), documented) == set()


def test_every_option_is_documented() -> None:
    options = yaml.safe_load(ray_cluster_info.DOCUMENTATION)["options"]
    assert set(options) == set(ARGUMENTS)
    assert set(options["expect"]["suboptions"]) == set(ARGUMENTS["expect"]["options"])
    for name, option in options.items():
        assert option.get("default") == ARGUMENTS[name].get("default")


def test_texts(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_module: AnsibleModule, argv: Sequence[str], **_more: Any) -> None:
        pytest.fail(f"ran {argv}")

    monkeypatch.setattr(AnsibleModule, "run_command", refuse)
    result = run(capsys, status_text=text("status-v1-verbose.txt"), nodes_text=text("list-nodes.txt"), expect=EXPECT)
    assert (result["ready"], result["missing_addresses"], result["dead"]) == (False, ["127.0.0.2"], 1)
    assert (result["nodes"]["active"], result["alive"], result["gpu_free_for_new_pg"]) == (2, 1, 2.0)
    assert (result["ray_version"], result["log_tail"]) == (None, [])


def test_container(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    host.status = (0, text("status-v1-node-lost.txt"), "a warning\n")
    result = run(capsys, container="tandem-ray", address=ADDRESS, expect={"nodes": 1, "version": "2.60.0"})
    assert host.asked == ["ray status", "python3 -c"]
    assert (result["ready"], result["log_tail"], result["address"]) == (True, [], ADDRESS)
    # The head's versions are the cluster's.
    assert (result["ray_version"], result["python_version"]) == ("2.60.0", "3.11.9")
    assert [(node["ip"], node["gpu_free"]) for node in result["node_list"]] == [("127.0.0.1", 1.0), ("127.0.0.2", None)]


def test_what_lacks_comes_with_the_log(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    result = run(capsys, container="tandem-ray", address=ADDRESS, expect=EXPECT)
    assert (result["ready"], result["missing_addresses"]) == (False, ["127.0.0.2"])
    assert (len(result["log_tail"]), result["log_tail"][-1]) == (10, "line 19")


def test_a_ray_that_cannot_be_asked_directly(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    host.looked = {"ray_version": "3.0.0", "python_version": "3.13.1", "error": "ImportError: GlobalState"}
    result = run(capsys, container="tandem-ray", address=ADDRESS)
    assert host.asked == ["ray status", "python3 -c", "ray list"]
    assert (result["alive"], result["dead"], result["ray_version"]) == (1, 1, "3.0.0")
    host.listed = (2, "", text("list-nodes-no-dashboard.txt"))
    result = run(capsys, container="tandem-ray", address=ADDRESS)
    assert (result["reachable"], result["alive"], result["dead"]) == (True, 2, None)
    assert "/api/v0/nodes" in result["reason"]


@pytest.mark.parametrize(
    ("answer", "root_cause", "reason"),
    [
        ((1, "", text("status-unreachable.txt")), "ray_gcs_unreachable", "Failed to connect to GCS at address"),
        ((1, "", text("status-not-running.txt")), "ray_not_running_here", "Could not find any running Ray instance"),
        # Killed before it said anything.
        ((124, "", ""), "ray_gcs_unreachable", "no answer within 30 s"),
        ((137, "", ""), "ray_gcs_unreachable", "no answer within 30 s"),
    ],
)
def test_no_answer(
    capsys: pytest.CaptureFixture[str], host: Host, answer: tuple[int, str, str], root_cause: str, reason: str
) -> None:
    host.status = answer
    result = run(capsys, container="tandem-ray", address=ADDRESS)
    assert host.asked == ["ray status"]
    assert (result["reachable"], result["root_cause"], result["ready"]) == (False, root_cause, False)
    assert reason in result["reason"]


def test_no_container(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    host.there = False
    result = run(capsys, container="tandem-ray", address=ADDRESS)
    assert (result["reachable"], result["retryable"], result["log_tail"]) == (False, True, [])
    assert result["reason"] == "Error response from daemon: No such container: tandem-ray"


def test_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    result = run(capsys, 1, status_text="x", expect={"nodes": "two"}, command_timeout=0)
    assert result["msg"] == (
        "ray_cluster_info cannot run:\n"
        "- expect.nodes = 'two': must be a whole number from 1. Correct the value.\n"
        "- command_timeout = 0: must be a whole number from 1. Correct the value."
    )
    result = run(capsys, 1, container="c", status_text="x")
    assert result["msg"] == "parameters are mutually exclusive: container|status_text"
    result = run(capsys, 1)
    assert result["msg"] == "one of the following is required: container, status_text, nodes_text"
