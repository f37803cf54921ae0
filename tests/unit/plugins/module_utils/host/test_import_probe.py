# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.host import import_probe


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["ray/__init__.py", "ray/util/__init__.py", "ray-2.59.0.dist-info/METADATA", "../../../bin/ray"], ["ray"]),
        (["six.py", "six-1.17.0.dist-info/RECORD"], ["six"]),
        (["msgpack/__init__.py", "msgpack/_cmsgpack.cpython-311-x86_64-linux-gnu.so"], ["msgpack"]),
        # A namespace package, and what is private or meant for nobody.
        (
            ["google/protobuf/__init__.py", "google/protobuf/internal/__init__.py", "_yaml/__init__.py"],
            ["google.protobuf"],
        ),
        (["tests/__init__.py", "a/__init__.py", "docs/conf.py", "b-c.py"], ["a"]),
        (["data.txt"], []),
    ],
)
def test_the_topmost(files: list[str], names: list[str]) -> None:
    assert import_probe.topmost(tuple(file.split("/")) for file in files) == names


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, text in {
        "tandem_probe_good": "print('a banner')",
        "tandem_probe_bad": "raise ImportError('GLIBC_2.38 not found')",
        "tandem_probe_leaves": "raise SystemExit(3)",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
    info = tmp_path / "tandem_probe-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tandem-probe\nVersion: 1.0\n")
    (info / "RECORD").write_text("tandem_probe_good.py,,\ntandem_probe_bad.py,,\n")
    return tmp_path


def test_attempts(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_probe.main(json.dumps([["tandem_probe_leaves", "tandem_probe_missing"], ["tandem-probe", "tandem-none"]]))
    printed = capsys.readouterr()
    answer = printed.out.splitlines()[-1]
    assert answer.startswith(import_probe.ANSWER)
    assert json.loads(answer[len(import_probe.ANSWER) :]) == {
        "tandem_probe_leaves": "SystemExit: 3",
        "tandem_probe_missing": "ModuleNotFoundError: No module named 'tandem_probe_missing'",
        "tandem_probe_bad": "ImportError: GLIBC_2.38 not found",
        "tandem_probe_good": None,
        "tandem-none": "is not installed",
    }
    assert printed.err.splitlines()[-1] == f"{import_probe.TRYING} tandem_probe_good"
    sys.modules.pop("tandem_probe_good", None)
