# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.vllm.plugins.modules import image_load
from ansible_collections.tandem.vllm.plugins.modules.image_load import main, position

REF = "vllm:1"
REMOTE = "/var/tmp/tandem-vllm.tar"  # noqa: S108 - a path to be named, not used
UNIT = "tandem-vllm.tar.load.service"
LOOK = ["docker", "image", "inspect", "--format", "{{.Id}}", REF]


def run(capsys: pytest.CaptureFixture[str], arguments: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0), json.loads(capsys.readouterr().out)


class Commands:
    """Answers commands by their first two words; keeps what was run."""

    def __init__(self, **answers: tuple[int, str, str]) -> None:
        self.answers: dict[str, tuple[int, str, str]] = {"docker image": (1, "", "no such image"), **answers}
        self.run: list[list[str]] = []

    def __call__(self, argv: Sequence[str], check_rc: bool = False) -> tuple[int, str, str]:
        self.run.append(list(argv))
        return self.answers.get(" ".join(argv[:2]), (0, "", ""))


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    commands = Commands()
    monkeypatch.setattr(AnsibleModule, "run_command", commands)
    monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda _self, name, **_k: "/usr/bin/" + name)
    return commands


@pytest.mark.parametrize(("answer", "image"), [((0, "sha256:ab\n", ""), "sha256:ab"), ((1, "", "no such image"), None)])
def test_look(
    capsys: pytest.CaptureFixture[str], commands: Commands, answer: tuple[int, str, str], image: str | None
) -> None:
    commands.answers["docker image"] = answer
    status, result = run(capsys, {"ref": REF})
    assert (status, result["changed"], result["image_id"]) == (0, False, image)
    assert commands.run == [LOOK]


def test_start(capsys: pytest.CaptureFixture[str], commands: Commands) -> None:
    status, result = run(capsys, {"ref": REF, "step": "start", "path": REMOTE})
    assert (status, result["image_id"]) == (0, None)
    assert commands.run == [
        LOOK,
        ["systemctl", "reset-failed", UNIT],
        [
            "systemd-run",
            "--quiet",
            "--unit",
            UNIT,
            "--property=RemainAfterExit=yes",
            "/usr/bin/docker",
            "load",
            "--input",
            REMOTE,
        ],
    ]


SHOW = ["systemctl", "show", UNIT, "--property=MainPID,ActiveState,SubState,Result"]


def poll(
    capsys: pytest.CaptureFixture[str], commands: Commands, show: str, path: str = REMOTE
) -> tuple[dict[str, Any], list[list[str]]]:
    """Result, and the commands after the two looks that every poll takes."""
    commands.answers["systemctl show"] = (0, show, "")
    status, result = run(capsys, {"ref": REF, "step": "poll", "path": path})
    assert status == 0
    assert commands.run[0] == LOOK
    assert commands.run[1][:2] == SHOW[:2]
    return {k: v for k, v in result.items() if k not in ("changed", "invocation")}, commands.run[2:]


@pytest.mark.parametrize(("read", "percent"), [(0, 0), (500, 50), (999, 99), (1000, 100), (None, 100)])
def test_poll_while_it_runs(
    capsys: pytest.CaptureFixture[str],
    commands: Commands,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    read: int | None,
    percent: int,
) -> None:
    archive = tmp_path / "vllm.tar"
    archive.write_bytes(b"x" * 1000)
    asked = []
    monkeypatch.setattr(image_load, "position", lambda *a: asked.append(a) or read)
    show = "MainPID=77\nResult=success\nActiveState=active\nSubState=running\n"
    result, further = poll(capsys, commands, show, str(archive))
    assert result == {"image_id": None, "running": True, "percent": percent}
    assert (asked, further) == ([("77", str(archive))], [])


def test_poll_when_it_has_ended(capsys: pytest.CaptureFixture[str], commands: Commands) -> None:
    commands.answers["docker image"] = (0, "sha256:ab\n", "")
    show = "MainPID=0\nResult=success\nActiveState=active\nSubState=exited\n"
    result, further = poll(capsys, commands, show)
    assert result == {"image_id": "sha256:ab", "running": False, "percent": 100}
    assert further == [["systemctl", "stop", UNIT]]


@pytest.mark.parametrize(
    ("log", "error"),
    [
        ("open /x: no such file\n", "open /x: no such file"),
        ("", "exit-code"),
    ],
)
def test_poll_when_it_failed(capsys: pytest.CaptureFixture[str], commands: Commands, log: str, error: str) -> None:
    commands.answers["journalctl --unit"] = (0, log, "")
    show = "MainPID=0\nResult=exit-code\nActiveState=failed\nSubState=failed\n"
    result, further = poll(capsys, commands, show)
    assert result == {"image_id": None, "running": False, "error": error}
    assert further == [["journalctl", "--unit", UNIT, "--lines", "3", "--output", "cat"]]


def test_position_of_an_open_file(tmp_path: Path) -> None:
    archive = tmp_path / "vllm.tar"
    archive.write_bytes(b"x" * 1000)
    assert position("self", str(archive)) is None
    with archive.open("rb", buffering=0) as stream:
        stream.read(300)
        assert position("self", str(archive)) == 300
    assert position("no-such-process", str(archive)) is None
