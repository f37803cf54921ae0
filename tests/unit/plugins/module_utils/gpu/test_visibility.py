# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import csv
import json
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.containers import device_requests
from ansible_collections.tandem.vllm.plugins.module_utils.gpu import visibility as pure
from ansible_collections.tandem.vllm.plugins.module_utils.gpu.visibility import Cause, LaunchOptionError, Listed

A, B, C = (f"GPU-3f1f1c8e-6a0b-5d57-9f0e-51c9d3b7a41{n}" for n in range(3))
M0, M1 = "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f", "MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb"
MIG_HOST = f"""\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: {A})
  MIG 3g.20gb     Device  0: (UUID: {M0})
  MIG 3g.20gb     Device  1: (UUID: {M1})
GPU 1: NVIDIA A100-SXM4-40GB (UUID: {B})
"""
IMAGE = "sha256:" + "0" * 64
REQUEST = {"driver": "nvidia", "count": 0, "device_ids": ["0", "1"], "capabilities": [["gpu"]]}
ERROR_802 = (
    "Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that"
    " might have already set an error? Error 802: system not yet initialized"
)
# Docker 20.10's own words, as the lab's hosts say them.
NO_DRIVER = 'docker: Error response from daemon: could not select device driver "nvidia" with capabilities: [[gpu]].\n'
HOOK = (
    "docker: Error response from daemon: failed to create shim task: OCI runtime create failed: runc create failed:"
    " unable to start container process: error during container init: error running hook #0: error running hook: exit"
    " status 1, stdout: , stderr: nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please"
    " update your driver to a newer version, or use an earlier cuda container: unknown.\n"
)
NO_CDI = "docker: nvidia.com/gpu=0 is not an absolute path.\nSee 'docker run --help'.\n"


def smi(*uuids: str) -> str:
    return "".join(f"GPU {n}: NVIDIA A100-SXM4-80GB (UUID: {uuid})\n" for n, uuid in enumerate(uuids))


def torch(*uuids: str, **more: Any) -> str:
    """What the framework's part prints, for devices that torch opens."""
    told = {"version": "2.11.0", "cuda": "13.0", "available": True, "error": None, "missing": False, **more}
    return pure.TOLD + json.dumps({**told, "devices": [[uuid[len("GPU-") :], "A100"] for uuid in uuids]})


def output(listing: str, status: int = 0, framework: str | None = None, fw_status: int = 0, env: str = "") -> str:
    """A probe's stdout; framework: text of that part, None where it was not asked."""
    parts = ["=== tandem environment", env, "=== tandem nvidia-smi", listing, f"=== tandem status {status}"]
    if framework is not None:
        parts += ["=== tandem framework", framework, "", f"=== tandem status {fw_status}"]
    return "\n".join([*parts, "=== tandem end", ""])


def judged(out: str, expected: list[str], status: int = 0, err: str = "") -> pure.Verdict:
    return pure.judge(status, out, err, expected, "docker run …")


def test_the_script_prints_what_is_read() -> None:
    """The words that the script prints, in the order it prints them, with what a shell would put in."""
    marks = [line.split("=== tandem ")[1].split("'")[0] for line in pure.SCRIPT.splitlines() if "=== tandem" in line]
    assert marks == [
        "environment",
        "nvidia-smi",
        'status %s\\n" "$?"',
        "framework",
        'status %s\\n" "$?"',
        "end",
    ]
    compile(pure.FRAMEWORK, "framework", "exec")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (smi(A, B), [("0", A), ("1", B)]),
        (MIG_HOST, [("0:0", M0), ("0:1", M1), ("1", B)]),
        # Before driver 470 a MIG device was told by its GPU.
        (
            f"GPU 3: A100-SXM4-40GB (UUID: {A})\n  MIG 1g.5gb Device 0: (UUID: MIG-{A}/7/0)\n",
            [("3:0", f"MIG-{A}/7/0")],
        ),
        ("No devices found.\n", []),
        ("", []),
    ],
)
def test_listed(text: str, found: list[tuple[str, str]]) -> None:
    assert [(gpu.index, gpu.uuid) for gpu in pure.listed(text)] == found


def test_a_mig_device_is_named_after_its_gpu() -> None:
    assert pure.listed(MIG_HOST)[1].name == "NVIDIA A100-SXM4-40GB MIG 3g.20gb"


