# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.compare import FileFacts
from ansible_collections.tandem.vllm.plugins.module_utils.host import wheel_files


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "a.whl").write_bytes(b"abc")
    (tmp_path / "b.whl").symlink_to("pip/a.whl")
    found = wheel_files.folder_facts(str(tmp_path))
    assert found["pip/a.whl"] == FileFacts(3, hashlib.sha256(b"abc").hexdigest())
    assert found["b.whl"].fault is not None
    assert len(found) == 2
    assert wheel_files.folder_facts(str(tmp_path / "none")) == {}


def test_what_libraries_ask_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Small chunks, so that a version lies across two of them.
    monkeypatch.setattr(wheel_files, "CHUNK", 32)
    path = tmp_path / "x.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("x/__init__.py", b"\0GLIBC_2.99\0")
        wheel.writestr("x/_x.so", b"\x7fELF" + b"." * 22 + b"\0GLIBC_2.38\0GLIBC_2.2.5\0" + b"." * 200)
        wheel.writestr("x/static", b"\x7fELF" + b"." * 100)
    assert wheel_files.newest_glibc_by_member(str(path)) == {"x/_x.so": (2, 38), "x/static": None}


@pytest.mark.parametrize("data", [b"no zip", b"PK\x03\x04" + b"\0" * 40])
def test_no_wheel(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.whl"
    path.write_bytes(data)
    with pytest.raises(wheel_files.BadWheelError, match="is no wheel that can be read"):
        wheel_files.newest_glibc_by_member(str(path))
