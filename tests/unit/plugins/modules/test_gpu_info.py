# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.vllm.plugins.modules import gpu_info
from ansible_collections.tandem.vllm.plugins.modules.gpu_info import TEXTS, main

FIXTURES = Path(__file__).parents[3] / "fixtures"


def run(capsys: pytest.CaptureFixture[str], **arguments: Any) -> dict[str, Any]:
    """What the module returns, without what Ansible adds. It always succeeds and never changes anything."""
    with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
        main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    result.pop("invocation", None)
    assert (int(ended.value.code or 0), result.pop("changed")) == (0, False)
    return result


def text(name: str) -> str:
    return (FIXTURES / name).read_text()


def undocumented(result: dict[str, Any], documented: dict[str, Any], path: str = "") -> set[str]:
    """Keys of a result that the documentation lacks, and documented ones that the result lacks."""
    wrong = {path + key for key in set(result) ^ set(documented)}
    for key in set(result) & set(documented):
        below, value = documented[key].get("contains"), result[key]
        for entry in value if isinstance(value, list) else [value]:
            if below and isinstance(entry, dict):
                wrong |= undocumented(entry, below, f"{path}{key}.")
    return wrong


@pytest.mark.parametrize(
    "arguments",
    [
        {"smi_text": ""},
        {
            "smi_text": text("gpu_hosts/a100x4_mig/query.xml") + text("gpu_hosts/a100x4_held/smi.txt"),
            "smi_list_text": text("gpu_hosts/a100x4_mig/list.txt"),
            "kernel_log_text": text("gpu_hosts/a100x4_lost/kernel.txt"),
        },
    ],
)
def test_every_key_is_documented(capsys: pytest.CaptureFixture[str], arguments: dict[str, str]) -> None:
    assert undocumented(run(capsys, **arguments), yaml.safe_load(gpu_info.RETURN)) == set()


def test_every_option_is_documented() -> None:
    assert set(yaml.safe_load(gpu_info.DOCUMENTATION)["options"]) == set(TEXTS)


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be read from this host."""

    def refuse(_module: AnsibleModule, argv: Sequence[str], **_more: Any) -> None:
        pytest.fail(f"ran {argv}")

    monkeypatch.setattr(AnsibleModule, "run_command", refuse)


@pytest.mark.usefixtures("unread")
def test_all_texts_of_a_machine(capsys: pytest.CaptureFixture[str]) -> None:
    machine = "gpu_hosts/h200/"
    result = run(
        capsys,
        smi_text=text(machine + "smi.txt"),
        smi_list_text=text(machine + "list.txt"),
        topology_text=text(machine + "topology.txt"),
        processes_text=text(machine + "processes.csv"),
        kernel_version_text=text(machine + "version"),
        kernel_log_text=text(machine + "kernel.txt"),
        docker_info_text=text("smi/docker_info.txt"),
        toolkit_version_text="NVIDIA Container Toolkit CLI version 1.18.1",
    )
    [gpu] = result["gpus"]
    assert (gpu["uuid"], gpu["name"]) == ("GPU-be1950b0-2e67-2b05-72e7-483243006410", "NVIDIA H200")
    assert (gpu["bus_id"], gpu["memory_used_mib"]) == ("00000000:00:06.0", 3691)
    # The table and the CSV tell of one process, the one its type and the other its GPU's UUID.
    [process] = result["processes"]
    assert (process["gpu_index"], process["gpu_uuid"], process["pid"]) == (0, gpu["uuid"], 429)
    assert (process["type"], process["container"]) == ("C", None)
    assert result["kernel_module"] == {"loaded": True, "version": "580.159.04", "flavour": "open"}
    assert result["kernel_log"] == {"read": True, "xid": [], "faults": []}
    assert result["topology"]["links"] == {"GPU0": {}}
    assert (result["docker"]["version"], result["toolkit"]["version"]) == ("29.1.3", "1.18.1")
    assert (result["available"], result["usable"], result["reason"]) == (True, True, None)
    # What texts cannot tell is not known, which is another thing than "no".
    assert (result["library_version"], result["pci_gpus"], result["packages"]["manager"]) == (None, None, None)


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("smi_text", "", "no text was given"),
        ("smi_text", "Failed to initialize NVML: Unknown Error", "Failed to initialize NVML: Unknown Error"),
        ("topology_text", "", "no output of nvidia-smi was given"),
    ],
)
def test_one_text_is_enough_to_read_nothing(
    capsys: pytest.CaptureFixture[str], option: str, value: str, reason: str
) -> None:
    result = run(capsys, **{option: value})
    assert (result["available"], result["usable"], result["gpu_count"]) == (False, False, 0)
    assert result["reason"] == reason
    assert (result["kernel_module"]["loaded"], result["toolkit"]["installed"]) == (None, None)
    assert result["kernel_log"]["read"] is False
    assert (result["docker"]["available"], result["docker"]["error"]) == (False, "not read")


@pytest.mark.usefixtures("unread")
def test_everything_pasted_into_one_text(capsys: pytest.CaptureFixture[str]) -> None:
    pasted = "\n".join(text("gpu_hosts/a100x4_lost/" + n) for n in ("smi.txt", "topology.txt", "kernel.txt"))
    result = run(capsys, smi_text=pasted)
    assert result["gpu_count"] == 3
    assert result["topology"]["gpu_link"] == "nvlink"
    assert [xid["code"] for xid in result["kernel_log"]["xid"]] == [79, 154]
    assert result["kernel_module"] == {"loaded": None, "version": "580.159.04", "flavour": "open"}


@pytest.mark.parametrize("check_mode", [False, True])
def test_this_host_is_read_without_texts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, check_mode: bool
) -> None:
    asked = []

    def run_command(_module: AnsibleModule, argv: Sequence[str], **more: Any) -> tuple[int, str, str]:
        asked.append(" ".join(argv))
        if "nvidia-smi" not in argv:
            raise FileNotFoundError(2, "No such file or directory")
        assert more == {"handle_exceptions": False}
        return 0, text("gpu_hosts/h200/query.xml" if "-q" in argv else "gpu_hosts/h200/topology.txt"), ""

    monkeypatch.setattr(AnsibleModule, "run_command", run_command)
    result = run(capsys, _ansible_check_mode=check_mode)
    assert (result["available"], result["driver"], result["gpu_count"]) == (True, "580.159.04", 1)
    assert "docker info --format {{json .}}" in asked
    assert result["docker"]["error"] == "docker: No such file or directory"


def test_an_unknown_option_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with patch_module_args({"text": ""}), pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert "Unsupported parameters" in json.loads(capsys.readouterr().out)["msg"]
