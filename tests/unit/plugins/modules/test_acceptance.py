# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module against a fake gateway and fake engines, right and with one fault at a time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.vllm.plugins.module_utils import acceptance
from ansible_collections.tandem.vllm.plugins.modules.acceptance import main
from ansible_collections.tandem.vllm.tests.unit.plugins.fake_openai import FakeServer

CLIENT_KEY = "sk-Client-key-0001"
ENGINE_KEY = "sk-Engine-key-0001"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptance, "PAUSE_S", 0)


ALL_GATEWAY = ["closed_path", "completion", "missing_key", "models", "streamed", "unknown_model", "wrong_key"]
ALL_REPLICA = ["replica_completion", "replica_missing_key"]

# Where the fault is, what it is, and which checks must not pass.
FAULTS = [
    ("gateway", "model_not_listed", ["models"]),
    ("gateway", "other_context", ["models"]),
    ("gateway", "no_text", ["completion"]),
    ("gateway", "no_usage", ["completion"]),
    ("gateway", "other_model", ["completion"]),
    ("gateway", "buffered", ["streamed"]),
    ("gateway", "one_chunk", ["streamed"]),
    ("gateway", "no_done", ["streamed"]),
    ("gateway", "cut", ["streamed"]),
    ("gateway", "error_in_stream", ["streamed"]),
    ("gateway", "case_ignored", ["wrong_key"]),
    ("gateway", "missing_key_accepted", ["missing_key"]),
    ("gateway", "engine_shaped_401", ["missing_key", "wrong_key"]),
    ("gateway", "any_model", ["unknown_model"]),
    ("gateway", "unshaped_404", ["unknown_model"]),
    ("gateway", "metrics_open", ["closed_path"]),
    ("gateway", "broken", ["completion", "models", "streamed", "unknown_model"]),
    ("gateway", "mute", ALL_GATEWAY),
    ("engine", "no_text", ["replica_completion"]),
    ("engine", "broken", ["replica_completion"]),
    ("engine", "missing_key_accepted", ["replica_missing_key"]),
    ("engine", "mute", ALL_REPLICA),
]


def options(gateway: FakeServer, *engines: FakeServer, **more: Any) -> dict[str, Any]:
    replicas = [
        {"name": f"chat-{number}", "url": engine.url, "node": f"node{number}", "container": f"tandem-chat-{number}"}
        for number, engine in enumerate(engines)
    ]
    service = {"name": "chat", "served_name": "tiny-chat", "max_model_len": 2048, "replicas": replicas}
    return {
        "endpoint": gateway.url,
        "api_key": CLIENT_KEY,
        "engine_api_key": ENGINE_KEY,
        "services": [service],
        "timeout": 5,
        **more,
    }


