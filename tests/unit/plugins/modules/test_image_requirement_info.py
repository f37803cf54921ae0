# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.vllm.plugins.modules import image_requirement_info

ID = "sha256:" + "ab" * 32
KEYS = {
    "changed",
    "found",
    "source",
    "image_id",
    "cuda_requirement",
    "cuda_version",
    "requirement_disabled",
    "size_mib",
    "size_exact",
    "reason",
}


def run(capsys: pytest.CaptureFixture[str], **arguments: Any) -> tuple[int, dict[str, Any]]:
    with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
        image_requirement_info.main()
    result = json.loads(capsys.readouterr().out)
    result.pop("invocation", None)  # ansible-core 2.19 adds it
    return int(ended.value.code or 0), result


class Docker:
    """Docker with one image, vllm:1."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.missing = False

    def __call__(self, _module: AnsibleModule, argv: list[str], handle_exceptions: bool = True) -> tuple[int, str, str]:
        assert not handle_exceptions
        if self.missing:
            raise FileNotFoundError(2, "No such file or directory")
        self.asked.append(argv[-1])
        if argv[-1] != "vllm:1":
            return 1, "\n", "Error response from daemon: No such image: " + argv[-1]
        return 0, json.dumps({"Id": ID, "Size": 2**30, "Config": {"Env": ["CUDA_VERSION=12.8.1"]}}), ""


@pytest.fixture
def docker(monkeypatch: pytest.MonkeyPatch) -> Docker:
    docker = Docker()

    def run_command(module: AnsibleModule, *args: Any, **more: Any) -> tuple[int, str, str]:
        return docker(module, *args, **more)

    monkeypatch.setattr(AnsibleModule, "run_command", run_command)
    return docker


@pytest.mark.parametrize("check_mode", [False, True])
def test_docker_has_it(docker: Docker, capsys: pytest.CaptureFixture[str], check_mode: bool) -> None:
    status, result = run(capsys, ref="vllm:1", _ansible_check_mode=check_mode)
    assert (status, result) == (
        0,
        {
            "changed": False,
            "found": True,
            "source": "docker",
            "image_id": ID,
            "cuda_requirement": None,
            "cuda_version": "12.8.1",
            "requirement_disabled": False,
            "size_mib": 1024,
            "size_exact": True,
            "reason": None,
        },
    )


def test_nowhere(docker: Docker, capsys: pytest.CaptureFixture[str]) -> None:
    status, result = run(capsys, ref="vllm:2")
    assert (status, set(result), result["found"]) == (0, KEYS, False)
    assert result["reason"] == "Error response from daemon: No such image: vllm:2"


def test_no_docker(docker: Docker, capsys: pytest.CaptureFixture[str]) -> None:
    docker.missing = True
    status, result = run(capsys, ref="vllm:1")
    assert (status, result["found"], result["reason"]) == (0, False, "docker is not installed")


def test_an_archive_is_read_in_place_of_docker(
    docker: Docker, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, config = tmp_path / "a.tar", ID[7:] + ".json"
    files = {config: {"config": {"Env": ["CUDA_VERSION=13.0"]}}, "manifest.json": [{"Config": config, "Layers": []}]}
    with tarfile.open(path, "w") as archive:
        for name, document in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(json.dumps(document))
            archive.addfile(info, io.BytesIO(json.dumps(document).encode()))
    status, result = run(capsys, ref=ID, archive=str(path))
    assert (status, set(result), result["source"], result["cuda_version"]) == (0, KEYS, "archive", "13.0")
    # What is in the archive is what would be loaded, whatever Docker calls vllm:1 here.
    status, result = run(capsys, ref="vllm:1", archive=str(path))
    assert (status, result["found"], docker.asked) == (0, False, [])
    assert result["reason"] == f"{path}: it does not hold vllm:1, but sha256:{ID[7:19]} (no tag)"


def test_no_archive(docker: Docker, capsys: pytest.CaptureFixture[str]) -> None:
    status, result = run(capsys, ref="vllm:1", archive="/no/such.tar")
    assert (status, set(result), result["found"]) == (0, KEYS, False)
    assert result["reason"] == "/no/such.tar cannot be read: No such file or directory"


@pytest.mark.parametrize("ref", ["", "--help", "two words", "ü:1", "vllm:1\n"])
def test_no_name(docker: Docker, capsys: pytest.CaptureFixture[str], ref: str) -> None:
    status, result = run(capsys, ref=ref)
    assert (status, docker.asked) == (1, [])
    assert result["msg"] == (
        f"ref = {ref!r}: must be an image's id (sha256:...), its name with a digest, or its tag. Correct the value"
    )


def test_a_name_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    status, result = run(capsys)
    assert (status, result["msg"]) == (1, "missing required arguments: ref")
