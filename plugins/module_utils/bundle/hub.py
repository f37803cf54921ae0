# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A model that the `hf` command fetches from a hub: the command line, what it notes of each file, and what is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Where `hf download --local-dir` notes what it fetched, one file a file of the model: commit, ETag, time.
NOTES = ".cache/huggingface/download"
NOTE = ".metadata"
# What the bundle keeps of a fetch, in the model's folder; hidden, so no part of the model.
RECORD = ".hub.json"
INSTALL = "pip install huggingface_hub"

REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)
COMMIT = re.compile(r"[0-9a-f]{40}")
REVISION = re.compile(r"[A-Za-z0-9][\w./+-]*", re.ASCII)
# Names of branches that every repository may have: what they lead to changes.
BRANCHES = ("main", "master", "HEAD")
SHOWN = 5


@dataclass(frozen=True)
class Note:
    """What the hub said of a file. etag: the SHA-256 of a file that git-lfs keeps, else the hash that git gives it."""

    commit: str
    etag: str


@dataclass(frozen=True)
class Hashes:
    """A file as it arrived. git: SHA-1 of "blob <size>", a zero byte and the content."""

    sha256: str
    git: str


def refusal(repository: Any, revision: Any) -> str | None:
    """Why these cannot be fetched, naming what was given; None when they can."""
    if not isinstance(repository, str) or not REPOSITORY.fullmatch(repository) or ".." in repository:
        return f"repository = {repository!r}: must be a model's name on the hub. Write it as Qwen/Qwen2.5-32B-Instruct"
    wanted = "must be a full commit id, or a tag"
    remedy = f"Set tandem_services[].model.revision to the commit id that the hub's page of {repository} shows"
    if not revision:
        return f"revision of {repository} = not set: {wanted}: what is fetched must not change. {remedy}"
    if not isinstance(revision, str) or not REVISION.fullmatch(revision) or revision in BRANCHES:
        return f"revision of {repository} = {revision!r}: {wanted}; a branch moves. {remedy}"
    return None


def argv(command: str, repository: str, revision: str, folder: str) -> list[str]:
    """The command line that fetches a model's files, and goes on where an earlier one broke off."""
    return [command, "download", repository, f"--revision={revision}", f"--local-dir={folder}"]


def is_fetched(record: Any, repository: str, revision: str) -> bool:
    """Whether a record says that this very revision was fetched."""
    if not isinstance(record, Mapping):
        return False
    asked = (record.get("repository"), record.get("revision"))
    return asked == (repository, revision) and COMMIT.fullmatch(str(record.get("commit"))) is not None


def parse_note(text: str) -> Note | None:
    """What `hf` noted of a file; None where it is no such note."""
    lines = text.split("\n")
    if len(lines) < 2 or not COMMIT.fullmatch(lines[0]) or not lines[1]:
        return None
    return Note(lines[0], lines[1])


def problems(revision: str, notes: Mapping[str, Note | None], files: Mapping[str, Hashes | None]) -> list[str]:
    """What is wrong with what was fetched, in words.

    notes: by path what the hub said of each file; files: by path what is there. None: it could not be read.
    """
    said = [] if notes else ["nothing was fetched"]
    commits = sorted({note.commit for note in notes.values() if note})
    if len(commits) > 1:
        said.append("files of several commits: " + ", ".join(commits))
    elif COMMIT.fullmatch(revision) and commits and commits != [revision]:
        said.append(f"the hub gave the commit {commits[0]}")
    for path in sorted({*notes, *files}):
        note, there = notes.get(path), files.get(path)
        if path not in notes:
            said.append(f"{path}: the hub said nothing of it")
        elif path not in files:
            said.append(f"{path}: is not there")
        elif note is None or there is None:
            said.append(f"{path}: cannot be read")
        elif note.etag not in (there.sha256, there.git):
            said.append(f"{path}: has another content than the hub said")
    return said


def shown(said: Sequence[str]) -> str:
    """The first of some problems in one line."""
    more = f" and {len(said) - SHOWN} more" if len(said) > SHOWN else ""
    return "; ".join(said[:SHOWN]) + more
