# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a wheelhouse's folder: sizes, digests, and what the libraries in its wheels ask for. Changes nothing."""

from __future__ import annotations

import zipfile
import zlib

from ansible_collections.tandem.vllm.plugins.module_utils.bundle.compare import FileFacts
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.node_wheels import ELF, newest_glibc
from ansible_collections.tandem.vllm.plugins.module_utils.host.bundle_folder import BundleFolder

CHUNK = 2**20
# The longest string that may lie across two chunks, with room to spare.
OVERLAP = 64


def folder_facts(folder: str) -> dict[str, FileFacts]:
    """Everything in a folder by its path relative to it, with sizes and SHA-256; nothing where there is none."""
    place = BundleFolder(folder)
    found = {}
    for name, facts in (place.look() or {}).items():
        hashed = {} if facts.fault else place.hashed(name)
        found[name] = FileFacts(facts.size, hashed.get("sha256"), facts.fault or hashed.get("fault"))
    return found


def newest_glibc_by_member(path: str) -> dict[str, tuple[int, int] | None]:
    """The newest glibc, (major, minor), that each ELF file in a wheel asks for. Raises OSError and BadWheelError."""
    try:
        with zipfile.ZipFile(path) as wheel:
            members = {info.filename: _newest(wheel, info) for info in wheel.infolist() if not info.is_dir()}
    # RuntimeError, NotImplementedError: an encrypted member, a method of compression that Python does not know.
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise BadWheelError(f"is no wheel that can be read: {error}") from error
    return {name: asked for name, (is_elf, asked) in members.items() if is_elf}


class BadWheelError(Exception):
    """A file that is no zip archive, or a damaged one."""


def _newest(wheel: zipfile.ZipFile, info: zipfile.ZipInfo) -> tuple[bool, tuple[int, int] | None]:
    """Whether a member is an ELF file, and the newest glibc that it asks for."""
    with wheel.open(info) as stream:
        tail = stream.read(len(ELF))
        if tail != ELF:
            return False, None
        newest: tuple[int, int] | None = None
        for chunk in iter(lambda: stream.read(CHUNK), b""):
            data = tail + chunk
            newest = max(filter(None, (newest, newest_glibc(data))), default=None)
            tail = data[-OVERLAP:]
    return True, newest
