# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.bundle import hub
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.hub import Hashes, Note

REPOSITORY = "Qwen/Qwen2.5-32B-Instruct"
COMMIT = "5ede1c97bbab6ce5cda5812749b4c0bdf79b18dd"
OTHER = "0" * 40
LARGE, SMALL = Hashes("a" * 64, "b" * 40), Hashes("c" * 64, "d" * 40)
NOTES = {"model.safetensors": Note(COMMIT, "a" * 64), "config.json": Note(COMMIT, "d" * 40)}
FILES = {"model.safetensors": LARGE, "config.json": SMALL}


@pytest.mark.parametrize("revision", [COMMIT, "v1.0", "release/2025-01"])
@pytest.mark.parametrize("repository", [REPOSITORY, "gpt2"])
def test_what_can_be_fetched(repository: str, revision: str) -> None:
    assert hub.refusal(repository, revision) is None


@pytest.mark.parametrize(
    ("repository", "revision", "said"),
    [
        (REPOSITORY, None, f"revision of {REPOSITORY} = not set: must be a full commit id, or a tag"),
        (REPOSITORY, "", f"revision of {REPOSITORY} = not set: "),
        (REPOSITORY, "main", f"revision of {REPOSITORY} = 'main': must be a full commit id, or a tag; a branch moves"),
        (REPOSITORY, "HEAD", f"revision of {REPOSITORY} = 'HEAD': "),
        (REPOSITORY, "--help", f"revision of {REPOSITORY} = '--help': "),
        (REPOSITORY, "a b", f"revision of {REPOSITORY} = 'a b': "),
        ("--token", COMMIT, "repository = '--token': must be a model's name on the hub"),
        ("a/b/c", COMMIT, "repository = 'a/b/c': "),
        ("../x", COMMIT, "repository = '../x': "),
        ("hf://a/b", COMMIT, "repository = 'hf://a/b': "),
        (None, COMMIT, "repository = None: "),
    ],
)
def test_what_cannot(repository: Any, revision: Any, said: str) -> None:
    assert (hub.refusal(repository, revision) or "").startswith(said)


def test_the_command_line() -> None:
    argv = ["hf", "download", REPOSITORY, f"--revision={COMMIT}", "--local-dir=/b/x.fetching"]
    assert hub.argv("hf", REPOSITORY, COMMIT, "/b/x.fetching") == argv


@pytest.mark.parametrize(
    ("record", "fetched"),
    [
        ({"repository": REPOSITORY, "revision": "v1", "commit": COMMIT}, True),
        ({"repository": REPOSITORY, "revision": "v2", "commit": COMMIT}, False),
        ({"repository": "a/b", "revision": "v1", "commit": COMMIT}, False),
        ({"repository": REPOSITORY, "revision": "v1", "commit": "5ede"}, False),
        ({"repository": REPOSITORY, "revision": "v1"}, False),
        ({}, False),
        (None, False),
        ([], False),
    ],
)
def test_what_was_fetched(record: Any, fetched: bool) -> None:
    assert hub.is_fetched(record, REPOSITORY, "v1") is fetched


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (f"{COMMIT}\n{'a' * 64}\n1700000000.5\n", Note(COMMIT, "a" * 64)),
        (f"{COMMIT}\n{'a' * 64}", Note(COMMIT, "a" * 64)),
        (f"{COMMIT}\n\n1\n", None),
        (f"{COMMIT}\n"[:20], None),
        ("main\nabc\n1\n", None),
        ("", None),
    ],
)
def test_notes(text: str, note: Note | None) -> None:
    assert hub.parse_note(text) == note


@pytest.mark.parametrize("revision", [COMMIT, "v1"])
def test_what_arrived_is_what_the_hub_said(revision: str) -> None:
    assert hub.problems(revision, NOTES, FILES) == []


@pytest.mark.parametrize(
    ("notes", "files", "said"),
    [
        ({"config.json": Note(COMMIT, "a" * 64)}, {}, ["config.json: has another content than the hub said"]),
        ({}, {"config.json": LARGE}, ["config.json: has another content than the hub said"]),
        ({}, {"config.json": None}, ["config.json: cannot be read"]),
        ({"config.json": None}, {}, ["config.json: cannot be read"]),
        ({"vocab.json": Note(COMMIT, "e" * 40)}, {}, ["vocab.json: is not there"]),
        ({}, {"x.py": SMALL}, ["x.py: the hub said nothing of it"]),
        ({"config.json": Note(OTHER, "d" * 40)}, {}, [f"files of several commits: {OTHER}, {COMMIT}"]),
    ],
)
def test_what_is_wrong(notes: dict[str, Any], files: dict[str, Any], said: list[str]) -> None:
    assert hub.problems(COMMIT, {**NOTES, **notes}, {**FILES, **files}) == said


def test_another_commit_and_nothing() -> None:
    assert hub.problems(OTHER, NOTES, FILES) == [f"the hub gave the commit {COMMIT}"]
    assert hub.problems("v1", {}, {}) == ["nothing was fetched"]


def test_many_problems_are_not_all_shown() -> None:
    assert hub.shown(["a", "b"]) == "a; b"
    assert hub.shown(list("abcdefg")) == "a; b; c; d; e and 2 more"
