# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.vllm.plugins.modules.model_manifest_info import main

SHARD = "model-00002-of-00002.safetensors"
FILES = {
    "config.json": b'{"model_type": "gpt_oss"}',
    "tokenizer.json": b"{}",
    "model-00001-of-00002.safetensors": b"first" * 1000,
    SHARD: b"second" * 1000,
    "model.safetensors.index.json": json.dumps(
        {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": SHARD}}
    ).encode(),
}


class Fake:
    """A model directory, its record and the module's answers."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path = folder / "models/x"
        self.record = folder / "record.json"
        self.capsys = capsys
        self.path.mkdir(parents=True)
        for name, content in FILES.items():
            (self.path / name).write_bytes(content)

    def call(self, **arguments: Any) -> dict[str, Any]:
        args = {"path": str(self.path), "record": str(self.record), **arguments}
        with patch_module_args(args), pytest.raises(SystemExit):
            main()
        result: dict[str, Any] = json.loads(self.capsys.readouterr().out)
        assert result.get("failed") or result["changed"] is False
        return result

    def keep(self, result: dict[str, Any]) -> None:
        self.record.write_text(json.dumps(result["record"]))

    def alter(self, name: str, content: bytes) -> None:
        """Other content of the same size and time, as a bad disk makes it."""
        place = self.path / name
        before = place.stat()
        place.write_bytes(content)
        os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture
def fake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Fake:
    return Fake(tmp_path, capsys)


def kinds(result: dict[str, Any]) -> list[tuple[str, str]]:
    return [(problem["path"], problem["kind"]) for problem in result["problems"]]


def test_first_sight(fake: Fake) -> None:
    result = fake.call(revision="r1")
    assert (result["problems"], result["verified"], result["to_hash"]) == ([], "full", [])
    assert [file["path"] for file in result["manifest"]["files"]] == sorted(FILES)
    assert (result["manifest"]["revision"], result["manifest"]["path"]) == ("r1", str(fake.path))
    assert result["digest"].startswith("sha256:")
    assert sorted(result["hashes"]) == sorted(result["record"]["files"]) == sorted(FILES)
    assert result["hashed_mib"] == round(sum(map(len, FILES.values())) / 2**20, 1)
    assert [needs["variable"] for needs in result["needs"]] == ["TIKTOKEN_ENCODINGS_BASE"]
    # Nothing was written.
    assert not fake.record.exists()


def test_second_sight_is_quick(fake: Fake) -> None:
    first = fake.call()
    fake.keep(first)
    second = fake.call(manifest=first["manifest"])
    assert (second["problems"], second["verified"], second["hashes"]) == ([], "quick", {})
    assert (second["manifest"], second["record"]) == (first["manifest"], first["record"])
    assert (first["recorded"], second["recorded"]) == (False, True)
    # The record tells enough without reading a file.
    assert fake.call(manifest=first["manifest"], hash=False)["verified"] == "quick"


def test_a_file_that_was_written_is_hashed_again(fake: Fake) -> None:
    first = fake.call()
    fake.keep(first)
    (fake.path / SHARD).write_bytes(b"SECOND" * 1000)
    os.utime(fake.path / SHARD, ns=(1, 1))
    second = fake.call(manifest=first["manifest"])
    assert (kinds(second), list(second["hashes"])) == ([(SHARD, "sha256")], [SHARD])
    assert second["verified"] == "none"
    assert [file["path"] for file in second["to_send"]] == [SHARD]
    assert second["remaining"] == []


def test_full_looks_through_the_record(fake: Fake) -> None:
    first = fake.call()
    fake.keep(first)
    fake.alter(SHARD, b"SECOND" * 1000)
    # What a quick look cannot see.
    assert fake.call(manifest=first["manifest"])["verified"] == "quick"
    full = fake.call(manifest=first["manifest"], full=True)
    assert (kinds(full), full["verified"]) == ([(SHARD, "sha256")], "none")


def test_recorded_hash_of_another_manifest(fake: Fake) -> None:
    first = fake.call()
    fake.keep(first)
    wanted = json.loads(json.dumps(first["manifest"]))
    wanted["files"][0]["sha256"] = "ab" * 32
    second = fake.call(manifest=wanted)
    assert (kinds(second), second["hashes"]) == ([("config.json", "sha256")], {})


@pytest.mark.parametrize("record", ["", "{", "[]", '{"schema": 1, "path": "/models/other", "files": {}}'])
def test_a_record_that_is_none(fake: Fake, record: str) -> None:
    fake.record.write_text(record)
    assert fake.call()["verified"] == "full"


def test_without_hashing(fake: Fake) -> None:
    manifest = fake.call()["manifest"]
    (fake.path / SHARD).write_bytes(b"short")
    (fake.path / (SHARD + ".part")).write_bytes(b"seco")
    look = fake.call(manifest=manifest, hash=False)
    assert (kinds(look), look["verified"], look["manifest"]) == ([(SHARD, "size")], "none", None)
    assert [file["path"] for file in look["to_hash"]] == sorted(FILES)
    assert (look["hashed_mib"], look["hashes"]) == (0.0, {})
    wanted = [file for file in manifest["files"] if file["path"] == SHARD]
    assert look["to_send"] == [{**wanted[0], "part": 4}]


def test_in_pieces(fake: Fake) -> None:
    whole = fake.call()
    names = sorted(FILES)
    hashes: dict[str, Any] = {}
    for piece in (names[:2], names[2:]):
        answer = fake.call(files=piece)
        assert sorted(answer["hashes"]) == piece
        assert "problems" not in answer
        hashes.update(answer["hashes"])
    judged = fake.call(hashes=hashes)
    assert (judged["manifest"], judged["verified"], judged["hashes"]) == (whole["manifest"], "full", {})
    # A piece counts only as long as nobody wrote to the file.
    os.utime(fake.path / SHARD, ns=(1, 1))
    assert list(fake.call(hashes=hashes)["hashes"]) == [SHARD]


def test_a_file_that_could_not_be_read(fake: Fake) -> None:
    hashes = {SHARD: {"size": 6000, "mtime_ns": 1, "sha256": None, "error": "Input/output error"}}
    result = fake.call(hashes=hashes)
    assert result["problems"] == [{"path": SHARD, "kind": "unreadable", "reason": "cannot be read: Input/output error"}]
    assert (result["manifest"], result["verified"], SHARD in result["record"]["files"]) == (None, "none", False)


def test_no_directory(fake: Fake) -> None:
    manifest = fake.call()["manifest"]
    gone = str(fake.path) + "-not"
    alone = fake.call(path=gone)
    assert alone["problems"] == [{"path": "", "kind": "directory", "reason": "there is no such directory"}]
    assert (alone["remaining"], alone["manifest"], alone["verified"]) == (alone["problems"], None, "none")
    wanted = fake.call(path=gone, manifest=manifest)
    assert (len(wanted["to_send"]), wanted["remaining"]) == (len(FILES), [])
    assert wanted["disk"]["free_mib"] > 0


@pytest.mark.parametrize("with_manifest", [True, False])
def test_digest(fake: Fake, with_manifest: bool) -> None:
    first = fake.call()
    manifest = {"manifest": first["manifest"]} if with_manifest else {}
    assert fake.call(digest=first["digest"], **manifest)["problems"] == []
    other = fake.call(digest="sha256:00", **manifest)
    assert (kinds(other), other["verified"]) == ([("", "digest")], "none")
    # No sending cures that.
    assert other["remaining"] == other["problems"]


def test_no_manifest(fake: Fake) -> None:
    result = fake.call(manifest={"schema": 1})
    assert result["msg"] == f"manifest of {fake.path}: manifest has no key path"


def test_default_record(fake: Fake) -> None:
    name = str(fake.path).strip("/").replace("/", "--")
    result = fake.call(record=None, path=str(fake.path) + "/")
    assert result["record_path"] == f"/var/lib/tandem/models/{name}.json"
    assert result["path"] == str(fake.path)
