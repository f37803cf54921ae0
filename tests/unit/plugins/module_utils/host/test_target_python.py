# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.derived import ImageFacts
from ansible_collections.tandem.vllm.plugins.module_utils.host import target_python
from ansible_collections.tandem.vllm.plugins.module_utils.host.target_python import Container, TargetError, Venv

IMAGE = ImageFacts("sha256:1", {"Cmd": ["bash"]}, 10, ())
PIP = ["python3", "-m", "pip"]


class Commands:
    """Answers by words that a command line holds; keeps the command lines."""

    def __init__(self, **answers: tuple[int, str, str]) -> None:
        self.answers = answers
        self.asked: list[list[str]] = []

    def run(self, argv: Sequence[str]) -> tuple[int, str, str]:
        self.asked.append(list(argv))
        return next((answer for word, answer in self.answers.items() if word in argv), (0, "", ""))

    def docker(self) -> list[str]:
        """The verbs of Docker, in order."""
        return [argv[argv.index("docker") + 1] for argv in self.asked if "docker" in argv]


def test_a_container_is_removed() -> None:
    commands = Commands()
    with target_python.container(commands.run, IMAGE, "python3", "/store", 60) as target:
        assert (target.folder, target.program("ray")) == ("/mnt", "ray")
        target.run(["true"], {"A": "1"}, 5)
    assert commands.docker() == ["run", "exec", "rm"]
    name = commands.asked[-1][-1]
    assert name.startswith("tandem-wheels-")
    assert name in commands.asked[0]
    assert commands.asked[1][:4] == ["timeout", "-k", "5", "5"]


def test_what_an_earlier_run_left_is_removed_first() -> None:
    commands = Commands()
    with pytest.raises(KeyError), target_python.container(commands.run, IMAGE, "python3", None, 60, "mine"):
        raise KeyError
    assert commands.docker() == ["rm", "run", "rm"]
    assert commands.asked[0][-1] == commands.asked[-1][-1] == "mine"


def test_a_container_that_does_not_start() -> None:
    error = "docker: Error response from daemon: no space left on device.\nSee 'docker run --help'."
    commands = Commands(run=(125, "", error))
    asked = target_python.container(commands.run, IMAGE, "python3", None, 60)
    with pytest.raises(TargetError, match=r"sha256:1: no container started: docker: Error .* device\.$"):
        asked.__enter__()
    assert commands.docker() == ["run", "rm"]


def test_an_environment_has_no_network() -> None:
    commands = Commands()
    venv = Venv(commands.run, "/opt/ray", "/store")
    venv.run([venv.program("ray"), "--version"], {"A": "1"}, 5)
    assert commands.asked[0][4:] == [
        "unshare",
        "--net",
        "env",
        "-u",
        "PYTHONPATH",
        "A=1",
        "/opt/ray/bin/ray",
        "--version",
    ]
    assert venv.python == "/opt/ray/bin/python"


def test_finding_a_derived_image() -> None:
    ids = ["sha256:3", "sha256:2"]
    tags = {ids[0]: None, ids[1]: ["tandem/x:y"]}
    facts = [{"Id": image_id, "Config": {}, "Size": 1, "RepoTags": tags[image_id]} for image_id in ids]
    commands = Commands(ls=(0, "\n".join([*ids, ids[0]]), ""), inspect=(0, json.dumps(facts), ""))
    labels = {"tandem.base": "sha256:1"}
    found = [target_python.find_derived(commands.run, labels, tag) for tag in ("tandem/x:y", "other", None)]
    assert [image.id for image in found if image] == ["sha256:2", "sha256:3", "sha256:3"]
    assert commands.asked[1][-2:] == ids
    assert target_python.find_derived(Commands().run, labels, None) is None
    with pytest.raises(TargetError, match="no daemon"):
        target_python.find_derived(Commands(ls=(1, "", "no daemon\n")).run, labels, None)


@pytest.mark.parametrize(
    ("status", "out", "err", "complaints"),
    [
        (0, "No broken requirements found.\n", "", []),
        (1, "a 1 requires b, which is not installed.\n", "", ["a 1 requires b, which is not installed."]),
        (1, "", "/usr/bin/python3: No module named pip\n", None),
        (137, "a 1 requires b, which is not installed.\n", "", None),
    ],
)
def test_complaints_or_a_failure(status: int, out: str, err: str, complaints: list[str] | None) -> None:
    target = Container(Commands(check=(status, out, err)).run, "n", "python3")
    if complaints is None:
        with pytest.raises(TargetError, match="pip check: "):
            target_python.complaints(target, PIP)
    else:
        assert target_python.complaints(target, PIP) == complaints


@pytest.mark.parametrize(
    ("hashed", "complete", "rows", "reasons"),
    [
        ((0, '{"install": [{"metadata": {"name": "ray", "version": "1"}}]}', ""), (0, "", ""), [("ray", "1")], []),
        ((1, "", "ERROR: a"), (1, "", "ERROR: b"), [], ["pip says: a", "pip says: b"]),
        ((1, "", "ERROR: a"), (1, "", "ERROR: a"), [], ["pip says: a"]),
        ((0, "no report", ""), (0, "", ""), [], ["pip's report cannot be read"]),
    ],
)
def test_what_would_be_installed(hashed: Any, complete: Any, rows: list[tuple[str, str]], reasons: list[str]) -> None:
    commands = Commands(**{"--require-hashes": hashed, "install": complete})
    found, said = target_python.would_install(Container(commands.run, "n", "python3"), PIP, "ray==1")
    assert [(row["name"], row["version"]) for row in found] == rows
    assert [line.partition(": Expecting")[0] for line in said] == reasons


def test_a_proof() -> None:
    commands = Commands(
        **{
            "--version": (0, "ray, version 2.59.0\n", ""),
            "check": (1, "a requires b.\n", ""),
            "freeze": (0, "ray==2.59.0\n\n", ""),
            "-c": (0, 'tandem-imports:{"ray": null}\n', ""),
        }
    )
    proof = target_python.prove(Container(commands.run, "n", "python3"), PIP, ["ray"], ["ray"], ["a requires b."])
    assert (proof.ray_version, proof.new_complaints, list(proof.pip_freeze)) == ("2.59.0", [], ["ray==2.59.0"])
    assert proof.imports == {"ray": None}
    # What is tried must leave nothing: the container becomes an image.
    assert [argv for argv in commands.asked if "PYTHONDONTWRITEBYTECODE=1" not in argv] == []
    program = commands.asked[0][commands.asked[0].index("-c") + 1]
    assert "def attempt(" in program


def test_a_failed_installation() -> None:
    commands = Commands(install=(1, "", "ERROR: [Errno 28] No space left on device\n"))
    with pytest.raises(TargetError, match=r"pip install: pip says: \[Errno 28\] No space left"):
        target_python.install(Container(commands.run, "n", "python3"), PIP, True, False, 60)
    # Its byte code is wanted.
    assert "PYTHONDONTWRITEBYTECODE=1" not in commands.asked[0]