@pytest.mark.parametrize(
    ("requests", "names"),
    [
        (device_requests(["0", A], "nvidia"), ["0", A]),
        (device_requests(["0", "1"], "cdi"), ["0", "1"]),
        ([{"driver": "cdi", "device_ids": ["nvidia.com/gpu=all"]}], None),
        ([{"driver": "nvidia", "count": -1}], None),
        ([], []),
        (None, []),
    ],
)
def test_named_gpus(requests: Any, names: list[str] | None) -> None:
    assert pure.named_gpus({"device_requests": requests}) == names


def test_any_two_gpus_cannot_be_compared() -> None:
    with pytest.raises(LaunchOptionError, match="without device_ids does not say which GPUs"):
        pure.named_gpus({"device_requests": [{"driver": "nvidia", "count": 2}]})


@pytest.mark.parametrize(
    ("host", "names", "uuids", "unknown"),
    [
        (smi(A, B), ["1", A], [B, A], []),
        (smi(A, B), ["0", A], [A], []),
        (smi(A, B), None, [A, B], []),
        (smi(A, B), ["1", "2", C], [B], ["2", C]),
        # A GPU in MIG mode stands for its devices; each also has an index.
        (MIG_HOST, ["0"], [M0, M1], []),
        (MIG_HOST, ["0:1", "1"], [M1, B], []),
        (MIG_HOST, [M0], [M0], []),
        ("", ["0"], [], ["0"]),
    ],
)
def test_resolve(host: str, names: list[str] | None, uuids: list[str], unknown: list[str]) -> None:
    assert pure.resolve(names, pure.listed(host)) == (uuids, unknown)


@pytest.mark.parametrize(
    ("request_", "arguments"),
    [
        (REQUEST, ["--gpus", 'driver=nvidia,"device=0,1"']),
        ({**REQUEST, "device_ids": ["3"]}, ["--gpus", "driver=nvidia,device=3"]),
        (
            {"driver": "nvidia", "count": -1, "capabilities": [["compute", "gpu", "utility"]]},
            ["--gpus", 'driver=nvidia,count=-1,"capabilities=compute,utility"'],
        ),
        ({"device_ids": ["0"]}, ["--gpus", "device=0"]),
        (device_requests(["0", "1"], "cdi")[0], ["--device", "nvidia.com/gpu=0", "--device", "nvidia.com/gpu=1"]),
    ],
)
def test_request_arguments(request_: dict[str, Any], arguments: list[str]) -> None:
    assert pure.request_arguments(request_) == arguments


def test_docker_reads_the_request_back() -> None:
    """As Docker does: one CSV record, a field a key; device ids stay one field."""
    argument = pure.request_arguments(REQUEST)[1]
    assert next(csv.reader([argument])) == ["driver=nvidia", "device=0,1"]


@pytest.mark.parametrize(
    ("mount", "argument"),
    [
        ({"type": "bind", "source": "/m", "target": "/m", "read_only": True}, "type=bind,source=/m,target=/m,readonly"),
        ({"type": "bind", "source": "/a,b", "target": '/"c"'}, 'type=bind,"source=/a,b","target=/""c"""'),
        ({"type": "tmpfs", "target": "/t", "read_only": False}, "type=tmpfs,target=/t"),
    ],
)
def test_mount_argument(mount: dict[str, Any], argument: str) -> None:
    assert pure.mount_argument(mount) == argument


def test_launch_arguments() -> None:
    container = {
        "image": IMAGE,
        "name": "tandem-chat-a",
        "command": ["serve", "/m"],
        "entrypoint": ["/bin/sh"],
        "labels": {"tandem.replica": "a"},
        "published_ports": ["10.0.0.1:8000:8000"],
        "env": {"B": "two words", "A": "1"},
        "mounts": [
            {"type": "bind", "source": "/m", "target": "/m", "read_only": True},
            {"type": "bind", "source": "/etc/tandem/engine.key", "target": "/run/key", "read_only": True},
        ],
        "device_requests": [REQUEST],
        "shm_size": "16g",
        "memory": None,
        "cpus": 8.0,
        "init": True,
        "ulimits": ["memlock:-1:-1"],
        "devices": ["/dev/infiniband:/dev/infiniband:rwm"],
        "capabilities": ["IPC_LOCK"],
    }
    assert pure.launch_arguments(container, ["/etc/tandem/engine.key"]) == [
        "--cpus",
        "8.0",
        "--shm-size",
        "16g",
        "--init",
        "--cap-add",
        "IPC_LOCK",
        "--device",
        "/dev/infiniband:/dev/infiniband:rwm",
        "--security-opt",
        "no-new-privileges:true",
        "--ulimit",
        "memlock=-1:-1",
        "--env",
        "A=1",
        "--env",
        "B=two words",
        "--mount",
        "type=bind,source=/m,target=/m,readonly",
        "--gpus",
        'driver=nvidia,"device=0,1"',
    ]
    argv = pure.probe_argv(container, "tandem-gpu-visibility-x", [], framework=True)
    assert argv[:7] == ["docker", "run", "--rm", "--pull", "never", "--network", "none"]
    assert argv[7:11] == ["--name", "tandem-gpu-visibility-x", "--label", "tandem.probe=gpu_visibility"]
    assert argv[-7:] == ["--entrypoint", "/bin/sh", IMAGE, "-c", pure.SCRIPT, "sh", pure.FRAMEWORK]
    assert pure.probe_argv(container, "x", [], framework=False)[-1] == ""
    assert pure.by_hand(container, []).endswith(f"--entrypoint nvidia-smi {IMAGE} -L")