def run(capsys: pytest.CaptureFixture[str], arguments: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr().out
    assert CLIENT_KEY not in printed
    assert CLIENT_KEY.swapcase() not in printed
    assert ENGINE_KEY not in printed
    result: dict[str, Any] = json.loads(printed)
    return int(ended.value.code or 0), result


def not_passed(result: dict[str, Any]) -> list[str]:
    return sorted({check["id"] for check in result["checks"] if check["outcome"] != "passed"})


def test_all_passes(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeServer(CLIENT_KEY) as gateway, FakeServer(ENGINE_KEY, engine=True) as engine:
        code, result = run(capsys, options(gateway, engine, engine, subject={"image": "vllm@sha256:1", "lab": True}))
    assert (code, result["passed"], result["changed"]) == (0, True, False)
    assert not_passed(result) == []
    assert result["msg"] == "acceptance: all 11 checks passed"
    evidence = result["evidence"]
    assert evidence["checks"] == result["checks"]
    assert evidence["subject"] == {"image": "vllm@sha256:1", "lab": True}
    assert evidence["started_at"].endswith("+00:00")
    assert evidence["endpoint"] == gateway.url


@pytest.mark.parametrize(("where", "fault", "caught_by"), FAULTS)
def test_faults_are_caught(capsys: pytest.CaptureFixture[str], where: str, fault: str, caught_by: list[str]) -> None:
    faults = frozenset({fault, "key_repeated"})
    with (
        FakeServer(CLIENT_KEY, faults=faults if where == "gateway" else frozenset()) as gateway,
        FakeServer(ENGINE_KEY, engine=True) as good,
        FakeServer(ENGINE_KEY, engine=True, faults=faults if where == "engine" else frozenset()) as engine,
    ):
        code, result = run(capsys, options(gateway, good, engine))
    assert (code, result["failed"], result["passed"]) == (1, True, False)
    assert not_passed(result) == caught_by
    for check in caught_by:
        assert f"- {check} (" in result["msg"]
    bad_targets = {check["target"] for check in result["checks"] if check["outcome"] != "passed"}
    assert bad_targets == ({"gateway"} if where == "gateway" else {"replica chat-1"})
    assert ("docker logs --tail 50 tandem-chat-1   (on node1)" in result["msg"]) is (where == "engine")
    assert result["evidence"]["passed"] is False


def test_what_a_busy_machine_may_cause_is_asked_again(capsys: pytest.CaptureFixture[str]) -> None:
    with (
        FakeServer(CLIENT_KEY, faults=frozenset({"buffered_once"})) as gateway,
        FakeServer(ENGINE_KEY, engine=True) as engine,
    ):
        code, _result = run(capsys, options(gateway, engine))
    assert (code, gateway.streams) == (0, 2)


def test_what_no_busy_machine_causes_is_asked_once(capsys: pytest.CaptureFixture[str]) -> None:
    with (
        FakeServer(CLIENT_KEY, faults=frozenset({"no_done"})) as gateway,
        FakeServer(ENGINE_KEY, engine=True) as engine,
    ):
        run(capsys, options(gateway, engine))
    assert gateway.streams == 1


def test_every_check_is_made_to_fail() -> None:
    assert {check for _where, _fault, caught_by in FAULTS for check in caught_by} == {
        check.id for check in acceptance.CHECKS
    }


def test_what_is_down_fails_or_could_not_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeServer(CLIENT_KEY) as gateway, FakeServer(ENGINE_KEY, engine=True) as engine:
        pass
    _code, result = run(capsys, options(gateway, engine))
    outcomes = {check["id"]: check["outcome"] for check in result["checks"]}
    assert {check for check, outcome in outcomes.items() if outcome == "failed"} == {
        "models",
        "completion",
        "streamed",
        "replica_completion",
    }
    assert set(outcomes.values()) == {"failed", "not_run"}


@pytest.mark.parametrize(
    ("option", "left_out"),
    [
        ("api_key", ["closed_path", "completion", "models", "streamed", "unknown_model", "wrong_key"]),
        ("engine_api_key", ["replica_completion"]),
    ],
)
def test_without_a_key_what_needs_it_is_not_run(
    capsys: pytest.CaptureFixture[str], option: str, left_out: list[str]
) -> None:
    with FakeServer(CLIENT_KEY) as gateway, FakeServer(ENGINE_KEY, engine=True) as engine:
        code, result = run(capsys, options(gateway, engine, **{option: None}))
    assert code == 1
    assert not_passed(result) == left_out
    assert {(c["outcome"], c["detail"]) for c in result["checks"] if c["outcome"] != "passed"} == {
        ("not_run", f"no {option} was given")
    }


def test_failure_can_be_left_to_the_caller(capsys: pytest.CaptureFixture[str]) -> None:
    with (
        FakeServer(CLIENT_KEY, faults=frozenset({"metrics_open"})) as gateway,
        FakeServer(ENGINE_KEY, engine=True) as engine,
    ):
        code, result = run(capsys, options(gateway, engine, fail_on_failure=False, started_at="noon"))
    assert (code, result["passed"], result["evidence"]["started_at"]) == (0, False, "noon")


def test_check_mode_asks_too_as_it_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeServer(CLIENT_KEY) as gateway, FakeServer(ENGINE_KEY, engine=True) as engine:
        code, result = run(capsys, options(gateway, engine, _ansible_check_mode=True))
    assert (code, result["passed"]) == (0, True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"endpoint": "10.0.0.1:8080"}, "nothing was checked: '10.0.0.1:8080' is no usable URL"),
        ({"api_key": "two\nlines"}, "nothing was checked: the API key for http"),
        ({"services": []}, "services is empty"),
    ],
)
def test_bad_options(capsys: pytest.CaptureFixture[str], change: dict[str, Any], said: str) -> None:
    with FakeServer(CLIENT_KEY) as gateway, FakeServer(ENGINE_KEY, engine=True) as engine:
        code, result = run(capsys, options(gateway, engine, **change))
        assert gateway.seen + engine.seen == []
    assert code == 1
    assert said in result["msg"]
