# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder that a model is fetched into from a hub, and how it takes the place of the one before."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.bundle.hub import (
    NOTE,
    NOTES,
    RECORD,
    Hashes,
    Note,
    parse_note,
)
from ansible_collections.tandem.vllm.plugins.module_utils.host.model_files import read_json

BLOCK = 2**20
# What `hf` keeps beside the files it fetches.
CACHE = ".cache"


class HubFiles:
    """`place`: the model's folder; `part`: the folder beside it that files are fetched into."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.part = f"{place}.fetching"

    def record(self) -> Any:
        """What was kept of the last fetch; None where there was none, or where its files are gone."""
        there = os.path.isfile(os.path.join(self.place, "config.json"))
        return read_json(os.path.join(self.place, RECORD)) if there else None

    def notes(self) -> dict[str, Note | None]:
        """What the hub said of each file that was fetched, by the file's path."""
        root = os.path.join(self.part, NOTES)
        found: dict[str, Note | None] = {}
        for folder, _folders, names in os.walk(root):
            for name in names:
                if name.endswith(NOTE):
                    place = os.path.join(folder, name)
                    with open(place, encoding="utf-8") as stream:
                        found[os.path.relpath(place, root)[: -len(NOTE)]] = parse_note(stream.read())
        return found

    def hashes(self) -> dict[str, Hashes | None]:
        """The files that arrived, by path; None for one that is no plain file."""
        found: dict[str, Hashes | None] = {}
        for folder, folders, names in os.walk(self.part):
            if folder == self.part and CACHE in folders:
                folders.remove(CACHE)
            for name in names:
                place = os.path.join(folder, name)
                plain = os.path.isfile(place) and not os.path.islink(place)
                found[os.path.relpath(place, self.part)] = _hashes(place) if plain else None
        return found

    def put(self, record: dict[str, Any]) -> None:
        """Let what was fetched take the model's place, with a record of it."""
        shutil.rmtree(os.path.join(self.part, CACHE))
        with open(os.path.join(self.part, RECORD), "w", encoding="utf-8") as stream:
            stream.write(json.dumps(record, indent=2, sort_keys=True) + "\n")
        if os.path.isdir(self.place):
            shutil.rmtree(self.place)
        os.rename(self.part, self.place)


def _hashes(place: str) -> Hashes:
    size = os.path.getsize(place)
    sha256, git = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with open(place, "rb") as stream:
        for block in iter(lambda: stream.read(BLOCK), b""):
            sha256.update(block)
            git.update(block)
    return Hashes(sha256.hexdigest(), git.hexdigest())
