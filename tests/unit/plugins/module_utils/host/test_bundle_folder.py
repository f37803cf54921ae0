# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.compare import FileFacts
from ansible_collections.tandem.vllm.plugins.module_utils.host import bundle_folder
from ansible_collections.tandem.vllm.plugins.module_utils.host.bundle_folder import BundleFolder


def test_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    (tmp_path / "a/b/file").write_bytes(b"12345")
    (tmp_path / "a/.hidden").touch()
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "dangling").symlink_to("nowhere")
    assert BundleFolder(str(tmp_path)).look() == {
        "a/.hidden": FileFacts(0),
        "a/b/file": FileFacts(5),
        "dangling": FileFacts(0, fault="is a link and not a file"),
        "link": FileFacts(0, fault="is a link and not a file"),
    }


def test_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert BundleFolder(str(tmp_path / "file")).look() is None


def test_a_name_that_is_no_utf8_can_be_told(tmp_path: Path) -> None:
    place = os.fsencode(tmp_path) + b"/\xff"
    os.close(os.open(place, os.O_CREAT))
    found = BundleFolder(str(tmp_path)).look()
    assert list(found or {}) == ["\N{REPLACEMENT CHARACTER}"]


def test_a_folder_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wheels").mkdir()
    scandir = os.scandir

    def refusing(path: str) -> object:
        if str(path).endswith("wheels"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    found = BundleFolder(str(tmp_path)).look()
    assert found == {"wheels": FileFacts(0, fault="cannot be read: Permission denied")}


def test_a_checksum_over_several_blocks(tmp_path: Path) -> None:
    data = bytes(range(256)) * 9000
    assert len(data) > 2 * bundle_folder.BLOCK
    (tmp_path / "file").write_bytes(data)
    folder = BundleFolder(str(tmp_path))
    found = folder.hashed("file")
    assert found == {
        "sha256": hashlib.sha256(data).hexdigest(),
        "mtime_ns": (tmp_path / "file").stat().st_mtime_ns,
    }
    assert folder.hashed_bytes == len(data)


def test_no_checksum_of_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/hostname")
    folder = BundleFolder(str(tmp_path))
    assert folder.hashed("link") == {"fault": "is a link and not a file"}
    assert folder.hashed("nothing") == {"fault": "cannot be read: No such file or directory"}
    assert folder.mtime_ns("nothing") is None


def test_a_text_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "manifest.json").write_bytes(b"{}")
    folder = BundleFolder(str(tmp_path))
    assert folder.text("manifest.json") == b"{}"
    monkeypatch.setattr(bundle_folder, "TEXT_LIMIT", 1)
    with pytest.raises(OSError, match="it is too long to be what its name says"):
        folder.text("manifest.json")
