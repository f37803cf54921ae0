# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder of wheels on disk. A file gets its name there only when it is whole and verified."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any

STATE = "wheelhouse.json"
REQUIREMENTS = "requirements.txt"
# What the file about the wheelhouse holds.
KEYS = {
    *("inputs", "requirements", "wheels", "in_target", "changes", "tool", "text", "index", "pip", "python", "created"),
    "proof",
}
CHUNK = 2**20


def sha256_of(path: str) -> str | None:
    """SHA-256 of a file; None when there is none, or only a link to nothing."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as stream:
            for chunk in iter(lambda: stream.read(CHUNK), b""):
                digest.update(chunk)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None
    return digest.hexdigest()


def write_stand_ins(folder: str, files: Mapping[str, Mapping[str, str]]) -> None:
    """Write wheels by what they hold: file name to {path in it: text}. The folder is made."""
    os.makedirs(folder)
    for name, members in files.items():
        with zipfile.ZipFile(os.path.join(folder, name), "w") as archive:
            for path, text in members.items():
                archive.writestr(path, text)


class WheelFolder:
    """A wheelhouse: wheels by their path in it and their SHA-256, requirements.txt, and a file about them."""

    def __init__(self, path: str) -> None:
        self.path = path
        head, tail = os.path.split(path.rstrip("/"))
        # Beside it, so that a file is renamed into it and not copied. What a run that was killed left there is
        # used by the next one if it verifies.
        self.partial = os.path.join(head, f".{tail}.part")

    def state(self) -> dict[str, Any]:
        """What the last run kept; empty when there is nothing that can be read."""
        try:
            found = json.loads(self.text(STATE))
        except ValueError:
            return {}
        return found if isinstance(found, dict) and set(found) == KEYS else {}

    def text(self, name: str) -> str:
        """Content of a text file of the folder; empty when there is none."""
        try:
            with open(os.path.join(self.path, name), encoding="utf-8") as stream:
                return stream.read()
        except (OSError, ValueError):
            return ""

    def missing(self, wanted: Mapping[str, str]) -> list[str]:
        """Which of these files (path to SHA-256) are not there or not as they should be."""
        return [name for name, sha256 in wanted.items() if sha256_of(os.path.join(self.path, name)) != sha256]

    def stale(self, wanted: Iterable[str]) -> list[str]:
        """Wheels that are there and not wanted, by their path; sorted."""
        keep = set(wanted)
        found = []
        for folder in ("", "pip"):
            try:
                names = os.listdir(os.path.join(self.path, folder))
            except (FileNotFoundError, NotADirectoryError):
                continue
            found += [os.path.join(folder, name) for name in names if name.endswith(".whl")]
        return sorted(name for name in found if name not in keep)

    def start_partial(self) -> str:
        """The folder to download to; what is no wheel there is removed."""
        os.makedirs(self.partial, exist_ok=True)
        for entry in os.scandir(self.partial):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            elif not entry.name.endswith(".whl"):
                os.unlink(entry.path)
        return self.partial

    def in_partial(self, wanted: Mapping[str, str]) -> dict[str, str]:
        """Which of these files (path to SHA-256) were downloaded and verify: path to where they are."""
        places = {name: os.path.join(self.partial, os.path.basename(name)) for name in wanted}
        return {name: place for name, place in places.items() if sha256_of(place) == wanted[name]}

    def take(self, places: Mapping[str, str]) -> None:
        """Move downloaded files (path in the folder to where they are) to their place."""
        for name, place in places.items():
            os.chmod(place, 0o644)
            with open(place, "rb") as stream:
                os.fsync(stream.fileno())
            os.makedirs(os.path.dirname(os.path.join(self.path, name)), mode=0o755, exist_ok=True)
            os.replace(place, os.path.join(self.path, name))

    def write(self, name: str, text: str) -> None:
        """Write a text file whole."""
        os.makedirs(self.path, mode=0o755, exist_ok=True)
        os.makedirs(self.partial, exist_ok=True)
        place = os.path.join(self.partial, name)
        with open(place, "w", encoding="utf-8") as stream:
            stream.write(text)
        self.take({name: place})

    def finish(self, stale: Iterable[str]) -> None:
        """Remove the wheels that are not wanted any more, and what the download left."""
        for name in stale:
            os.unlink(os.path.join(self.path, name))
        # It stays where the wheel of pip is in it.
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(self.path, "pip"))
        shutil.rmtree(self.partial, ignore_errors=True)

    def files(self, names: Mapping[str, str]) -> list[dict[str, Any]]:
        """{path, kind, size, sha256} of these files (path to kind), as the bundle's manifest lists files."""
        found = []
        for name, kind in names.items():
            place = os.path.join(self.path, name)
            found.append({"path": name, "kind": kind, "size": os.path.getsize(place), "sha256": sha256_of(place)})
        return found
