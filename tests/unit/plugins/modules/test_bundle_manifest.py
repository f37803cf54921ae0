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
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.manifest import Manifest, sha256sums
from ansible_collections.tandem.vllm.plugins.modules.bundle_manifest import main

TAR = b"an image"
SUM = hashlib.sha256(TAR).hexdigest()
IMAGE = {
    "ref": "sha256:" + "ab" * 32,
    "id": "sha256:" + "ab" * 32,
    "file": "images/abababababab.tar",
    "compression": None,
    "tar_size": len(TAR),
    "tar_sha256": SUM,
}


def run(capsys: pytest.CaptureFixture[str], folder: Path, **more: Any) -> dict[str, Any]:
    arguments = {
        "path": str(folder),
        "environment": "site",
        "made_with": {"tandem": "0.1.0", "python": "3.11.2", "pip": "25.3"},
        "images": [IMAGE],
        "hosts": {"nodes": ["node-a"], "gateways": ["gateway"]},
        **more,
    }
    with patch_module_args(arguments), pytest.raises(SystemExit):
        main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    (tmp_path / "images/abababababab.tar").write_bytes(TAR)
    return tmp_path


def test_written_once(capsys: pytest.CaptureFixture[str], bundle: Path) -> None:
    first = run(capsys, bundle)
    assert first["changed"] is True
    text = (bundle / "manifest.json").read_text()
    manifest = Manifest.from_json(text)
    assert manifest.to_dict() == first["manifest"]
    assert manifest.needs == {"node-a": ("images/abababababab.tar",), "gateway": ()}
    assert (bundle / "SHA256SUMS").read_text() == sha256sums(manifest)
    assert f"{SUM}  images/abababababab.tar" in (bundle / "SHA256SUMS").read_text()
    again = run(capsys, bundle)
    assert (again["changed"], (bundle / "manifest.json").read_text()) == (False, text)


def test_check_mode_writes_nothing(capsys: pytest.CaptureFixture[str], bundle: Path) -> None:
    assert run(capsys, bundle, _ansible_check_mode=True)["changed"] is True
    assert not (bundle / "manifest.json").exists()


def test_a_change_is_written(capsys: pytest.CaptureFixture[str], bundle: Path) -> None:
    run(capsys, bundle)
    (bundle / "controller").mkdir()
    (bundle / "controller/requirements.txt").write_text("x")
    assert run(capsys, bundle)["changed"] is True
    assert run(capsys, bundle)["changed"] is False


@pytest.mark.parametrize("name", ["manifest.json", "SHA256SUMS"])
def test_what_was_altered_is_written_anew(capsys: pytest.CaptureFixture[str], bundle: Path, name: str) -> None:
    run(capsys, bundle)
    (bundle / name).write_text((bundle / name).read_text() + " ")
    assert run(capsys, bundle)["changed"] is True
    assert run(capsys, bundle)["changed"] is False


def test_an_archive_that_is_not_what_was_stated(capsys: pytest.CaptureFixture[str], bundle: Path) -> None:
    (bundle / "images/abababababab.tar").write_bytes(TAR[:-1])
    result = run(capsys, bundle)
    assert result["failed"] is True
    assert "images[0].tar_sha256" in result["msg"]
    assert not (bundle / "manifest.json").exists()


def test_a_link_does_not_travel(capsys: pytest.CaptureFixture[str], bundle: Path) -> None:
    (bundle / "images/other.tar").symlink_to(bundle / "images/abababababab.tar")
    assert "images/other.tar: is a link" in run(capsys, bundle)["msg"]
