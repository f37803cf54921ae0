# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the files of a model directory, and puts one in place that was sent."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.bundle.model_manifest import POINTER, Found, is_ignored

BLOCK = 2**20
# Larger files than this are no configuration and no index.
JSON_LIMIT = 64 * 2**20
# A pointer of git-lfs is smaller.
POINTER_LIMIT = 1024


class ModelFiles:
    """One model directory."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.hashed_bytes = 0

    def look(self, named: Iterable[str] = ()) -> dict[str, Found] | None:
        """The files by their paths below the directory, without hashes; None where there is no such directory.

        Files that are no part of a model are left out unless `named`.
        """
        if not os.path.isdir(self.path):
            return None
        wanted = set(named)
        return {name: self.facts(name) for name in sorted(self._names()) if name in wanted or not is_ignored(name)}

    def _names(self) -> Iterator[str]:
        for folder, folders, files in os.walk(self.path):
            # A link to a folder below is one more name for what is listed anyway.
            links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
            for name in files + [name for name in links if self._leads_out(os.path.join(folder, name))]:
                place = os.path.join(folder, name)
                if os.path.islink(place) or os.path.isfile(place):
                    yield os.path.relpath(place, self.path)

    def _leads_out(self, place: str) -> bool:
        """Whether a link leads out of the directory or to nothing."""
        root, target = os.path.realpath(self.path), os.path.realpath(place)
        return not os.path.exists(target) or os.path.commonpath([root, target]) != root

    def facts(self, name: str) -> Found:
        """Size, time of the last change and, where it is a link that leads nowhere useful, the link of one file."""
        place = os.path.join(self.path, name)
        if os.path.islink(place) and self._leads_out(place):
            return Found(0, link=os.readlink(place))
        try:
            found = os.stat(place)
            pointer = False
            if found.st_size < POINTER_LIMIT:
                with open(place, "rb") as stream:
                    pointer = stream.read(len(POINTER)) == POINTER
        except OSError as error:
            return Found(0, error=error.strerror)
        return Found(found.st_size, mtime_ns=found.st_mtime_ns, pointer=pointer)

    def hashed(self, name: str) -> Found:
        """One file with its SHA-256, or why it could not be read."""
        before = self.facts(name)
        if before.link is not None or before.error is not None:
            return before
        digest = hashlib.sha256()
        try:
            with open(os.path.join(self.path, name), "rb") as stream:
                for block in iter(lambda: stream.read(BLOCK), b""):
                    digest.update(block)
                    self.hashed_bytes += len(block)
        except OSError as error:
            return replace(before, error=error.strerror)
        after = self.facts(name)
        if (after.size, after.mtime_ns) != (before.size, before.mtime_ns):
            return replace(after, error="it was written to while it was read")
        return replace(before, sha256=digest.hexdigest())

    def parsed(self, name: str) -> Any:
        """A JSON file of the directory; None where there is none that can be read."""
        return read_json(os.path.join(self.path, name))

    def holds(self, name: str) -> bool:
        """Whether there is such a file."""
        return os.path.isfile(os.path.join(self.path, name))

    def bytes_of(self, name: str) -> int:
        """Size of a file, 0 where it is not there."""
        try:
            return os.path.getsize(os.path.join(self.path, name))
        except OSError:
            return 0

    def rename(self, source: str, name: str) -> None:
        """Give a file its name, when its content is on the disk."""
        place = os.path.join(self.path, source)
        descriptor = os.open(place, os.O_RDONLY)
        try:
            # Else a power failure could leave a file that has its name and its size, and not its content.
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(place, os.path.join(self.path, name))

    def remove(self, name: str) -> None:
        """Take a file away."""
        os.unlink(os.path.join(self.path, name))

    def disk(self) -> dict[str, Any]:
        """{device, free_mib} of the file system that the directory is on, or would be made on; null where not known."""
        nearest = self.path
        while not os.path.exists(nearest) and nearest != os.path.dirname(nearest):
            nearest = os.path.dirname(nearest)
        try:
            space = os.statvfs(nearest)
            return {"device": os.stat(nearest).st_dev, "free_mib": space.f_bavail * space.f_frsize // BLOCK}
        except OSError:
            return {"device": None, "free_mib": None}


def read_json(path: str) -> Any:
    """A parsed JSON file; None where there is none that can be read."""
    try:
        if os.path.getsize(path) > JSON_LIMIT:
            return None
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except (OSError, ValueError, RecursionError):
        return None
