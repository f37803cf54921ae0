# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.vllm.plugins.module_utils.gpu.visibility import TOLD
from ansible_collections.tandem.vllm.plugins.modules import gpu_visibility
from ansible_collections.tandem.vllm.plugins.modules.gpu_visibility import main

A, B = "GPU-3f1f1c8e-6a0b-5d57-9f0e-51c9d3b7a410", "GPU-8c3b62d4-1f7e-4e6d-b2a9-7ad0c2e85f33"
LISTING = f"GPU 0: NVIDIA A100-SXM4-80GB (UUID: {A})\nGPU 1: NVIDIA A100-SXM4-80GB (UUID: {B})\n"
TORCH = {
    "version": "2.11.0",
    "cuda": "13.0",
    "available": True,
    "devices": [[A[4:], "A100"], [B[4:], "A100"]],
    "error": None,
    "missing": False,
}
HEALTHY = f"""\
=== tandem environment
=== tandem nvidia-smi
{LISTING}
=== tandem status 0
=== tandem framework

{TOLD}{json.dumps(TORCH)}

=== tandem status 0
=== tandem end
"""
IMAGE = "sha256:" + "0" * 64


class Host:
    """A host whose commands answer what a test says. `run_command` is AnsibleModule's, `asked` the argv in order."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.smi: tuple[int, str, str] = (0, LISTING, "")
        self.image: tuple[int, str, str] = (0, IMAGE + "\n", "")
        self.probe: Callable[[], tuple[int, str, str]] = lambda: (0, HEALTHY, "")
        self.removal: tuple[int, str, str] = (1, "", "Error: No such container: x")

    def run_command(self, argv: Sequence[str], handle_exceptions: bool) -> tuple[int, str, str]:
        assert not handle_exceptions
        self.asked.append(list(argv))
        command = list(argv[4:]) if argv[:2] == ["timeout", "-k"] else list(argv)
        if command == ["nvidia-smi", "-L"]:
            return self.smi
        if command[:2] == ["docker", "run"]:
            return self.probe()
        if command[:2] == ["docker", "rm"]:
            return self.removal
        assert command == ["docker", "image", "inspect", "--format", "{{.Id}}", IMAGE]
        return self.image

    def started(self) -> list[str]:
        """The command line of the one container that was started."""
        (argv,) = [argv for argv in self.asked if argv[4:6] == ["docker", "run"]]
        return argv

    def name(self) -> str:
        argv = self.started()
        return argv[argv.index("--name") + 1]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    host = Host()
    monkeypatch.setattr(
        gpu_visibility.AnsibleModule, "run_command", lambda _self, argv, **more: host.run_command(argv, **more)
    )
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield host
    for number, handler in handlers.items():
        signal.signal(number, handler)


def run(
    capsys: pytest.CaptureFixture[str], *, gpus: list[str] | None = None, **more: Any
) -> tuple[int, dict[str, Any]]:
    """Exit status and result. container: options besides the ordinary ones."""
    request = {"driver": "nvidia", "count": 0, "device_ids": ["0", "1"], "capabilities": [["gpu"]]}
    container = {"image": IMAGE, "device_requests": [request], "shm_size": "1g", **more.pop("container", {})}
    arguments = {"node": "node-a", "container": container, **more}
    if gpus is not None:
        arguments["gpus"] = gpus
    with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
        main()
    result = json.loads(capsys.readouterr().out)
    assert not result.get("changed")
    return int(ended.value.code or 0), result


def test_the_container_sees_its_gpus(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    status, result = run(capsys)
    result.pop("invocation", None)  # ansible-core 2.19 adds it
    assert status == 0
    assert result.pop("seconds") >= 0
    gpus = [{"index": str(n), "uuid": uuid, "name": "NVIDIA A100-SXM4-80GB"} for n, uuid in enumerate((A, B))]
    assert result == {
        "changed": False,
        "state": "passed",
        "checked": True,
        "passed": True,
        "reason": None,
        "host_gpus": gpus,
        "expected": [A, B],
        "container_gpus": gpus,
        "framework": {
            "name": "torch",
            "state": "passed",
            "reason": None,
            "version": "2.11.0",
            "cuda": "13.0",
            "available": True,
            "count": 2,
            "uuids": [A, B],
            "error": None,
        },
        "cause": None,
        "left_out": [],
    }


def test_the_commands(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    run(capsys, timeout=30)
    smi, image, started, removed = host.asked
    assert smi == ["timeout", "-k", "5", "60", "nvidia-smi", "-L"]
    assert image == ["timeout", "-k", "5", "60", "docker", "image", "inspect", "--format", "{{.Id}}", IMAGE]
    assert started[:6] == ["timeout", "-k", "5", "30", "docker", "run"]
    assert started[started.index("--gpus") + 1] == 'driver=nvidia,"device=0,1"'
    assert host.name().startswith("tandem-gpu-visibility-")
    assert removed == ["timeout", "-k", "5", "60", "docker", "rm", "--force", "--volumes", host.name()]


def test_each_probe_has_a_name_of_its_own(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    run(capsys)
    first = host.name()
    host.asked.clear()
    run(capsys)
    assert host.name() != first


def test_a_fault_is_told_and_the_container_removed(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    error = 'docker: Error response from daemon: could not select device driver "nvidia" with capabilities: [[gpu]].\n'
    host.probe = lambda: (125, "", error)
    status, result = run(capsys)
    assert (status, result["failed"], result["state"]) == (1, True, "failed")
    assert (result["checked"], result["passed"]) == (True, False)
    assert result["cause"]["id"] == "nvidia_container_toolkit_missing"
    opening = "node-a: a container with the launch image and arguments cannot see its GPUs"
    assert result["msg"].startswith(opening + ": nvidia_container_toolkit_missing: ")
    assert "could not select device driver" in result["msg"]
    assert "Next: " + result["cause"]["next_command"] in result["msg"]
    assert host.asked[-1][4:] == ["docker", "rm", "--force", "--volumes", host.name()]


def test_time_runs_out(capsys: pytest.CaptureFixture[str], host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    def hang() -> tuple[int, str, str]:
        now[0] += 31
        return 124, "=== tandem environment\n=== tandem nvidia-smi\n", ""

    host.probe = hang
    host.removal = (0, host.probe.__name__, "")
    status, result = run(capsys, timeout=30)
    assert (status, result["cause"]["id"], result["seconds"]) == (1, "probe_timed_out", 31.0)
    assert "nvidia-smi -L had not answered after 30 s" in result["msg"]
    assert host.asked[-1][4:] == ["docker", "rm", "--force", "--volumes", host.name()]


def test_killed_for_memory_is_no_timeout(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    host.probe = lambda: (137, HEALTHY.partition("=== tandem framework")[0] + "=== tandem framework\n", "")
    _status, result = run(capsys)
    assert result["cause"]["id"] == "framework_cannot_use_gpus"
    assert "exit status 137" in result["msg"]


def test_removed_also_when_the_module_is_ended(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    def ended() -> tuple[int, str, str]:
        signal.raise_signal(signal.SIGTERM)
        return 0, HEALTHY, ""

    host.probe = ended
    with pytest.raises(ValueError, match="Expecting value"):  # no result: the module ended
        run(capsys)
    assert host.asked[-1][4:] == ["docker", "rm", "--force", "--volumes", host.name()]


def test_what_could_not_be_removed_is_told(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    host.removal = (1, "", "Error response from daemon: could not kill container: tried to kill container, but did not")
    status, result = run(capsys)
    assert (status, result["cause"]["id"], result["passed"]) == (1, "probe_left_behind", False)
    assert f"Next: docker rm --force {host.name()}" in result["msg"]


def test_docker_may_be_removing_it_already(
    capsys: pytest.CaptureFixture[str], host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        host.removal = (1, "", "Error: No such container: x")

    monkeypatch.setattr("time.sleep", sleep)
    host.removal = (1, "", "Error response from daemon: removal of container x is already in progress")
    assert run(capsys)[0] == 0
    assert slept == [0.5]


def test_check_mode_starts_nothing(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    status, result = run(capsys, _ansible_check_mode=True)
    assert (status, result["state"], result["checked"], result["passed"]) == (0, "not_checked", False, False)
    assert result["reason"] == "check mode starts no container"
    assert (result["expected"], result["framework"]["state"]) == ([A, B], "not_checked")
    assert [argv[4:] for argv in host.asked] == [["nvidia-smi", "-L"]]


def test_no_gpu_asked_for_is_not_passed(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    status, result = run(capsys, container={"device_requests": []})
    assert (status, result["state"], result["passed"]) == (0, "not_checked", False)
    assert result["reason"] == "the launch asks for no GPU"
    assert host.asked == []


def test_gpus_that_should_be_seen(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    status, result = run(capsys, gpus=[B])
    assert (status, result["expected"], result["cause"]["id"]) == (1, [B], "gpu_set_differs")
    assert f"not named: {A}" in result["msg"]


def test_without_the_framework(capsys: pytest.CaptureFixture[str], host: Host) -> None:
    host.probe = lambda: (0, HEALTHY.partition("=== tandem framework")[0] + "=== tandem end\n", "")
    status, result = run(capsys, framework=False)
    assert (status, result["state"], result["framework"]["state"]) == (0, "passed", "not_checked")
    assert host.started()[-1] == ""


def test_mounts_that_are_not_there_yet(capsys: pytest.CaptureFixture[str], host: Host, tmp_path: Path) -> None:
    key = str(tmp_path / "engine.key")
    mounts = [{"type": "bind", "source": path, "target": "/x", "read_only": True} for path in (str(tmp_path), key)]
    _status, result = run(capsys, container={"mounts": mounts})
    assert result["left_out"] == [key]
    assert f"type=bind,source={tmp_path},target=/x,readonly" in host.started()
    assert key not in " ".join(host.started())


@pytest.mark.parametrize(
    ("smi", "image", "more", "cause", "said"),
    [
        (
            (127, "", "timeout: failed to run command 'nvidia-smi': No such file or directory"),
            None,
            {},
            "nvidia_smi_missing",
            "node-a: the host cannot list its GPUs: nvidia_smi_missing: Install the NVIDIA driver",
        ),
        (None, None, {"gpus": ["0", "7"]}, "gpu_not_on_host", "named: 7; on the host: 0 ("),
        (None, (1, "[]", f"Error: No such image: {IMAGE}"), {}, "image_missing", "no container can be started"),
    ],
)
def test_nothing_is_started_where_it_cannot_work(
    capsys: pytest.CaptureFixture[str],
    host: Host,
    smi: tuple[int, str, str] | None,
    image: tuple[int, str, str] | None,
    more: dict[str, Any],
    cause: str,
    said: str,
) -> None:
    host.smi, host.image = smi or host.smi, image or host.image
    status, result = run(capsys, **more)
    assert (status, result["state"], result["seconds"]) == (1, "failed", None)
    assert result["cause"]["id"] == cause
    assert said in result["msg"]
    assert not [argv for argv in host.asked if argv[4:6] == ["docker", "run"]]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"container": {"privileged": True}}, "container.privileged: this launch option is not known"),
        ({"container": {"image": None}}, "container.image = not set: the launch image is needed"),
        ({"timeout": 0}, "timeout = 0: must be 1 second or more."),
    ],
)
def test_bad_input(capsys: pytest.CaptureFixture[str], host: Host, more: dict[str, Any], said: str) -> None:
    status, result = run(capsys, **more)
    assert (status, result["failed"]) == (1, True)
    assert said in result["msg"]
    assert host.asked == []
