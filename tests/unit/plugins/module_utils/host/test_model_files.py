# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.host import model_files
from ansible_collections.tandem.vllm.plugins.module_utils.host.model_files import ModelFiles, read_json

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = tmp_path / "models/x"
    (model / "1_Pooling").mkdir(parents=True)
    (model / ".cache/huggingface").mkdir(parents=True)
    (model / "config.json").write_text('{"model_type": "qwen2"}')
    (model / "1_Pooling/config.json").write_text("{}")
    (model / ".cache/huggingface/config.json").write_text("{}")
    (model / "model.safetensors.part").write_text("half")
    (model / "model.safetensors").write_bytes(b"x" * (2**20 + 7))
    return model


def test_look(folder: Path) -> None:
    found = ModelFiles(str(folder)).look() or {}
    assert list(found) == ["1_Pooling/config.json", "config.json", "model.safetensors"]
    facts = found["model.safetensors"]
    assert (facts.size, facts.sha256, facts.link, facts.error, facts.pointer) == (2**20 + 7, None, None, None, False)
    assert facts.mtime_ns == (folder / "model.safetensors").stat().st_mtime_ns
    # What a manifest names is looked at, whatever it is called.
    named = ModelFiles(str(folder)).look(["model.safetensors.part", "not there"]) or {}
    assert set(named) - set(found) == {"model.safetensors.part"}


def test_no_directory(folder: Path) -> None:
    assert ModelFiles(str(folder / "none")).look() is None
    assert ModelFiles(str(folder / "config.json")).look() is None


def test_links(folder: Path) -> None:
    outside = folder.parent / "blob"
    outside.write_text("weights")
    (folder / "out.safetensors").symlink_to("../blob")
    (folder / "gone.safetensors").symlink_to("nothing")
    (folder / "in.safetensors").symlink_to("model.safetensors")
    (folder / "out").symlink_to(folder.parent)
    (folder / "in").symlink_to("1_Pooling")
    (folder / "round").symlink_to(".")
    found = ModelFiles(str(folder)).look() or {}
    assert {name: there.link for name, there in found.items() if there.link} == {
        "out.safetensors": "../blob",
        "gone.safetensors": "nothing",
        "out": str(folder.parent),
    }
    assert found["in.safetensors"].size == 2**20 + 7
    assert not any(name.startswith(("in/", "round/", "out/")) for name in found)
    # A link is not read.
    files = ModelFiles(str(folder))
    assert (files.hashed("out.safetensors").sha256, files.hashed_bytes) == (None, 0)
    # The directory itself may be one.
    alias = folder.parent / "alias"
    alias.symlink_to(folder)
    assert (ModelFiles(str(alias)).look() or {}) == found


def test_what_is_no_file_is_not_read(folder: Path) -> None:
    os.mkfifo(folder / "weights.bin")
    assert "weights.bin" not in (ModelFiles(str(folder)).look() or {})


@pytest.mark.parametrize(
    ("content", "pointer"), [(POINTER, True), (b"{}", False), (b"", False), (POINTER + b"x" * 1024, False)]
)
def test_pointers_of_git_lfs(folder: Path, content: bytes, pointer: bool) -> None:
    (folder / "tokenizer.json").write_bytes(content)
    assert ModelFiles(str(folder)).facts("tokenizer.json").pointer == pointer


def test_hash(folder: Path) -> None:
    files = ModelFiles(str(folder))
    facts = files.hashed("model.safetensors")
    assert facts.sha256 == hashlib.sha256(b"x" * (2**20 + 7)).hexdigest()
    assert files.hashed_bytes == 2**20 + 7
    assert replace(facts, sha256=None) == files.facts("model.safetensors")


def test_a_file_that_cannot_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, *_args: Any) -> None:
            pass

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_args: object) -> None:
            pass

        def read(self, _size: int) -> bytes:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(model_files, "open", Broken, raising=False)
    facts = ModelFiles(str(folder)).hashed("model.safetensors")
    assert (facts.sha256, facts.error, facts.size) == (None, "Input/output error", 2**20 + 7)


def test_a_file_that_is_not_there(folder: Path) -> None:
    assert ModelFiles(str(folder)).hashed("nothing").error == "No such file or directory"


def test_a_file_that_is_written_to_meanwhile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Growing:
        def __init__(self) -> None:
            with (folder / "model.safetensors").open("ab") as stream:
                stream.write(b"more")

        def update(self, _block: bytes) -> None:
            pass

        def hexdigest(self) -> str:
            return "ab" * 32

    monkeypatch.setattr(model_files.hashlib, "sha256", Growing)
    facts = ModelFiles(str(folder)).hashed("model.safetensors")
    assert (facts.sha256, facts.error) == (None, "it was written to while it was read")


def test_rename_and_remove(folder: Path) -> None:
    files = ModelFiles(str(folder))
    files.rename("model.safetensors.part", "model.safetensors")
    assert (folder / "model.safetensors").read_text() == "half"
    assert not files.holds("model.safetensors.part")
    files.remove("model.safetensors")
    assert not files.holds("model.safetensors")
    assert files.bytes_of("model.safetensors") == 0
    assert files.bytes_of("config.json") == 23


def test_json(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "config.json"
    assert ModelFiles(str(folder)).parsed("config.json") == {"model_type": "qwen2"}
    assert read_json(str(folder / "none.json")) is None
    for text in (b"{", b"\xff", b"[" * 100000):
        path.write_bytes(text)
        assert read_json(str(path)) is None
    path.write_text("{}")
    monkeypatch.setattr(model_files, "JSON_LIMIT", 1)
    assert read_json(str(path)) is None


def test_disk(folder: Path) -> None:
    disk = ModelFiles(str(folder)).disk()
    assert disk["device"] == folder.stat().st_dev
    assert disk["free_mib"] > 0
    assert ModelFiles(str(folder / "not/yet")).disk()["device"] == disk["device"]
