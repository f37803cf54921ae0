# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import io
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.host import image_feed
from ansible_collections.tandem.vllm.plugins.module_utils.host.image_feed import CHUNK, FeedError, main, receive

# The same at each run: it is in the names of tests.
DATA = random.Random(7).randbytes(CHUNK) * 3 + b"end"  # noqa: S311
SHA256 = hashlib.sha256(DATA).hexdigest()


def test_receive(tmp_path: Path) -> None:
    receive(io.BytesIO(DATA), str(tmp_path / "000"), len(DATA), SHA256)
    assert (tmp_path / "000").read_bytes() == DATA
    assert os.listdir(tmp_path) == ["000"]


@pytest.mark.parametrize(
    "arrived", [DATA[:-1], DATA + b"x", b"", b"x" + DATA[1:]], ids=["short", "long", "none", "bit"]
)
def test_what_did_not_arrive_whole_does_not_count(tmp_path: Path, arrived: bytes) -> None:
    (tmp_path / "000").write_bytes(b"of before")
    stream = io.BytesIO(arrived)
    with pytest.raises(
        FeedError, match="000 did not arrive as it was sent: %d of %d bytes" % (len(arrived), len(DATA))
    ):
        receive(stream, str(tmp_path / "000"), len(DATA), SHA256)
    # Neither is what was there before taken for it: the sender sends it because it is another one.
    assert os.listdir(tmp_path) == ["000"]
    assert (tmp_path / "000").read_bytes() == b"of before"
    assert stream.read() == b""


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    stream = io.BytesIO(DATA)
    # Writing there fails as it does on a full disk.
    (tmp_path / f"000.{os.getpid()}.part").symlink_to("/dev/full")
    with pytest.raises(FeedError, match=r"000\.\d+\.part cannot be written: No space left on device"):
        receive(stream, str(tmp_path / "000"), len(DATA), SHA256)
    assert stream.read() == b""
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(FeedError, match="cannot be written: No such file or directory"):
        receive(io.BytesIO(DATA), str(tmp_path / "gone/000"), len(DATA), SHA256)


def test_another_run_took_the_folder_away(tmp_path: Path) -> None:
    class Stream(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            for path in tmp_path.glob("x/*"):
                path.unlink()
            return super().read(size)

    (tmp_path / "x").mkdir()
    with pytest.raises(FeedError, match="000 cannot be written: No such file or directory"):
        receive(Stream(DATA), str(tmp_path / "x/000"), len(DATA), SHA256)


class Process:
    """What subprocess.Popen makes: takes its input, and ends with `status`; a real pipe where `copies` it."""

    def __init__(self, argv: Sequence[str], status: int, copies: bool, deaf_after: int | None) -> None:
        self.argv, self.status, self.taken, self.killed = list(argv), status, b"", False
        self._deaf_after = deaf_after
        self.stdin: Any = self
        self.closed = False
        self.stdout = None
        if copies:
            reading, writing = os.pipe()
            self.stdin, self.stdout = os.fdopen(writing, "wb"), os.fdopen(reading, "rb")

    def write(self, data: bytes) -> None:
        if self._deaf_after is not None and len(self.taken) >= self._deaf_after:
            raise BrokenPipeError
        self.taken += data

    def close(self) -> None:
        self.closed = True

    def send_signal(self, number: int) -> None:
        assert (number, self.closed) == (9, False)
        self.killed = True

    def kill(self) -> None:
        self.killed = True

    def wait(self) -> int:
        return self.status


class Programs:
    """Docker and zstd, which here passes on what it gets."""

    def __init__(self, docker: int = 0, zstd: int = 0, deaf_after: int | None = None) -> None:
        self.statuses, self.deaf_after = {"docker": docker, "zstd": zstd}, deaf_after
        self.started: dict[str, Process] = {}

    def __call__(self, argv: Sequence[str], **_pipes: Any) -> Process:
        deaf_after = self.deaf_after if argv[0] == "docker" else None
        made = Process(argv, self.statuses[argv[0]], argv[0] == "zstd", deaf_after)
        self.started[argv[0]] = made
        return made


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """The data in three files."""
    ends = (0, 1000, CHUNK + 7, len(DATA))
    for number in range(3):
        (tmp_path / f"00{number}").write_bytes(DATA[ends[number] : ends[number + 1]])
    return [str(tmp_path / f"00{number}") for number in range(3)]


def run(monkeypatch: pytest.MonkeyPatch, programs: Programs, *argv: str) -> int:
    monkeypatch.setattr(subprocess, "Popen", programs)
    return main(["load", *argv])


@pytest.mark.parametrize("zstd", [False, True])
@pytest.mark.parametrize("sha256", [None, SHA256])
def test_load(monkeypatch: pytest.MonkeyPatch, files: list[str], sha256: str | None, zstd: bool) -> None:
    programs = Programs()
    options = [*(["--zstd", "zstd"] if zstd else []), *(["--sha256", sha256] if sha256 else [])]
    assert run(monkeypatch, programs, *options, "--docker", "docker", "--", *files) == 0
    docker = programs.started["docker"]
    assert (docker.argv, docker.taken, docker.closed, docker.killed) == (["docker", "load"], DATA, True, False)
    assert ("zstd" in programs.started) == zstd


def lost(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], programs: Programs, *argv: str) -> str:
    """What is said when Docker is ended before the end of the archive."""
    assert run(monkeypatch, programs, *argv) == 1
    docker = programs.started["docker"]
    assert (docker.killed, docker.closed) == (True, False)
    # Without the last MiB, in which the list of images is, Docker loads nothing.
    assert len(docker.taken) <= len(DATA) - CHUNK
    return capsys.readouterr().err