def test_a_container_of_a_rank_group_is_probed_by_itself() -> None:
    """Neither the namespaces nor the folder of the Ray container, which need not be there yet."""
    beside = "container:tandem-chat-a-x2.ray"
    container = {
        "image": IMAGE,
        "group": "chat-a-x2",
        "network_mode": beside,
        "ipc_mode": beside,
        "pid_mode": beside,
        "init": False,
        "state": "present",
        "restart_policy": "no",
        "mounts": [{"type": "volume", "source": "tandem-chat-a-x2.ray", "target": "/r"}],
        "device_requests": [REQUEST],
    }
    assert pure.launch_arguments(container) == [
        "--security-opt",
        "no-new-privileges:true",
        "--gpus",
        'driver=nvidia,"device=0,1"',
    ]
    shareable = {
        "image": IMAGE,
        "ipc_mode": "shareable",
        "init": True,
        "group": "a",
        "leads": True,
        "address": "10.0.0.1",
    }
    assert pure.launch_arguments({**shareable, "expect": {"nodes": 2}}) == [
        "--ipc",
        "shareable",
        "--init",
        "--security-opt",
        "no-new-privileges:true",
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"privileged": True}, "container.privileged: this launch option is not known"),
        ({"volumes": ["a:/b"]}, "container.volumes: this launch option is not known"),
        ({"mounts": [{"type": "npipe", "source": "v", "target": "/v"}]}, "container.mounts: type = npipe is not"),
        ({"mounts": [{"type": "bind", "source": "/", "target": "/v", "propagation": "x"}]}, "mounts: propagation is"),
        ({"device_requests": [{**REQUEST, "capabilities": [["tpu"]]}]}, "capabilities must be one list"),
        ({"device_requests": [{**REQUEST, "options": {"a": "b"}}]}, "device_requests: options is not known"),
    ],
)
def test_an_option_that_would_be_lost_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(LaunchOptionError, match=said):
        pure.launch_arguments({"image": IMAGE, **options})
    assert pure.launch_arguments({"image": IMAGE, "privileged": False, "volumes": []})


def test_all_is_well() -> None:
    verdict = judged(output(smi(B, A), framework=torch(A, B)), [A, B])
    assert verdict.cause is None
    assert verdict.container[0] == Listed("0", B, "NVIDIA A100-SXM4-80GB")
    assert verdict.framework.to_dict() == {
        "name": "torch",
        "state": "passed",
        "reason": None,
        "version": "2.11.0",
        "cuda": "13.0",
        "available": True,
        "count": 2,
        "uuids": [A, B],
        "error": None,
    }


def test_old_torch_tells_no_uuids() -> None:
    listing = pure.TOLD + json.dumps({**json.loads(torch()[len(pure.TOLD) :]), "devices": [["", "A"], ["", "A"]]})
    verdict = judged(output(smi(A, B), framework=listing), [A, B])
    assert (verdict.cause, verdict.framework.count, verdict.framework.uuids) == (None, 2, ())


def test_a_process_sees_one_mig_device() -> None:
    listing = MIG_HOST.replace(f"GPU 1: NVIDIA A100-SXM4-40GB (UUID: {B})\n", "")
    verdict = judged(output(listing, framework=torch(M1)), [M0, M1])
    assert (verdict.cause, verdict.framework.state, verdict.framework.uuids) == (None, "passed", (M1,))


