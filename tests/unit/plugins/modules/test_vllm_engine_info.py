# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import Docker
from ansible_collections.tandem.vllm.plugins.module_utils.host.openai_http import OpenAIConnectionError, Response
from ansible_collections.tandem.vllm.plugins.modules import vllm_engine_info
from ansible_collections.tandem.vllm.plugins.modules.vllm_engine_info import main

KEY = "sk-Engine-Key-000003"
METRICS = """\
vllm:num_requests_running{engine="0"} 2.0
vllm:num_requests_waiting{engine="0"} 1.0
vllm:cache_config_info{block_size="128",num_gpu_blocks="4096"} 1.0
"""
LOADING = "Starting to load model /m\n\rLoading safetensors checkpoint shards:  50% Completed | 7/14 [00:05<00:05]"
WHY = "ValueError: No available memory for the cache blocks."
FAILED = WHY + "\nRuntimeError: Engine core initialization failed."
NO_DRIVER = "could not select device driver"
NO_MEMORY = "the container was killed for memory (limits.memory)"


def run(capsys: pytest.CaptureFixture[str], arguments: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0), json.loads(capsys.readouterr().out)


class Host:
    """A container, its log, and what its API answers: responses, or an error where nothing listens."""

    def __init__(self, folder: Path) -> None:
        self.state: dict[str, Any] | None = {}
        self.restarts = 0
        self.log = ""
        self.key_file = folder / "engine.key"
        self.key_file.write_text(KEY + "\n")
        self.answers: dict[str, Response] | None = {
            "completion": Response(200, {}, b"{}"),
            "/metrics": Response(200, {}, METRICS.encode()),
            "/version": Response(200, {}, b'{"version": "0.32.0"}'),
        }
        self.asked: list[Any] = []

    def docker(self, _run: object) -> Docker:
        return Docker(self.run)

    def run(self, argv: Sequence[str]) -> tuple[int, str, str]:
        if argv[1] == "logs":
            return 0, "".join(f"2026-11-29T10:00:{n:02}Z {line}\n" for n, line in enumerate(self.log.split("\n"))), ""
        assert list(argv) == ["docker", "container", "inspect", "tandem-chat-a"]
        if self.state is None:
            return 1, "[]", "no such container"
        state = {"Status": "running", "ExitCode": 0, "StartedAt": "", "OOMKilled": False, "Error": "", **self.state}
        return 0, json.dumps([{"Id": "ab" * 32, "State": state, "RestartCount": self.restarts}]), ""

    def client(self, url: str, key: str, timeout: float) -> Host:
        self.asked.append((url, key))
        return self

    def answer(self, what: str) -> Response:
        self.asked.append(what)
        if self.answers is None:
            raise OpenAIConnectionError("connection refused")
        return self.answers[what]

    def completion(self, served_name: str, task: str) -> Response:
        self.asked.append((served_name, task))
        return self.answer("completion")

    def request(self, method: str, path: str) -> Response:
        assert method == "GET"
        return self.answer(path)

    def arguments(self, **more: Any) -> dict[str, Any]:
        return {
            "container": "tandem-chat-a",
            "url": "http://10.0.0.1:8000",
            "served_name": "big",
            "key_file": str(self.key_file),
            **more,
        }


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    host = Host(tmp_path)
    monkeypatch.setattr(vllm_engine_info, "Docker", host.docker)
    monkeypatch.setattr(vllm_engine_info, "OpenAIClient", host.client)
    return host


def told(capsys: pytest.CaptureFixture[str], host: Host, **more: Any) -> dict[str, Any]:
    """What the module returns, without what Ansible adds."""
    status, result = run(capsys, host.arguments(**more))
    assert (status, result.pop("changed")) == (0, False)
    assert KEY not in json.dumps(result)
    result.pop("invocation", None)  # ansible-core 2.19 adds it
    return result