def test_another_checksum(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], files: list[str]
) -> None:
    said = lost(monkeypatch, capsys, Programs(), "--sha256", "ab" * 32, "--docker", "docker", "--", *files)
    assert said == f"the archive's SHA-256 is {SHA256}, wanted is {'ab' * 32}\n"


def test_a_damaged_archive(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], files: list[str]
) -> None:
    said = lost(monkeypatch, capsys, Programs(zstd=1), "--zstd", "zstd", "--docker", "docker", "--", *files)
    assert said == "the archive is damaged: zstd ended with exit status 1\n"


@pytest.mark.parametrize("options", [[], ["--zstd", "zstd"]])
def test_a_piece_that_is_gone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], files: list[str], options: list[str]
) -> None:
    os.unlink(files[2])
    said = lost(monkeypatch, capsys, Programs(), *options, "--docker", "docker", "--", *files)
    assert "No such file or directory" in said
    assert files[2] in said


@pytest.mark.parametrize("options", [[], ["--zstd", "zstd"]])
def test_docker_refuses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], files: list[str], options: list[str]
) -> None:
    # What Docker says goes to the unit's journal by itself.
    programs = Programs(docker=125, deaf_after=1000)
    assert run(monkeypatch, programs, *options, "--docker", "docker", "--", *files) == 125
    assert capsys.readouterr().err == ""


class Clock:
    """Time that passes only while somebody sleeps; `arrivals` happen meanwhile, one a sleep."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, arrivals: Sequence[Any]) -> None:
        self.now, self._arrivals = time.time(), iter(arrivals)
        monkeypatch.setattr(time, "time", lambda: self.now)
        monkeypatch.setattr(time, "sleep", self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        arrival = next(self._arrivals, None)
        if arrival:
            arrival()


@pytest.mark.parametrize("zstd", [[], ["--zstd", "zstd"]])
def test_pieces_are_followed_while_they_arrive(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: list[str], zstd: list[str]
) -> None:
    target = tmp_path / "x"
    target.mkdir()

    def moves(*numbers: int) -> None:
        for number in numbers:
            os.rename(files[number], target / f"00{number}")

    count = target / "count"
    Clock(monkeypatch, [lambda: moves(0), None, lambda: moves(1, 2), None, lambda: count.write_text("3\n") and None])
    programs = Programs()
    assert run(monkeypatch, programs, *zstd, "--docker", "docker", "--follow", str(target)) == 0
    assert (programs.started["docker"].taken, programs.started["docker"].closed) == (DATA, True)


@pytest.mark.parametrize("zstd", [[], ["--zstd", "zstd"]])
def test_pieces_that_arrive_no_more(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    files: list[str],
    zstd: list[str],
) -> None:
    clock = Clock(monkeypatch, [])
    began = clock.now
    programs = Programs()
    said = lost(monkeypatch, capsys, programs, *zstd, "--docker", "docker", "--follow", str(tmp_path))
    assert said == "the transfer broke off\n"
    assert 59 < clock.now - began < 62
    assert sorted(files) == sorted(str(path) for path in tmp_path.iterdir())


def test_a_slow_line_has_not_broken_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    part = tmp_path / "000.7.part"
    part.write_bytes(DATA)
    clock: Any = None

    def more() -> None:
        os.utime(part, (clock.now, clock.now))

    def whole() -> None:
        part.rename(tmp_path / "000")
        (tmp_path / "count").write_text("1")

    clock = Clock(monkeypatch, [more] * 1000 + [whole])
    programs = Programs()
    assert run(monkeypatch, programs, "--docker", "docker", "--follow", str(tmp_path)) == 0
    assert programs.started["docker"].taken == DATA


def test_docker_refuses_at_the_end(monkeypatch: pytest.MonkeyPatch, files: list[str]) -> None:
    assert run(monkeypatch, Programs(docker=1), "--docker", "docker", "--", *files) == 1


@pytest.mark.parametrize(("sha256", "status", "said"), [(SHA256, 0, ""), ("ab" * 32, 1, "did not arrive")])
def test_receive_from_standard_input(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    sha256: str,
    status: int,
    said: str,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(DATA)))
    assert main(["receive", str(tmp_path / "000"), str(len(DATA)), sha256]) == status
    assert said in capsys.readouterr().err
    assert (tmp_path / "000").exists() == (status == 0)


def test_it_needs_nothing_but_the_standard_library() -> None:
    # The file is run by itself on the host.
    source = Path(image_feed.__file__).read_text(encoding="utf-8")
    assert [line for line in source.splitlines() if "import" in line and "ansible" in line] == []
