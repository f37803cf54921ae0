# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils import image_transfer
from ansible_collections.tandem.vllm.plugins.module_utils.host import image_feed, image_store
from ansible_collections.tandem.vllm.plugins.module_utils.host.image_store import ImageStore, StoreError, position

REF = "vllm:1"
UNIT = image_transfer.unit(REF)
ENDED = "MainPID=0\nResult=success\nActiveState=active\nSubState=exited\nInvocationID=ab\n"
RUNNING = "MainPID=77\nResult=success\nActiveState=active\nSubState=running\nInvocationID=ab\n"
FAILED = "MainPID=0\nResult=exit-code\nActiveState=failed\nSubState=failed\nInvocationID=ab\n"
ABSENT = "MainPID=0\nResult=success\nActiveState=inactive\nSubState=dead\nInvocationID=\n"
FORGET = [["systemctl", "stop", UNIT], ["systemctl", "reset-failed", UNIT]]


class Commands:
    """Answers commands by their first two words; keeps what was run, but for the looks at the unit."""

    def __init__(self, unit: str = ABSENT) -> None:
        self.answers: dict[str, tuple[int, str, str]] = {"systemctl show": (0, unit, "")}
        self.run: list[list[str]] = []

    def __call__(self, argv: Sequence[str]) -> tuple[int, str, str]:
        if argv[:3] != ["systemctl", "show", UNIT]:
            self.run.append(list(argv))
        return self.answers.get(" ".join(argv[:2]), (0, "", ""))