def test_ready(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    assert told(capsys, host, task="score") == {
        "container": "tandem-chat-a",
        "state": "ready",
        "progress": "serving",
        "last_log_line": "",
        "restarts": 0,
        "vllm_version": "0.32.0",
        "in_engine": 3,
        "kv_cache_tokens": 524288,
    }
    assert host.asked == [
        ("http://10.0.0.1:8000", KEY),
        ("big", "score"),
        "completion",
        "/metrics",
        "/version",
    ]


def test_ready_though_it_tells_nothing_of_itself(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    host.answers = {**(host.answers or {}), "/metrics": Response(404, {}, b""), "/version": Response(404, {}, b"no")}
    result = told(capsys, host)
    assert [result[k] for k in ("state", "vllm_version", "in_engine", "kv_cache_tokens")] == ["ready", None, None, None]


def test_check_mode_reads_as_well(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    assert told(capsys, host, _ansible_check_mode=True)["state"] == "ready"


def test_idle_asks_for_no_completion(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    result = told(capsys, host, wait_for="idle")
    assert (result["state"], result["in_engine"]) == ("ready", 3)
    assert host.asked[1:] == ["/metrics"]


def test_absent(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    host.state = None
    assert told(capsys, host) == {
        "state": "absent",
        "progress": "no such container",
        "last_log_line": "",
        "restarts": 0,
    }


def test_not_listening_yet(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    host.answers, host.log = None, LOADING
    assert told(capsys, host) == {
        "container": "tandem-chat-a",
        "state": "starting",
        "progress": "loading weights, shard 7 of 14 (50 %)",
        "last_log_line": "Loading safetensors checkpoint shards:  50% Completed | 7/14 [00:05<00:05]",
        "restarts": 0,
        "failed_before": None,
        # Nothing runs where nothing listens: a replica that is still loading can be drained at once.
        "in_engine": 0,
    }


def test_listening_but_no_completion(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    host.answers = {"completion": Response(404, {}, b'{"error": "no such model"}' + b"x" * 400)}
    host.log = "Application startup complete."
    result = told(capsys, host)
    assert (result["state"], result["progress"]) == ("starting", "API server up, waiting for a completion")
    assert result["answer"][:36] == 'HTTP 404: {"error": "no such model"}'
    assert len(result["answer"]) == len("HTTP 404: ") + 300


def test_starting_again_after_a_failure(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    host.answers, host.restarts, host.log = None, 2, FAILED + "\n" + LOADING
    result = told(capsys, host)
    assert (result["state"], result["restarts"]) == ("starting", 2)
    assert result["failed_before"] == WHY
    assert "cause" not in result


@pytest.mark.parametrize(
    ("state", "log", "told_state", "cause"),
    [
        ({"Status": "exited", "ExitCode": 1}, FAILED, "exited", WHY),
        ({"Status": "restarting"}, FAILED, "restarting", WHY),
        ({"Status": "exited", "OOMKilled": True, "ExitCode": 137}, FAILED, "exited", NO_MEMORY),
        ({"Status": "created", "Error": NO_DRIVER}, "", "exited", NO_DRIVER),
        ({"Status": "exited", "ExitCode": 137}, "INFO all well", "exited", "exit code 137"),
        ({"Status": "exited", "ExitCode": 0}, "", "exited", "exit code 0"),
    ],
)
def test_not_running(
    capsys: pytest.CaptureFixture[str], host: Host, state: dict[str, Any], log: str, told_state: str, cause: str
) -> None:
    host.state, host.log = state, log
    result = told(capsys, host)
    assert (result["state"], result["cause"], result["failed_before"]) == (told_state, cause, None)
    assert host.asked == []


def test_made_and_not_started(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    """As a rank group's is until all nodes are ready for it: nothing has failed."""
    host.state = {"Status": "created"}
    assert told(capsys, host) == {
        "container": "tandem-chat-a",
        "state": "starting",
        "progress": "not started yet",
        "last_log_line": "",
        "restarts": 0,
        "failed_before": None,
    }
    assert host.asked == []


def test_idle_needs_no_name_of_the_model(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    arguments = host.arguments(wait_for="idle")
    del arguments["served_name"]
    status, result = run(capsys, arguments)
    assert (status, result["state"], result["in_engine"]) == (0, "ready", 3)


@pytest.mark.parametrize("wait_for", ["ready", "nothing"])
def test_a_completion_needs_the_name(capsys: pytest.CaptureFixture[str], host: Host, wait_for: str) -> None:
    arguments = host.arguments(wait_for=wait_for)
    del arguments["served_name"]
    status, result = run(capsys, arguments)
    assert (status, result["failed"]) == (1, True)
    assert result["msg"] == f"wait_for is {wait_for} but all of the following are missing: served_name"


def test_no_key_file(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    host.key_file.unlink()
    status, result = run(capsys, host.arguments())
    assert (status, result["failed"]) == (1, True)
    assert result["msg"] == f"key_file = {host.key_file} cannot be read: No such file or directory"
