# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads images: one that Docker has, or the small files of an archive without unpacking it. Changes nothing."""

from __future__ import annotations

import importlib
import posixpath
import tarfile
from collections.abc import Callable
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils import image_archive
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import Runner
from ansible_collections.tandem.vllm.plugins.module_utils.image_archive import Member

# Manifests and configurations have some KiB; a layer that is as small as that does no harm.
LARGEST_JSON = 4 * 2**20
CHUNK = 2**20
# The module that opens each; not every build of Python has the last two, and only the newest has one for zstd.
READERS = {"gzip": "gzip", "bzip2": "bz2", "xz": "lzma"}


def nothing(reason: str) -> dict[str, Any]:
    """The answer of this module where the image is not found."""
    return {
        "found": False,
        "source": None,
        "image_id": None,
        "cuda_requirement": None,
        "cuda_version": None,
        "requirement_disabled": False,
        "size_mib": None,
        "size_exact": False,
        "reason": reason,
    }


def from_docker(run: Runner, ref: str) -> dict[str, Any]:
    """What the image asks of its host, where Docker has it. run: answers 127 where there is no Docker."""
    status, out, err = run(["docker", "image", "inspect", "--format", "{{json .}}", ref])
    if status == 127:
        return nothing("docker is not installed")
    said = image_archive.of_inspect(out) if status == 0 else None
    if said is None:
        lines = (err.strip() or out.strip()).splitlines()
        return nothing(lines[-1] if lines else f"docker image inspect ended with exit status {status}")
    return {**nothing(""), "found": True, "source": "docker", **said, "reason": None}


def from_archive(path: str, ref: str) -> dict[str, Any]:
    """What the image asks of its host, by an archive that holds it."""
    try:
        members = read_members(path)
    except UnreadableArchiveError as error:
        return nothing(f"{path}: {error}")
    except OSError as error:
        return nothing(f"{path} cannot be read: {error.strerror or error}")
    archived = image_archive.images(members)
    image = image_archive.find(archived, ref)
    if image is None:
        return nothing(f"{path}: {image_archive.why_not(archived, ref)}")
    said = image_archive.of_archive(image, members)
    return {**nothing(""), "found": True, "source": "archive", **said, "reason": None}


class UnreadableArchiveError(Exception):
    """The file is no archive that can be read; the message says why."""


def read_members(path: str) -> dict[str, Member]:
    """The files of a tar archive by name, with the content of small JSON files only.

    An archive that is not compressed is read by jumps over the layers; another has to be read from end to end. Raises
    OSError and UnreadableArchiveError.
    """
    with open(path, "rb") as stream:
        compressed = image_archive.compression(stream.read(8))
        stream.seek(0)
        try:
            if compressed is None:
                return _members(tarfile.open(fileobj=stream, mode="r:"))
            with _decompressor(compressed)(stream) as plain:
                return _members(tarfile.open(fileobj=plain, mode="r|", bufsize=CHUNK))
        except UnreadableArchiveError:
            raise
        # tarfile and each decompressor have errors of their own for an end that comes too early and for bytes that make
        # no sense, and lzma's are not there in every Python. Whatever it is, the archive cannot be read.
        except Exception as error:
            raise UnreadableArchiveError(f"it is no tar archive, or a damaged one: {error}") from error


def _decompressor(compressed: str) -> Callable[[Any], Any]:
    """Opens a compressed file. Raises UnreadableArchiveError where this Python cannot."""
    try:
        opened: Callable[[Any], Any] = importlib.import_module(READERS[compressed]).open
    except (ImportError, KeyError) as error:
        raise UnreadableArchiveError(f"it is compressed with {compressed}, which cannot be read here") from error
    return opened


def _members(archive: tarfile.TarFile) -> dict[str, Member]:
    with archive:
        return dict(_member(archive, info) for info in archive if info.isfile() or info.issym() or info.islnk())


def _member(archive: tarfile.TarFile, info: tarfile.TarInfo) -> tuple[str, Member]:
    name = posixpath.normpath(info.name)
    if info.issym():
        return name, Member(0, b"", posixpath.normpath(posixpath.join(posixpath.dirname(name), info.linkname)))
    if info.islnk():
        return name, Member(0, b"", posixpath.normpath(info.linkname))
    stream = archive.extractfile(info)
    head = stream.read(8) if stream else b""
    if stream and head[:1] in (b"{", b"[") and info.size <= LARGEST_JSON:
        head += stream.read()
    return name, Member(info.size, head)
