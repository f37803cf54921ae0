# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.vllm.plugins.modules import python_target_info
from ansible_collections.tandem.vllm.plugins.modules.python_target_info import main

IMAGE_ID = "sha256:" + "a" * 64
TARGET = {
    "python": "3.11.2",
    "implementation": "cp",
    "abi": "cp311",
    "machine": "x86_64",
    "glibc": "2.36",
    "tags": ["cp311-cp311-manylinux_2_36_x86_64", "py3-none-any"],
}
INSTALLED = [{"name": "ray", "version": "2.60.0", "requires": ["click"], "extras": ["default"]}]
TOLD = json.dumps({**TARGET, "executable": "/opt/vllm/bin/python3", "distributions": INSTALLED})
FOUND = {
    "target": TARGET,
    "distributions": INSTALLED,
    "pip": None,
    "ray": "2.60.0",
    "executable": "/opt/vllm/bin/python3",
}
MISSING = (127, "", 'docker: Error response from daemon: exec: "python3": executable file not found in $PATH.')


class Machine:
    """Commands and what they answer: by the first word after docker's or timeout's own that is a key."""

    def __init__(self, **answers: tuple[int, str, str]) -> None:
        self.answers = {"inspect": (0, IMAGE_ID + "\n", ""), "rm": (0, "", ""), **answers}
        self.ran: list[list[str]] = []

    def __call__(self, argv: Sequence[str]) -> tuple[int, str, str]:
        self.ran.append(list(argv))
        words = [argv[argv.index("--entrypoint") + 1]] if "--entrypoint" in argv else argv
        return next(answer for key, answer in self.answers.items() if key in [w.rpartition("/")[2] for w in words])


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine()
    monkeypatch.setattr(python_target_info, "tolerant", lambda _run: found)
    return found


def run(capsys: pytest.CaptureFixture[str], **arguments: Any) -> tuple[int, dict[str, Any]]:
    with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
        main()
    result = json.loads(capsys.readouterr().out)
    result.pop("invocation", None)
    return int(ended.value.code or 0), result


@pytest.mark.parametrize("check_mode", [False, True])
def test_an_image(capsys: pytest.CaptureFixture[str], machine: Machine, check_mode: bool) -> None:
    machine.answers["python3"] = (0, "hello\n" + TOLD, "")
    status, result = run(capsys, image="vllm:0.32.0", _ansible_check_mode=check_mode)
    assert (status, result) == (0, {"changed": False, "image_id": IMAGE_ID, **FOUND})
    started = machine.ran[1]
    name = started[started.index("--name") + 1]
    assert started[:-1] == [
        *["timeout", "-k", "5", "120", "docker", "run", "--rm", "--pull", "never", "--network", "none", "--name", name],
        *["--entrypoint", "python3", IMAGE_ID, "-c"],
    ]
    assert "def facts()" in started[-1]
    assert machine.ran[2][4:] == ["docker", "rm", "--force", "--volumes", name]


def test_an_image_with_python_only(capsys: pytest.CaptureFixture[str], machine: Machine) -> None:
    machine.answers.update(python3=MISSING, python=(0, TOLD, ""))
    status, result = run(capsys, image="vllm:0.32.0")
    assert (status, result["ray"]) == (0, "2.60.0")


def test_a_python_of_the_host(capsys: pytest.CaptureFixture[str], machine: Machine) -> None:
    machine.answers["python"] = (0, TOLD, "")
    status, result = run(capsys, executable="/opt/ray/bin/python", timeout=7)
    assert (status, result) == (0, {"changed": False, "image_id": None, **FOUND})
    assert [argv[:-1] for argv in machine.ran] == [["timeout", "-k", "5", "7", "/opt/ray/bin/python", "-I", "-c"]]


@pytest.mark.parametrize(
    ("arguments", "answers", "message"),
    [
        (
            {"image": "vllm:0.32.0"},
            {"inspect": (1, "", "Error: No such image: vllm:0.32.0\n")},
            "image = vllm:0.32.0: Docker cannot show it (Error: No such image: vllm:0.32.0). Load or pull it first",
        ),
        (
            {"image": "-v/:/host"},
            {},
            "image = '-v/:/host': must be an image's id (sha256:...), its name with a digest, or its tag. "
            "Correct the value",
        ),
        (
            {"image": "nginx:1.28"},
            {"python3": MISSING, "python": MISSING},
            "image = nginx:1.28: its Python could not be asked: " + MISSING[2],
        ),
        (
            {"executable": "/opt/ray/bin/python"},
            {"python": (0, "hello", "")},
            "executable = /opt/ray/bin/python: its Python did not tell about itself, it said: hello",
        ),
        (
            {"executable": "/opt/ray/bin/python"},
            {"python": (1, "", "Traceback:\nSyntaxError: invalid syntax\n")},
            "executable = /opt/ray/bin/python: its Python could not be asked: SyntaxError: invalid syntax",
        ),
        ({}, {}, "one of the following is required: image, executable"),
        (
            {"image": "x", "executable": "/x"},
            {},
            "parameters are mutually exclusive: image|executable",
        ),
    ],
)
def test_it_fails(
    capsys: pytest.CaptureFixture[str],
    machine: Machine,
    arguments: dict[str, Any],
    answers: dict[str, tuple[int, str, str]],
    message: str,
) -> None:
    machine.answers.update(answers)
    status, result = run(capsys, **arguments)
    assert (status, result["msg"]) == (1, message)
