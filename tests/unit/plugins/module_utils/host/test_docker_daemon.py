# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker_daemon import (
    DaemonConfigError,
    Process,
    processes,
    read,
    validate,
)

STAGED = "/tmp/daemon-x.json"  # noqa: S108 - a path to be named, not used
REAL = "/etc/docker/daemon.json"
# As dockerd of Docker 26.1 and 20.10 answer.
OK = (0, "", "configuration OK\n")
OLD = (125, "", "unknown flag: --validate\nSee 'dockerd --help'.\n")
UNKNOWN_KEY = (
    1,
    "",
    f"unable to configure the Docker daemon with file {STAGED}: the following directives don't match any configuration "
    "option: bogus\n",
)


class Proc:
    """A host's /proc under a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.namespace("self", "pid:[1]")

    def namespace(self, pid: str, name: str) -> None:
        folder = self.root / "proc" / pid / "ns"
        folder.mkdir(parents=True)
        (folder / "pid").symlink_to(name)

    def add(self, pid: int, name: str, *argv: str, parent: int = 1, namespace: str = "pid:[1]") -> None:
        if namespace:
            self.namespace(str(pid), namespace)
        folder = self.root / f"proc/{pid}"
        folder.mkdir(exist_ok=True)
        (folder / "comm").write_text(name + "\n")
        (folder / "stat").write_text(f"{pid} ({name}) S {parent} {pid} 0\n")
        (folder / "cmdline").write_bytes("".join(word + "\0" for word in argv).encode())


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def test_processes(proc: Proc, tmp_path: Path) -> None:
    proc.add(300, "dockerd", "/usr/bin/dockerd", "-H", "fd://")
    proc.add(45, "containerd", "/usr/bin/containerd", parent=300)
    proc.add(7, "bash")
    # In a container, and one that may not be looked at closely.
    proc.add(900, "dockerd", "dockerd", namespace="pid:[2]")
    proc.add(901, "dockerd", "dockerd", namespace="")
    assert processes(("dockerd", "containerd"), str(tmp_path)) == [
        Process(45, 300, "containerd", ("/usr/bin/containerd",)),
        Process(300, 1, "dockerd", ("/usr/bin/dockerd", "-H", "fd://")),
        Process(901, 1, "dockerd", ("dockerd",)),
    ]


def test_a_name_with_parentheses(proc: Proc, tmp_path: Path) -> None:
    proc.add(8, "a) S 9 (b", parent=4)
    assert processes(("a) S 9 (b",), str(tmp_path)) == [Process(8, 4, "a) S 9 (b", ())]


def test_a_process_that_is_gone(proc: Proc, tmp_path: Path) -> None:
    proc.add(8, "dockerd")
    (tmp_path / "proc/8/stat").unlink()
    assert processes(("dockerd",), str(tmp_path)) == [Process(8, 0, "dockerd", ())]
    assert read(str(tmp_path), "/proc/8/stat") == b""


class Dockerd:
    def __init__(self, answer: tuple[int, str, str]) -> None:
        self.answer = answer
        self.asked: list[list[str]] = []

    def __call__(self, argv: Sequence[str]) -> tuple[int, str, str]:
        self.asked.append(list(argv))
        return self.answer


@pytest.mark.parametrize(("answer", "tried"), [(OK, True), (OLD, False)])
def test_validate(proc: Proc, tmp_path: Path, answer: tuple[int, str, str], tried: bool) -> None:
    dockerd = Dockerd(answer)
    assert validate(dockerd, "/usr/bin/dockerd", STAGED, REAL, str(tmp_path)) is tried
    assert dockerd.asked == [["/usr/bin/dockerd", "--validate", "--config-file", STAGED]]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            UNKNOWN_KEY,
            f"unable to configure the Docker daemon with file {REAL}: the following directives don't match any "
            "configuration option: bogus",
        ),
        ((1, "on stdout", ""), "on stdout"),
        ((3, "", ""), "exit status 3"),
    ],
)
def test_validate_refused(proc: Proc, tmp_path: Path, answer: tuple[int, str, str], said: str) -> None:
    with pytest.raises(DaemonConfigError) as refused:
        validate(Dockerd(answer), "/usr/bin/dockerd", STAGED, REAL, str(tmp_path))
    assert str(refused.value) == said


def test_validate_with_the_arguments_of_the_dockerd_that_reads_the_file(proc: Proc, tmp_path: Path) -> None:
    proc.add(5, "dockerd", "dockerd", "--config-file", "/other.json", "--icc=false")
    proc.add(6, "dockerd", "dockerd", "-H", "fd://", "--default-runtime=nvidia")
    dockerd = Dockerd(OK)
    validate(dockerd, "dockerd", STAGED, REAL, str(tmp_path))
    validate(dockerd, "dockerd", STAGED, "/other.json", str(tmp_path))
    validate(dockerd, "dockerd", STAGED, "/third.json", str(tmp_path))
    assert [argv[4:] for argv in dockerd.asked] == [["-H", "fd://", "--default-runtime=nvidia"], ["--icc=false"], []]
