# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.vllm.plugins.module_utils.host.system import System
from ansible_collections.tandem.vllm.plugins.modules import host_info


def run(capsys: pytest.CaptureFixture[str], **arguments: Any) -> tuple[int, dict[str, Any]]:
    with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
        host_info.main()
    return int(ended.value.code or 0), json.loads(capsys.readouterr().out)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host without Docker, and with nothing that keeps its clock."""

    def missing(_module: AnsibleModule, argv: list[str], handle_exceptions: bool = True) -> tuple[int, str, str]:
        assert not handle_exceptions
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(AnsibleModule, "run_command", missing)
    monkeypatch.setattr(host_info, "System", lambda run: System(run, str(tmp_path)))
    monkeypatch.setattr(host_info.time, "time", lambda: 1796084563.5)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 4096 kB\n")
    (tmp_path / "models").mkdir()
    return tmp_path


@pytest.mark.parametrize("check_mode", [False, True])
def test_read(host: Path, capsys: pytest.CaptureFixture[str], check_mode: bool) -> None:
    status, result = run(capsys, paths=["/models", "/models/new"], _ansible_check_mode=check_mode)
    result.pop("invocation", None)  # ansible-core 2.19 adds it
    first, second = result.pop("disks")
    assert (first["path"], first["exists"], second["path"], second["exists"]) == ("/models", True, "/models/new", False)
    assert first["total_mib"] == second["total_mib"] >= first["free_mib"] > 0
    assert (status, result) == (
        0,
        {
            "changed": False,
            "time": 1796084563.5,
            "clock": {"synchronised": None},
            "clock_offset_s": None,
            "clock_uncertainty_s": None,
            "limits": {"nofile": None, "nofile_hard": None, "memlock": None},
            "memory_mib": 4,
        },
    )


def test_no_path_is_needed(host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys)[1]["disks"] == []


def test_a_relative_path(host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, result = run(capsys, paths=["/models", "models"])
    assert (status, result["msg"]) == (1, "paths holds models: must be an absolute path. Write it from / on")
