# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.vllm.plugins.modules.model_file import main

CONTENT = b"weights" * 100
SHA256 = hashlib.sha256(CONTENT).hexdigest()
NAME = "sub/model.safetensors"
MODES = pytest.mark.parametrize("check", [False, True])


class Fake:
    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        self.file, self.part = folder / NAME, folder / (NAME + ".part")
        self.file.parent.mkdir()

    def call(self, check: bool = False, **arguments: Any) -> dict[str, Any]:
        args = {"path": str(self.folder), "file": NAME, "size": 700, "sha256": SHA256, "_ansible_check_mode": check}
        with patch_module_args({**args, **arguments}), pytest.raises(SystemExit):
            main()
        result: dict[str, Any] = json.loads(self.capsys.readouterr().out)
        return result

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.file.parent.iterdir()}


@pytest.fixture
def fake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Fake:
    return Fake(tmp_path, capsys)


@pytest.mark.parametrize("before", [None, b"old"])
def test_a_part_gets_its_name(fake: Fake, before: bytes | None) -> None:
    if before:
        fake.file.write_bytes(before)
    fake.part.write_bytes(CONTENT)
    there = fake.files()
    assert (fake.call(check=True)["changed"], fake.files()) == (True, there)
    result = fake.call()
    assert (result["changed"], fake.files()) == (True, {"model.safetensors": CONTENT})
    mtime = fake.file.stat().st_mtime_ns
    assert result["hashes"] == {NAME: {"size": 700, "mtime_ns": mtime, "sha256": SHA256}}


@MODES
def test_a_file_that_is_right(fake: Fake, check: bool) -> None:
    fake.file.write_bytes(CONTENT)
    result = fake.call(check)
    assert (result["changed"], result["hashes"][NAME]["sha256"]) == (False, SHA256)


@pytest.mark.parametrize("content", [CONTENT[:-1], CONTENT[:-1] + b"S"])
def test_a_part_that_is_wrong(fake: Fake, content: bytes) -> None:
    fake.file.write_bytes(b"old")
    fake.part.write_bytes(content)
    result = fake.call()
    found = hashlib.sha256(content).hexdigest()
    assert result["msg"] == (
        f"{fake.file}: what was sent is not the file: it has {len(content)} bytes and the SHA-256 {found}, wanted are "
        f"700 and {SHA256}. It was removed, and nothing was replaced. Correct the source, then run again"
    )
    assert fake.files() == {"model.safetensors": b"old"}


def test_a_link_in_place_of_the_part(fake: Fake, tmp_path: Path) -> None:
    (tmp_path.parent / "weights").write_bytes(CONTENT)
    fake.part.symlink_to(tmp_path.parent / "weights")
    assert "it is a link to" in fake.call()["msg"]
    assert (fake.file.exists(), (tmp_path.parent / "weights").exists()) == (False, True)


def test_nothing_was_sent(fake: Fake) -> None:
    fake.file.write_bytes(b"old")
    assert fake.call()["msg"] == f"{fake.file}.part is not there: nothing was sent"
    # In check mode nothing is sent before.
    assert fake.call(check=True)["changed"] is True


@pytest.mark.parametrize("name", ["../x", "/etc/x", ""])
def test_a_path_that_leads_elsewhere(fake: Fake, name: str) -> None:
    assert "must be a relative path" in fake.call(file=name)["msg"]