def store(commands: Commands, folder: Path) -> ImageStore:
    return ImageStore(commands, REF, str(folder))


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_store, "PATIENCE", 0.0)
    monkeypatch.setattr(image_store, "PAUSE", 0.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as an interrupted transfer leaves it."""
    made = tmp_path / "tandem-image-x"
    made.mkdir(mode=0o700)
    for name, data in {"000": b"abc", "001": b"de", "002.7.part": b"f"}.items():
        (made / name).write_bytes(data)
        os.utime(made / name, (0, time.time() - 400))
    return made


def prepare(commands: Commands, folder: Path, shared: str | None = None, write: bool = True) -> dict[str, Any]:
    return store(commands, folder).prepare(shared, "/usr/bin/zstd", "/usr/bin/python3", write)


HELD = {
    "000": {"size": 3, "sha256": hashlib.sha256(b"abc").hexdigest()},
    "001": {"size": 2, "sha256": hashlib.sha256(b"de").hexdigest()},
}


@pytest.mark.parametrize("write", [False, True])
def test_prepare_after_an_interrupted_transfer(folder: Path, write: bool) -> None:
    found = prepare(Commands(), folder, write=write)
    assert (found["loading"], found["held"], found["archive"]) == (False, HELD, None)
    assert (found["folder"], found["zstd"], found["python"]) == (str(folder), "/usr/bin/zstd", "/usr/bin/python3")
    left = {"image_feed.py"} if write else {"002.7.part"}
    assert set(os.listdir(folder)) == {"000", "001"} | left


def test_what_another_run_is_sending_is_left_alone(folder: Path) -> None:
    os.utime(folder / "002.7.part")
    prepare(Commands(), folder)
    assert (folder / "002.7.part").exists()


@pytest.mark.parametrize("write", [False, True])
def test_prepare_the_first_time(tmp_path: Path, write: bool) -> None:
    folder = tmp_path / "tandem-image-x"
    found = prepare(Commands(), folder, write=write)
    assert (found["held"], found["disks"]["folder"]["path"]) == ({}, str(tmp_path))
    assert found["disks"]["folder"]["free_mib"] > 0
    assert folder.exists() == write
    if write:
        assert folder.stat().st_mode & 0o777 == 0o700
        # What is run on the host is the file that is tested here.
        with open(image_feed.__file__, encoding="utf-8") as stream:
            assert (folder / "image_feed.py").read_text() == stream.read()


@pytest.mark.parametrize(
    ("answer", "root"),
    [((0, "/data/docker\n", ""), "/data/docker"), ((1, "", "Cannot connect"), "/var/lib/docker")],
)
def test_dockers_folder(tmp_path: Path, answer: tuple[int, str, str], root: str) -> None:
    commands = Commands()
    commands.answers["docker info"] = answer
    assert prepare(commands, tmp_path / "x")["disks"]["root"]["path"] == root
    assert commands.run == [["docker", "info", "--format", "{{.DockerRootDir}}"]]


@pytest.mark.parametrize("shared", [None, "/a.tar"])
def test_a_load_that_is_going_on(folder: Path, shared: str | None) -> None:
    if shared is None:
        (folder / "count").write_text("2\n")
    commands = Commands(RUNNING)
    assert prepare(commands, folder, shared) == {"loading": True}
    assert (commands.run, (folder / "002.7.part").exists()) == ([], True)


def test_a_load_that_waits_for_pieces_gets_them(folder: Path) -> None:
    found = prepare(Commands(RUNNING), folder)
    assert (found["loading"], found["held"]) == (False, HELD)


@pytest.mark.parametrize("write", [False, True])
def test_a_count_of_before_counts_no_more(folder: Path, write: bool) -> None:
    (folder / "count").write_text("2\n")
    assert prepare(Commands(), folder, write=write)["loading"] is False
    assert (folder / "count").exists() != write


def test_a_shared_archive(folder: Path, tmp_path: Path) -> None:
    archive = tmp_path / "vllm.tar"
    archive.write_bytes(b"x" * 30)
    found = prepare(Commands(), folder, str(archive))
    assert (found["archive"], found["held"]) == ({"size": 30, "compression": None, "tar_size": 30}, {})
    assert (folder / "image_feed.py").exists()


def test_a_shared_archive_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"the shared archive /no/such\.tar cannot be read on the host: No such file"):
        prepare(Commands(), tmp_path / "x", "/no/such.tar")


@pytest.mark.parametrize("kind", ["link", "file", "writable", "other's"])
def test_a_folder_that_is_not_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "x"
    if kind == "link":
        (tmp_path / "y").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "y")
    elif kind == "file":
        folder.write_text("")
    else:
        folder.mkdir()
        folder.chmod(0o777 if kind == "writable" else 0o700)
    if kind == "other's":
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(StoreError, match="was not made by Tandem"):
        prepare(Commands(), folder)
    assert not (tmp_path / "y/image_feed.py").exists()


def test_start(folder: Path) -> None:
    commands = Commands()
    store(commands, folder).start(None, 2, "/usr/bin/python3", "/usr/bin/docker", "/usr/bin/zstd", "ab")
    files = [str(folder / "000"), str(folder / "001")]
    loading = image_transfer.load_command(
        "/usr/bin/python3", str(folder), "/usr/bin/docker", files, "/usr/bin/zstd", "ab"
    )
    assert commands.run == [*FORGET, image_transfer.start_command(UNIT, loading)]


def test_start_before_there_are_pieces(folder: Path) -> None:
    commands = Commands()
    store(commands, folder).start(None, 0, "python3", "docker", None, None)
    assert commands.run[-1][-2:] == ["--follow", str(folder)]


def test_start_anew(folder: Path) -> None:
    commands = Commands(RUNNING)
    store(commands, folder).start(None, 2, "python3", "docker", None, None, anew=True)
    assert commands.run[:2] == FORGET
    assert commands.run[2][-1] == str(folder / "001")


def test_start_with_a_shared_archive(folder: Path, tmp_path: Path) -> None:
    commands = Commands()
    # As the kernel names it for who has it open.
    (tmp_path / "link.tar").symlink_to(tmp_path / "vllm.tar")
    store(commands, folder).start(str(tmp_path / "link.tar"), 0, "python3", "docker", None, None)
    assert commands.run[-1][-2:] == ["--", str(tmp_path / "vllm.tar")]


def test_a_load_of_another_run_goes_on(folder: Path) -> None:
    commands = Commands(RUNNING)
    store(commands, folder).start(None, 2, "python3", "docker", None, None)
    assert commands.run == []


def test_a_start_that_fails(folder: Path) -> None:
    commands = Commands()
    commands.answers["systemd-run --quiet"] = (1, "", "Failed to connect to bus\n")
    with pytest.raises(StoreError, match="the load cannot be started: Failed to connect to bus"):
        store(commands, folder).start(None, 2, "python3", "docker", None, None)


@pytest.mark.parametrize(("found", "percent"), [((0, 0), 0), ((1, 1), 80), (None, 100)])
def test_poll_while_it_runs(
    monkeypatch: pytest.MonkeyPatch, folder: Path, found: tuple[int, int] | None, percent: int
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(image_store, "position", lambda *given: asked.append(given) or found)
    commands = Commands(RUNNING)
    assert store(commands, folder).poll(None) == {"running": True, "percent": percent}
    assert (asked, commands.run) == ([("77", [str(folder / "000"), str(folder / "001")])], [])


def test_poll_while_a_shared_archive_is_read(monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path) -> None:
    archive = tmp_path / "vllm.tar"
    archive.write_bytes(b"x" * 30)
    monkeypatch.setattr(image_store, "position", lambda _pid, files: (files.index(str(archive)), 15))
    assert store(Commands(RUNNING), folder).poll(str(archive)) == {"running": True, "percent": 50}


def test_poll_waits_a_little_for_the_end(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(image_store, "PATIENCE", 60.0)
    looks = iter([RUNNING, RUNNING, ENDED])

    def run(argv: Sequence[str]) -> tuple[int, str, str]:
        return (0, next(looks), "") if argv[1] == "show" else (0, "", "")

    assert ImageStore(run, REF, str(folder)).poll(None) == {"running": False, "percent": 100}
    assert next(looks, None) is None


@pytest.mark.parametrize("unit", [ENDED, ABSENT])
def test_poll_when_it_has_ended(folder: Path, unit: str) -> None:
    commands = Commands(unit)
    assert store(commands, folder).poll(None) == {"running": False, "percent": 100}
    assert commands.run == FORGET


@pytest.mark.parametrize(
    ("log", "error"), [("unexpected EOF\n", "unexpected EOF"), ("", "exit-code")], ids=["log", "nothing"]
)
def test_poll_when_it_failed(folder: Path, log: str, error: str) -> None:
    commands = Commands(FAILED)
    commands.answers["journalctl _SYSTEMD_INVOCATION_ID=ab"] = (0, log, "")
    assert store(commands, folder).poll(None) == {"running": False, "percent": 0, "error": error}
    journal = ["journalctl", "_SYSTEMD_INVOCATION_ID=ab", "_TRANSPORT=stdout", "--lines", "3", "--output", "cat"]
    assert commands.run == [journal, *FORGET]


@pytest.mark.parametrize(("unit", "there"), [(ENDED, False), (ABSENT, False), (RUNNING, True)])
def test_clear(folder: Path, unit: str, there: bool) -> None:
    commands = Commands(unit)
    store(commands, folder).clear()
    assert (folder.exists(), commands.run) == (there, [] if there else FORGET)


def test_nothing_to_clear(tmp_path: Path) -> None:
    commands = Commands()
    store(commands, tmp_path / "x").clear()
    assert commands.run == []


def test_position_of_an_open_file(tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("000", "001")]
    (tmp_path / "001").write_bytes(b"x" * 1000)
    assert position("self", files) is None
    with open(files[1], "rb", buffering=0) as stream:
        stream.read(300)
        assert position("self", files) == (1, 300)
    assert position("no-such-process", files) is None