@pytest.mark.parametrize(
    ("framework", "fw_status", "reason"),
    [
        (None, 0, "the framework was not asked"),
        ("sh: 12: python3: not found", 127, "no python3 in the image"),
        (torch(missing=True, error="ModuleNotFoundError: No module named 'torch'"), 0, "no torch in the image"),
    ],
)
def test_no_framework_is_not_checked(framework: str | None, fw_status: int, reason: str) -> None:
    verdict = judged(output(smi(A), framework=framework, fw_status=fw_status), [A])
    assert verdict.cause is None
    assert (verdict.framework.state, verdict.framework.reason) == ("not_checked", reason)


DIFFERS = "the launch names {0}, {1}; the container lists {2}; {3}"
DENIED = "docker: Error response from daemon: something new went wrong.\n"


@pytest.mark.parametrize(
    ("out", "status", "err", "cause", "stage", "evidence"),
    [
        # Docker did not start it.
        ("", 125, NO_DRIVER, "nvidia_container_toolkit_missing", "container", "could not select device driver"),
        ("", 125, HOOK, "driver_too_old_for_image", "container", "unsatisfied condition: cuda>=12.8"),
        ("", 125, NO_CDI, "docker_too_old_for_cdi", "container", "nvidia.com/gpu=0 is not an absolute path"),
        (
            "",
            125,
            DENIED,
            "unknown",
            "container",
            "exit status 125 | docker: Error response from daemon: something new",
        ),
        # It started, and nvidia-smi says why.
        (
            output("Failed to initialize NVML: Unknown Error\n", 255),
            0,
            "",
            "container_lost_gpu_cgroup",
            "container",
            "Failed to initialize NVML: Unknown Error",
        ),
        (
            output("sh: 3: nvidia-smi: not found\n", 127),
            0,
            "",
            "gpu_tools_not_in_container",
            "container",
            "nvidia-smi: not found",
        ),
        (output("a new sentence\n", 9), 0, "", "unknown", "container", "nvidia-smi -L: exit status 9 | a new sentence"),
        (
            "=== tandem environment\n=== tandem nvidia-smi\n",
            137,
            "",
            "unknown",
            "container",
            "exit status 137 at nvidia",
        ),
        # The sets differ.
        (output(smi(A)), 0, "", "gpu_set_differs", "container", DIFFERS.format(A, B, A, f"missing: {B}")),
        (
            output(smi(A, B, C), env="NVIDIA_VISIBLE_DEVICES=all"),
            0,
            "",
            "gpu_set_differs",
            "container",
            DIFFERS.format(A, B, f"{A}, {B}, {C}", f"not named: {C}; NVIDIA_VISIBLE_DEVICES=all"),
        ),
        (output(smi(A, C)), 0, "", "gpu_set_differs", "container", f"missing: {B}; not named: {C}"),
        # nvidia-smi is fine, the framework is not.
        (
            output(smi(A, B), framework=torch(error="RuntimeError: " + ERROR_802, available=False)),
            0,
            "",
            "fabric_manager_missing",
            "framework",
            "Error 802: system not yet initialized",
        ),
        (
            output(smi(A, B), framework=torch(error="AssertionError: Torch not compiled", available=False, cuda=None)),
            0,
            "",
            "framework_cannot_use_gpus",
            "framework",
            "AssertionError: Torch not compiled",
        ),
        (
            output(smi(A, B), framework=torch(available=False)),
            0,
            "",
            "framework_cannot_use_gpus",
            "framework",
            "torch 2.11.0 (CUDA 13.0) counts 0 of 2 GPUs, and cuda.is_available() is False",
        ),
        (
            output(smi(A, B), framework="Segmentation fault", fw_status=139),
            0,
            "",
            "framework_cannot_use_gpus",
            "framework",
            "exit status 139: Segmentation fault",
        ),
        (
            output(smi(A, B)).replace("=== tandem end", "=== tandem framework"),
            137,
            "",
            "framework_cannot_use_gpus",
            "framework",
            "the container ended with exit status 137 while torch was asked",
        ),
        (
            output(smi(A, B), framework=torch(A), env="CUDA_VISIBLE_DEVICES=0"),
            0,
            "",
            "framework_sees_fewer_gpus",
            "framework",
            "torch 2.11.0 (CUDA 13.0) counts 1 of 2 GPUs; CUDA_VISIBLE_DEVICES=0",
        ),
        (output(smi(A, B), framework=torch(A, C)), 0, "", "gpu_set_differs", "framework", f"torch sees {A}, {C}"),
    ],
)
def test_what_is_wrong(out: str, status: int, err: str, cause: str, stage: str, evidence: str) -> None:
    verdict = judged(out, [A, B], status, err)
    assert verdict.cause is not None
    assert (verdict.cause.id, verdict.cause.stage) == (cause, stage)
    assert evidence in verdict.cause.evidence
    assert verdict.cause.advice
    assert verdict.cause.next_command
    if stage == "framework":
        assert (verdict.framework.state, verdict.framework.reason) == ("failed", cause)
        assert [gpu.uuid for gpu in verdict.container] == [A, B]
    else:
        assert verdict.framework.state == "not_checked"


