# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.vllm.plugins.modules.failure_triage_info import main

TOO_OLD = "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver"
TABLE = "| NVIDIA-SMI 551.78                 Driver Version: 551.78         CUDA Version: 12.4     |"
LOST = "Failed to initialize NVML: Unknown Error"
HOST = "GPU 0: NVIDIA A10 (UUID: GPU-f15ae561-21b1-6003-c768-861fc285203b)"
ERROR_803 = "Error 803: system has unsupported display driver / cuda driver combination"


def run(capsys: pytest.CaptureFixture[str], **arguments: Any) -> dict[str, Any]:
    with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
        main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert bool(ended.value.code) == result.get("failed", False)
    result.pop("invocation", None)  # ansible-core 2.19 adds it
    return result


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_text(capsys: pytest.CaptureFixture[str], check_mode: bool) -> None:
    result = run(capsys, text=f"{TABLE}\n{TOO_OLD}", _ansible_check_mode=check_mode)
    assert result["changed"] is False
    (cause,) = result["causes"]
    assert sorted(cause) == ["advice", "checks", "confidence", "details", "evidence", "id", "next_command"]
    assert (cause["id"], cause["confidence"], cause["evidence"]) == ("driver_too_old_for_image", "high", TOO_OLD)
    assert cause["details"] == {
        "required": "cuda>=12.8",
        "driver": "551.78",
        "cuda": "12.4",
        "driver_wanted": "570.26",
    }
    assert cause["checks"] == []
    assert result["summary"] == f"driver_too_old_for_image: {cause['advice']}"


@pytest.mark.parametrize("text", ["", "Application startup complete."])
def test_nothing_known(capsys: pytest.CaptureFixture[str], text: str) -> None:
    assert run(capsys, text=text) == {
        "changed": False,
        "causes": [],
        "summary": "No known failure was found in the text.",
    }


def test_files_and_text_are_judged_together(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log, host = tmp_path / "container.log", tmp_path / "host.txt"
    log.write_bytes(b"\xff\xfe no text\n" + LOST.encode() + b"\n")
    host.write_text(HOST + "\n")
    alone = run(capsys, files=[str(log)])["causes"][0]
    assert (alone["id"], alone["confidence"]) == ("container_lost_gpu_cgroup", "medium")
    assert alone["checks"]
    both = run(capsys, files=[str(log), str(host)])["causes"][0]
    assert (both["id"], both["confidence"], both["details"]) == ("container_lost_gpu_cgroup", "high", {"host_gpus": 1})
    assert run(capsys, text=HOST, files=[str(log)])["causes"][0]["confidence"] == "high"


def test_texts_do_not_run_into_each_other(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rest = tmp_path / "rest.log"
    rest.write_text("y system / cuda driver combination")
    assert run(capsys, text="system has unsupported displa", files=[str(rest)])["causes"] == []


def test_files_that_are_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    here, gone = tmp_path / "here.log", tmp_path / "gone.log"
    here.write_text(LOST)
    result = run(capsys, files=[str(here), str(gone), str(tmp_path)])
    assert result["failed"] is True
    assert result["msg"] == (
        f"files = {gone} (No such file or directory), {tmp_path} (Is a directory) cannot be read on the target."
    )


def test_nothing_given(capsys: pytest.CaptureFixture[str]) -> None:
    result = run(capsys)
    assert result["failed"] is True
    assert result["msg"].startswith("text and files are both missing")


def test_versions_decide(capsys: pytest.CaptureFixture[str]) -> None:
    found = [
        run(capsys, text=ERROR_803, versions=versions)["causes"][0]
        for versions in ({}, {"vllm": "0.15.1", "driver": "580.95.05"})
    ]
    assert [(cause["id"], cause["confidence"]) for cause in found] == [
        ("cuda_compat_library_conflict", "medium"),
        ("cuda_compat_library_conflict", "high"),
    ]
    assert found[1]["details"] == {"driver": "580.95.05"}


def test_summary_names_what_else_was_found(capsys: pytest.CaptureFixture[str]) -> None:
    result = run(capsys, text="unresolvable CDI devices runtime.nvidia.com/gpu=all\nNVRM: API mismatch: the client has")
    assert [cause["id"] for cause in result["causes"]] == ["driver_library_mismatch", "cdi_spec_generation_failed"]
    assert result["summary"].startswith("driver_library_mismatch: ")
    assert result["summary"].endswith(" Besides: cdi_spec_generation_failed.")


def test_summary_says_how_sure_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, text=LOST)["summary"].startswith("container_lost_gpu_cgroup (likely): ")
    guess = run(capsys, text="No devices were found")["summary"]
    assert guess.startswith("driver_needs_open_kernel_module (a guess; see its checks): ")
