# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes the pieces of an image archive on a host, and feeds them to Docker.

The module image_load puts this very file beside the pieces, where it is run with the host's Python while no module is:
so it imports nothing but the standard library, of Python 3.9.

  receive <path> <size> <sha256>    take one piece from standard input
  load [--zstd <program>] [--sha256 <of the tar>] --docker <program> -- <file>...
  load (the same options) --follow <folder>    the pieces in a folder, while they arrive
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

CHUNK = 2**20
# Seconds without a byte after which nobody sends any more, and between two looks for the next piece.
BROKEN_OFF = 60
PAUSE = 0.2


class FeedError(Exception):
    """What the user is told."""


def chunks(stream: IO[bytes]) -> Iterator[bytes]:
    """A stream's bytes, in chunks of a MiB at most."""
    while True:
        data = stream.read(CHUNK)
        if not data:
            return
        yield data


def checksum(path: str) -> str:
    """SHA-256 of a file."""
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as stream:
        for data in chunks(stream):
            digest.update(data)
    return digest.hexdigest()


def receive(stream: IO[bytes], path: str, size: int, sha256: str) -> None:
    """Write `size` bytes of a stream to `path`, which appears only when they are the right ones. Raises FeedError.

    The stream is read to its end whatever happens, so that the sender gets to hear the reason.
    """
    # Another run may be sending the same piece.
    part = f"{path}.{os.getpid()}.part"
    digest, taken, problem = hashlib.sha256(), 0, None
    try:
        with open(part, "wb", buffering=0) as target:
            for data in chunks(stream):
                digest.update(data)
                taken += len(data)
                _write(target, data)
    except OSError as error:
        problem = f"{part} cannot be written: {error.strerror}"
    for _data in chunks(stream):
        pass
    if problem is None and (taken, digest.hexdigest()) != (size, sha256):
        problem = f"{path} did not arrive as it was sent: {taken} of {size} bytes, SHA-256 {digest.hexdigest()}"
    if problem is not None:
        if os.path.exists(part):
            os.unlink(part)
        raise FeedError(problem)
    try:
        os.replace(part, path)
    except OSError as error:  # another run had Docker load the image, and took the folder away
        raise FeedError(f"{path} cannot be written: {error.strerror}") from error


def _write(target: IO[bytes], data: bytes) -> None:
    """All of it: an unbuffered file may take a part only, when its file system is nearly full."""
    left = memoryview(data)
    while left:
        left = left[target.write(left) :]


def of_files(paths: Iterable[str]) -> Iterator[bytes]:
    """The bytes of files, one after the other. The one being read is open, by which others see how far it is."""
    for path in paths:
        with open(path, "rb", buffering=0) as stream:
            yield from chunks(stream)


def of_folder(folder: str) -> Iterator[bytes]:
    """The bytes of the pieces in a folder, which may still be arriving, until there are as many as the file count says.

    Raises FeedError when they arrive no more.
    """
    index = 0
    while True:
        path = os.path.join(folder, "%03d" % index)
        if os.path.exists(path):
            yield from of_files([path])
            index += 1
        elif _count(folder) == index:
            return
        elif _idle(folder) > BROKEN_OFF:
            raise FeedError("the transfer broke off")
        else:
            time.sleep(PAUSE)


def _count(folder: str) -> int | None:
    try:
        with open(os.path.join(folder, "count"), encoding="ascii") as stream:
            return int(stream.read())
    except FileNotFoundError:
        return None


def _idle(folder: str) -> float:
    """Seconds since something was written there."""
    latest = os.stat(folder).st_mtime
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # it got its name as a whole piece
            latest = max(latest, os.stat(os.path.join(folder, name)).st_mtime)
    return time.time() - latest


class Decompressed:
    """Bytes decompressed by the program zstd."""

    def __init__(self, program: str, source: Iterable[bytes]) -> None:
        command = [program, "-dcq"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - no shell
        self._problem: str | None = None
        self._thread = threading.Thread(target=self._fill, args=(source,), daemon=True)
        self._thread.start()

    def _fill(self, source: Iterable[bytes]) -> None:
        try:
            for data in source:
                self._input.write(data)
        except FeedError as error:
            self._problem = str(error)
        except BrokenPipeError:  # zstd gave up, and has said why
            pass
        except OSError as error:
            self._problem = f"the archive cannot be read: {error}"
        finally:
            with contextlib.suppress(OSError):
                self._input.close()

    @property
    def _input(self) -> Any:
        return self._process.stdin

    def __iter__(self) -> Iterator[bytes]:
        """Raises FeedError at the end of what is not whole."""
        stream: Any = self._process.stdout
        yield from chunks(stream)
        self._thread.join()
        status = self._process.wait()
        if self._problem:
            raise FeedError(self._problem)
        if status != 0:
            raise FeedError(f"the archive is damaged: zstd ended with exit status {status}")


def fed(source: Iterable[bytes], target: IO[bytes], sha256: str | None) -> None:
    """Write a tar to Docker. Its end is held back until the whole is known to be right: without it nothing is loaded.

    Raises FeedError, and BrokenPipeError when Docker listens no more. sha256: None is not compared.
    """
    digest = hashlib.sha256() if sha256 else None
    # Two: the last chunk may be a short one. In the last MiB of an archive are the files that list what it holds.
    kept: list[bytes] = []
    for data in source:
        if digest:
            digest.update(data)
        kept.append(data)
        if sum(map(len, kept[1:])) >= CHUNK:
            target.write(kept.pop(0))
    if digest and digest.hexdigest() != sha256:
        raise FeedError(f"the archive's SHA-256 is {digest.hexdigest()}, wanted is {sha256}")
    for data in kept:
        target.write(data)


def load(docker: str, source: Iterable[bytes], zstd: str | None, sha256: str | None) -> int:
    """Have Docker load an archive; its exit status. Raises FeedError."""
    if zstd:
        source = Decompressed(zstd, source)
    process = subprocess.Popen([docker, "load"], stdin=subprocess.PIPE)  # noqa: S603 - no shell
    target: Any = process.stdin
    try:
        fed(source, target, sha256)
        target.close()
    except BrokenPipeError:  # Docker has said why
        return process.wait() or 1
    except (FeedError, OSError) as error:
        # Before its input ends, which Docker would take for the end of the archive.
        process.send_signal(signal.SIGKILL)
        process.wait()
        raise FeedError(str(error)) from error
    return process.wait()


def main(argv: Sequence[str]) -> int:
    """Run one of the two commands; its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    receiving = commands.add_parser("receive")
    receiving.add_argument("path")
    receiving.add_argument("size", type=int)
    receiving.add_argument("sha256")
    loading = commands.add_parser("load")
    loading.add_argument("--docker", required=True)
    loading.add_argument("--zstd")
    loading.add_argument("--sha256")
    loading.add_argument("--follow")
    loading.add_argument("files", nargs="*")
    given = parser.parse_args(argv)
    try:
        if given.command == "receive":
            receive(sys.stdin.buffer, given.path, given.size, given.sha256)
            return 0
        source = of_folder(given.follow) if given.follow else of_files(given.files)
        return load(given.docker, source, given.zstd, given.sha256)
    except FeedError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
