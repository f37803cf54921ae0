# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads an archive on the control node piece by piece, with checksums, decompressed on the way where that is wanted."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any


class SourceError(Exception):
    """The archive cannot be read to its end."""


@dataclass(frozen=True)
class Piece:
    """A part of an archive. index: from 0 on."""

    index: int
    data: bytes = field(repr=False)
    sha256: str


@contextmanager
def opened(archive: str, zstd: str | None) -> Iterator[IO[bytes]]:
    """An archive's bytes; zstd: the program that decompresses them. Raises SourceError at the end of a damaged one."""
    if zstd is None:
        with open(archive, "rb", buffering=0) as stream:
            yield stream
        return
    command = [zstd, "-dcq", "--", archive]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # noqa: S603 - no shell
    output: Any = process.stdout
    try:
        yield output
        _out, said = process.communicate()
        if process.returncode != 0:
            raise SourceError(f"it cannot be decompressed: {said.decode(errors='replace').strip()}")
    finally:
        # Where the reader gave up before.
        process.kill()
        process.communicate()


def read(archive: str, zstd: str | None, size: int) -> Iterator[Piece]:
    """The pieces of an archive, `size` bytes each but the last. Raises SourceError and OSError.

    The next one is read and its checksum taken while the caller is busy with this one.
    """
    with opened(archive, zstd) as stream, ThreadPoolExecutor(max_workers=1) as ahead:
        index = 0
        coming = ahead.submit(_piece, stream, index, size)
        while True:
            piece = coming.result()
            if not piece.data:
                return
            index += 1
            coming = ahead.submit(_piece, stream, index, size)
            yield piece
            del piece


def _piece(stream: IO[bytes], index: int, size: int) -> Piece:
    data = stream.read(size)
    # Some file systems hand over less than they are asked for.
    while data and len(data) < size:
        more = stream.read(size - len(data))
        if not more:
            break
        data += more
    return Piece(index, data, hashlib.sha256(data).hexdigest())