def test_a_warning_beside_the_right_gpus_is_no_failure() -> None:
    listing = smi(A) + "WARNING: infoROM is corrupted at gpu 0000:0B:00.0\n"
    assert judged(output(listing, 14), [A]).cause is None


@pytest.mark.parametrize(
    ("out", "stage", "evidence"),
    [
        ("", "container", "Docker had not started the container after 9 s"),
        (
            "=== tandem environment\n=== tandem nvidia-smi\n",
            "container",
            "nvidia-smi -L had not answered after 9 s. (no output)",
        ),
        (
            output(smi(A)).replace("=== tandem end", "=== tandem framework\nUserWarning: slow"),
            "framework",
            "torch had not answered after 9 s. UserWarning: slow",
        ),
    ],
)
def test_what_it_was_at_when_time_ran_out(out: str, stage: str, evidence: str) -> None:
    cause = pure.judge_timeout(pure.read(out), 9, "docker run …")
    assert (cause.id, cause.stage) == ("probe_timed_out", stage)
    assert cause.evidence.startswith(evidence)


@pytest.mark.parametrize(
    ("status", "text", "cause"),
    [
        (0, smi(A), None),
        # One GPU is lost; the others are listed.
        (15, smi(A) + "Unable to determine the device handle for GPU0000:0B:00.0: GPU is lost.", None),
        (
            18,
            "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.173",
            "driver_library_mismatch",
        ),
        (127, "timeout: failed to run command 'nvidia-smi': No such file or directory", "nvidia_smi_missing"),
        (5, "something new", "unknown"),
    ],
)
def test_the_host_first(status: int, text: str, cause: str | None) -> None:
    found = pure.judge_host(status, text)
    assert (found.id if found else None) == cause
    assert found is None or found.stage == "host"


def test_a_gpu_that_the_host_does_not_have() -> None:
    cause = pure.judge_named(["4"], pure.listed(smi(A, B)))
    assert (cause.id, cause.evidence) == ("gpu_not_on_host", f"named: 4; on the host: 0 ({A}), 1 ({B})")


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ("Error: No such image: x:1", "image_missing"),
        ("Error response from daemon: No such image: x:1", "image_missing"),
        (
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
            "docker_not_answering",
        ),
        ("timeout: failed to run command 'docker': No such file or directory", "docker_not_answering"),
    ],
)
def test_no_image(error: str, cause: str) -> None:
    found = pure.judge_image("x:1", error)
    assert (found.id, found.evidence) == (cause, error)


def test_an_image_that_docker_cannot_show() -> None:
    found = pure.judge_image("x:1", "Error response from daemon: layer does not exist")
    assert (found.id, found.next_command) == ("unknown", "docker image inspect x:1")


def test_what_is_left_is_told_beside_the_cause() -> None:
    cause = Cause("gpu_set_differs", "container", "line", "Do this.", "ls")
    both = pure.judge_left("probe-1", "device or resource busy", cause)
    assert both.id == "gpu_set_differs"
    assert both.advice.startswith("Do this. The container probe-1 may still be there: remove it with docker rm --force")
    alone = pure.judge_left("probe-1", "device or resource busy", None)
    assert (alone.id, alone.evidence) == ("probe_left_behind", "device or resource busy")


def test_message() -> None:
    cause = Cause(
        "driver_too_old_for_image", "container", "unsatisfied condition.", "Upgrade the driver.", "nvidia-smi"
    )
    assert pure.message("node-a", cause) == (
        "node-a: a container with the launch image and arguments cannot see its GPUs: driver_too_old_for_image:"
        " Upgrade the driver. Evidence: unsatisfied condition. Next: nvidia-smi"
    )
