# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.vllm.plugins.modules import python_proof_info
from ansible_collections.tandem.vllm.plugins.modules.python_proof_info import main

OLD = "xgrammar 0.2.8 requires triton, which is not installed."
ANSWERS: dict[str, tuple[int, str, str]] = {
    "--version": (0, "ray, version 2.59.0\n", ""),
    "check": (1, OLD + "\n", ""),
    "freeze": (0, "ray==2.59.0\n", ""),
    "-c": (0, 'tandem-imports:{"ray": null, "vllm": null}\n', ""),
}


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    kept = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


def shown(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answers: dict[str, tuple[int, str, str]],
    **more: Any,
) -> tuple[int, dict[str, Any], list[list[str]]]:
    asked: list[list[str]] = []

    def run(argv: Sequence[str]) -> tuple[int, str, str]:
        asked.append(list(argv)[4:])
        if "inspect" in argv:
            return 0, json.dumps([{"Id": "sha256:1", "Size": 1, "RepoTags": None, "Config": {"Cmd": ["bash"]}}]), ""
        if "run" in argv:
            return 0, "", ""
        return next((answer for word, answer in {**ANSWERS, **answers}.items() if word in argv), (0, "", ""))

    monkeypatch.setattr(python_proof_info, "tolerant", lambda _run: run)
    given = {"image": "vllm:1", "folder": "/store", "pip_wheel": "pip-1.whl", "complaints": [OLD], **more}
    with (
        patch_module_args({key: value for key, value in given.items() if value is not None}),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    return int(ended.value.code or 0), json.loads(capsys.readouterr().out), asked


def test_what_an_image_shows(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    status, result, asked = shown(capsys, monkeypatch, {}, version="2.59.0", projects=["click"])
    assert (status, result["changed"], result["image_id"], result["problems"]) == (0, False, "sha256:1", [])
    evidence = result["evidence"]
    assert (evidence["ray_version"], evidence["pip_freeze"]) == ("2.59.0", ["ray==2.59.0"])
    assert (evidence["pip_check"], evidence["pip_check_new"]) == ([OLD], [])
    assert evidence["imports"] == {"ray": None, "vllm": None}
    tested = next(argv for argv in asked if "-c" in argv and "exec" in argv)
    assert json.loads(tested[-1]) == [["ray", "vllm"], ["click"]]
    assert asked[-1][:3] == ["docker", "rm", "--force"]


@pytest.mark.parametrize(
    ("answers", "more", "said"),
    [
        ({}, {"version": "2.60.0"}, "vllm:1 does not work: ray --version: says 2.59.0, not 2.60.0"),
        ({}, {"complaints": []}, f"vllm:1 does not work: pip check: {OLD}"),
        ({"-c": (0, 'tandem-imports:{"vllm": "ImportError: x"}', "")}, {}, "import vllm: ImportError: x"),
        ({"freeze": (1, "", "No module named pip")}, {}, "vllm:1 cannot be asked: pip freeze: the target has no pip"),
        ({}, {"image": None}, "one of the following is required: image, venv"),
    ],
)
def test_what_does_not_work(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answers: dict[str, tuple[int, str, str]],
    more: dict[str, Any],
    said: str,
) -> None:
    status, result, _asked = shown(capsys, monkeypatch, answers, **more)
    assert (status, said in result["msg"]) == (1, True), result["msg"]


def test_an_environment(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    status, result, asked = shown(capsys, monkeypatch, {}, image=None, venv="/opt/ray")
    assert (status, result["evidence"]["ray_version"]) == (0, "2.59.0")
    assert [argv[0] for argv in asked] == ["unshare"] * 4
