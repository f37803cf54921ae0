# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import io
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.plugin_utils import pieces
from ansible_collections.tandem.vllm.plugins.plugin_utils.pieces import SourceError


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"", []),
        (b"abc", [b"abc"]),
        (b"abcd", [b"abcd"]),
        (b"abcdefghi", [b"abcd", b"efgh", b"i"]),
    ],
)
def test_read(tmp_path: Path, content: bytes, parts: list[bytes]) -> None:
    archive = tmp_path / "a.tar"
    archive.write_bytes(content)
    found = list(pieces.read(str(archive), None, 4))
    assert [(p.index, p.data) for p in found] == list(enumerate(parts))
    assert [p.sha256 for p in found] == [hashlib.sha256(part).hexdigest() for part in parts]


def test_an_archive_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        next(pieces.read(str(tmp_path / "a.tar"), None, 4))


class Zstd:
    """A process that writes `out`, says `err` and ends with `status`."""

    def __init__(self, out: bytes, err: bytes, status: int) -> None:
        self.stdout, self._err, self._status = io.BytesIO(out), err, status
        self.returncode: int | None = None
        self.killed = False

    def communicate(self) -> tuple[bytes, bytes]:
        if self.returncode is None:
            self.returncode = self._status
        return b"", self._err

    def kill(self) -> None:
        if self.returncode is None:
            self.returncode, self.killed = -9, True


def zstd(monkeypatch: pytest.MonkeyPatch, process: Zstd) -> list[Sequence[str]]:
    argvs: list[Sequence[str]] = []

    def popen(argv: Sequence[str], **_pipes: Any) -> Zstd:
        argvs.append(argv)
        return process

    monkeypatch.setattr(subprocess, "Popen", popen)
    return argvs


def test_read_decompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    argvs = zstd(monkeypatch, Zstd(b"abcdefghi", b"", 0))
    assert [p.data for p in pieces.read("/a.tar.zst", "/usr/bin/zstd", 4)] == [b"abcd", b"efgh", b"i"]
    assert argvs == [["/usr/bin/zstd", "-dcq", "--", "/a.tar.zst"]]


def test_a_damaged_archive_is_told_of_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    zstd(monkeypatch, Zstd(b"abcdef", b"/a.tar.zst : Read error (39) : premature end\n", 1))
    source = pieces.read("/a.tar.zst", "zstd", 4)
    assert next(source).data == b"abcd"
    with pytest.raises(
        SourceError, match=r"^it cannot be decompressed: /a.tar.zst : Read error \(39\) : premature end$"
    ):
        list(source)


def test_zstd_is_ended_when_the_reader_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Zstd(b"abcdef", b"", 0)
    zstd(monkeypatch, process)
    source: Any = pieces.read("/a.tar.zst", "zstd", 4)
    next(source)
    source.close()
    assert process.killed


def test_a_file_system_that_hands_over_less_than_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 0, 3))

    @contextmanager
    def opened(_archive: str, _zstd: str | None) -> Iterator[Slow]:
        yield Slow(b"abcdefghi")

    monkeypatch.setattr(pieces, "opened", opened)
    assert [p.data for p in pieces.read("/a.tar", None, 4)] == [b"abcd", b"efgh", b"i"]
