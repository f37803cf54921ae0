# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the folder of an offline bundle: what is in it, and the SHA-256 of its files."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.bundle.compare import FileFacts

BLOCK = 2**20
# Longer than any manifest or list of checksums: a file of this size is something else.
TEXT_LIMIT = 256 * 2**20


class BundleFolder:
    """The folder at `path`. hashed_bytes: how much was read to take checksums."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.hashed_bytes = 0

    def look(self) -> dict[str, FileFacts] | None:
        """Everything in it by relative path, without checksums; None where there is no such folder.

        Folders are not told, unless they cannot be read or are links: what is behind a link does not travel with it.
        """
        if not os.path.isdir(self.path):
            return None
        found: dict[str, FileFacts] = {}

        def unreadable(error: OSError) -> None:
            found[self._name(str(error.filename))] = FileFacts(0, fault=f"cannot be read: {error.strerror}")

        for folder, folders, files in os.walk(self.path, onerror=unreadable):
            for name in files + [name for name in folders if os.path.islink(os.path.join(folder, name))]:
                place = os.path.join(folder, name)
                found[self._name(place)] = facts(place)
        return found

    def text(self, name: str) -> bytes:
        """The content of one of its small files. Raises OSError."""
        place = os.path.join(self.path, name)
        if os.path.getsize(place) > TEXT_LIMIT:
            raise OSError(errno.EFBIG, "it is too long to be what its name says")
        with open(place, "rb") as stream:
            return stream.read()

    def hashed(self, name: str) -> dict[str, Any]:
        """{sha256, mtime_ns} of one file, or {fault} when it cannot be read."""
        place = os.path.join(self.path, name)
        before = facts(place)
        if before.fault:
            return {"fault": before.fault}
        digest = hashlib.sha256()
        try:
            mtime_ns = self.mtime_ns(name)
            # Unbuffered: a buffer would only be copied once more.
            with open(place, "rb", buffering=0) as stream:
                for block in iter(lambda: stream.read(BLOCK), b""):
                    digest.update(block)
                    self.hashed_bytes += len(block)
        except OSError as error:
            return {"fault": f"cannot be read: {error.strerror}"}
        return {"sha256": digest.hexdigest(), "mtime_ns": mtime_ns}

    def mtime_ns(self, name: str) -> int | None:
        """When a file was last written to; None where that cannot be told."""
        try:
            return os.lstat(os.path.join(self.path, name)).st_mtime_ns
        except OSError:
            return None

    def _name(self, place: str) -> str:
        # A name that is no UTF-8 is in no manifest; so that it can be told at all, it is told with replacements.
        return os.path.relpath(place, self.path).encode(errors="surrogateescape").decode(errors="replace")


def facts(place: str) -> FileFacts:
    """Size and kind of what is there."""
    try:
        found = os.lstat(place)
    except OSError as error:
        return FileFacts(0, fault=f"cannot be read: {error.strerror}")
    if stat.S_ISLNK(found.st_mode):
        return FileFacts(0, fault="is a link and not a file")
    if not stat.S_ISREG(found.st_mode):
        return FileFacts(0, fault="is a device, socket or pipe and not a file")
    return FileFacts(found.st_size)
