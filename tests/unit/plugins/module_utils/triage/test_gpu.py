# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.triage.engine import triage
from ansible_collections.tandem.vllm.tests.unit.plugins.module_utils.triage.samples import by_name, causes

BY_NAME = by_name("gpu")


@pytest.mark.parametrize(
    ("cause", "name", "details"),
    [
        (
            "kernel_module_not_loaded",
            "modprobe, kernel without the module",
            {"kernel": "6.8.0-87-generic"},
        ),
        ("driver_library_mismatch", "nvidia-smi, two-part version (gpu-docker-11)", {"nvml_library": "580.173"}),
        (
            "driver_library_mismatch",
            "with the kernel's version beside it",
            {"nvml_library": "580.178", "kernel_module": "580.173.02"},
        ),
        ("driver_library_mismatch", "kernel log", {"client": "470.129.06", "kernel_module": "470.103.01"}),
        ("driver_library_mismatch", "kernel log, new", {"client": "595.84", "kernel_module": "595.71.05"}),
        ("driver_too_old_for_image", "nested escapes (gpu-docker-08)", {"required": "cuda>=9.0"}),
        (
            "driver_too_old_for_image",
            "with a Windows table (gpu-docker-19)",
            {"required": "cuda>=12.8", "driver": "551.78", "cuda": "12.4", "driver_wanted": "570.26"},
        ),
        ("driver_too_old_for_image", "only an alternative is named", {"required": "cuda>=10.0"}),
        ("driver_too_old_for_image", "the driver's branch is named", {"required": "driver<385"}),
        ("driver_too_old_for_image", "Go's JSON log", {"required": "cuda>=12.9", "driver_wanted": "575.51.03"}),
        ("driver_too_old_for_image", "wrapped by a terminal", {"required": "cuda>=12.8", "driver_wanted": "570.26"}),
        ("driver_too_old_for_image", "PyTorch", {"cuda": "11.4"}),
        ("driver_too_old_for_image", "NVIDIA's own image", {"driver": "430.26"}),
        (
            "driver_too_old_for_image",
            "before the start: image and driver beside each other",
            {"required": "cuda>=12.8", "driver": "535.161.08", "cuda": "12.2", "driver_wanted": "570.26"},
        ),
        (
            "fabric_manager_missing",
            "version of the driver and of the manager",
            {"driver": "550.120", "fabric_manager": "550.127.05"},
        ),
        (
            "gpu_fell_off_bus",
            "three spellings of nvidia-smi (gpu-docker-14)",
            {"bus_ids": ["0000:0B:00.0", "0000:07:00.0", "0000:02:00.0"]},
        ),
        (
            "gpu_fell_off_bus",
            "kernel log without Xid (gpu-docker-15)",
            {"bus_ids": ["0000:b3:00.0"], "driver": "570.158.01"},
        ),
        ("gpu_fell_off_bus", "Xid 79", {"bus_ids": ["0000:44:00"]}),
        ("gpu_fell_off_bus", "kernel log, the GPU named in four lines", {"bus_ids": ["0000:81:00.0"]}),
        ("gpu_fell_off_bus", "nvidia-smi with the index", {"bus_ids": ["0000:CA:00.0"]}),
        ("gpu_fell_off_bus", "lspci", {"bus_ids": ["0a:00.0"]}),
        ("gpu_requires_reset", "GSP timeout", {"bus_ids": ["0000:4f:00"], "xid": [119]}),
        (
            "gpu_memory_in_use",
            "vLLM 0.16, prefixed, with the device, and the holders",
            {
                "free_gib": 3.77,
                "total_gib": 22.05,
                "wanted_gib": 19.84,
                "gpu_memory_utilization": 0.9,
                "holders": ["240187 C VLLM::EngineCore 18114MiB"],
            },
        ),
        ("gpu_memory_in_use", "out of memory, held by another process", {"holder_pids": [2684311]}),
        (
            "nvidia_container_toolkit_missing",
            "compose names the driver (gpu-docker-03)",
            {"engine": "docker", "driver_name": "nvidia", "capabilities": ["[[gpu]]", "[[compute utility]]"]},
        ),
        (
            "nvidia_container_toolkit_missing",
            "runtime by path",
            {"missing": ["/usr/bin/nvidia-container-runtime"]},
        ),
        (
            "docker_daemon_without_nvidia_runtime",
            "with docker info",
            {"engine": "docker", "runtimes": "io.containerd.runc.v2 runc"},
        ),
        (
            "cdi_spec_missing",
            "docker is podman (gpu-docker-06)",
            {"engine": "podman", "devices": ["nvidia.com/gpu=all"]},
        ),
        (
            "cdi_spec_missing",
            "specification of the driver before, crun",
            {"stale_library": "/lib64/libEGL_nvidia.so.550.54.14"},
        ),
        (
            "cdi_spec_generation_failed",
            "wrapped, vendor runtime.nvidia.com (gpu-docker-05)",
            {"engine": "docker", "devices": ["runtime.nvidia.com/gpu=all"]},
        ),
        ("container_lost_gpu_cgroup", "container and host (gpu-docker-09)", {"host_gpus": 4}),
        (
            "cuda_visible_devices_mig_uuid",
            "name of drivers before 470",
            {"uuids": ["MIG-GPU-52a3a85d-3c55-ca3a-a955-82c69ed360fc/7/0"]},
        ),
    ],
)
def test_details(cause: str, name: str, details: dict[str, Any]) -> None:
    assert triage(BY_NAME[cause, name])[0].details == details


@pytest.mark.parametrize(
    ("cause", "name", "evidence"),
    [
        (
            "driver_too_old_for_image",
            "nested escapes (gpu-docker-08)",
            "nvidia-container-cli: requirement error: unsatisfied condition: cuda >= 9.0",
        ),
        (
            "gpu_fell_off_bus",
            "kernel log without Xid (gpu-docker-15)",
            "NVRM: fallen off the bus and is not responding to commands.",
        ),
        (
            "gpu_memory_in_use",
            "wrapped within a word, prefixed on each line",
            "chat-1  | (EngineCore_DP0 pid=40) ValueError: Free memory on dev\n"
            "chat-1  | ice (3.77/22.05 GiB) on startup is less than desired GPU memory utilization (0.9, 19.84 GiB).",
        ),
        (
            "nvidia_container_toolkit_missing",
            "docker run --gpus all",
            'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
        ),
        (
            "cuda_visible_devices_uuid",
            "quoted by JSON",
            '{"log":"ValueError: invalid literal for int() with base 10: \'GPU-52a3a85d-3c55-ca3a-a955-82c69ed360fc\'',
        ),
    ],
)
def test_evidence(cause: str, name: str, evidence: str) -> None:
    assert triage(BY_NAME[cause, name])[0].evidence == evidence


@pytest.mark.parametrize(
    ("cause", "name", "ids"),
    [
        # The kernel's reason comes before what nvidia-smi and the loader say because of it.
        ("driver_needs_open_kernel_module", "command and kernel line (gpu-docker-13)", []),
        (
            "driver_needs_open_kernel_module",
            "journal, the sentence broken at other places",
            ["kernel_module_not_loaded"],
        ),
        ("driver_library_mismatch", "CDI names what the mismatch caused", ["cdi_spec_generation_failed"]),
        ("driver_library_mismatch", "CUDA error 803, versions differ", ["cuda_compat_library_conflict"]),
        ("gpu_fell_off_bus", "Xid 79", ["gpu_requires_reset"]),
        ("gpu_fell_off_bus", "nvidia-smi with the index", []),
        ("gpu_requires_reset", "handle", []),
    ],
)
def test_consequences_come_after_their_root(cause: str, name: str, ids: list[str]) -> None:
    assert [found.id for found in triage(BY_NAME[cause, name])] == [cause, *ids]


@pytest.mark.parametrize(
    ("texts", "ids"),
    [
        # Whatever stands first in the text: the cause stands first in the answer.
        (
            [("cdi_spec_generation_failed", "one GPU"), ("gpu_fell_off_bus", "Xid 79, old")],
            ["gpu_fell_off_bus", "cdi_spec_generation_failed"],
        ),
        (
            [
                ("cdi_spec_missing", "docker"),
                ("cdi_spec_generation_failed", "refresh at boot"),
                ("kernel_module_not_loaded", "proc"),
            ],
            ["kernel_module_not_loaded", "cdi_spec_generation_failed", "cdi_spec_missing"],
        ),
        (
            [
                ("docker_daemon_without_nvidia_runtime", "Docker before 23"),
                ("nvidia_container_toolkit_missing", "the configuration tool"),
            ],
            ["nvidia_container_toolkit_missing", "docker_daemon_without_nvidia_runtime"],
        ),
        (
            [("container_lost_gpu_cgroup", "alone"), ("driver_library_mismatch", "kernel log")],
            ["driver_library_mismatch", "container_lost_gpu_cgroup"],
        ),
        (
            [
                ("driver_too_old_for_image", "CUDA error 804 (logs-39)"),
                ("driver_library_mismatch", "container toolkit"),
            ],
            ["driver_library_mismatch", "driver_too_old_for_image"],
        ),
        (
            [("gpu_memory_in_use", "busy"), ("gpu_requires_reset", "Xid 154")],
            ["gpu_requires_reset", "gpu_memory_in_use"],
        ),
        # What is only guessed is no root, and not told beside what is known.
        (
            [("driver_needs_open_kernel_module", "alone"), ("kernel_module_not_loaded", "nvidia-smi")],
            ["kernel_module_not_loaded"],
        ),
    ],
)
def test_several_causes(texts: list[tuple[str, str]], ids: list[str]) -> None:
    parts = [BY_NAME[key] for key in texts]
    for text in ("\n".join(parts), "\n".join(reversed(parts))):
        assert [cause.id for cause in triage(text)] == ids


HIGH_803 = BY_NAME["cuda_compat_library_conflict", "alone (logs-38)"]
HIGH_804 = BY_NAME["driver_too_old_for_image", "CUDA error 804 (logs-39)"]


@pytest.mark.parametrize(
    ("text", "versions", "found"),
    [
        (HIGH_803, {}, ("cuda_compat_library_conflict", "medium")),
        (HIGH_803, {"vllm": "0.15.1"}, ("cuda_compat_library_conflict", "high")),
        (HIGH_803, {"vllm": "0.9.2"}, ("cuda_compat_library_conflict", "medium")),
        (HIGH_804, {"cuda": "12.2"}, ("driver_too_old_for_image", "high")),
        ("NVIDIA_REQUIRE_CUDA=cuda>=12.4\n" + HIGH_804, {"cuda": "12.2"}, ("driver_too_old_for_image", "high")),
        ("NVIDIA_REQUIRE_CUDA=cuda>=12.4\n" + HIGH_804, {"cuda": "13.0"}, ("cuda_compat_library_conflict", "high")),
        ("NVIDIA_REQUIRE_CUDA=cuda>=12.4", {"cuda": "12.2"}, ("driver_too_old_for_image", "medium")),
    ],
)
def test_versions_decide(text: str, versions: dict[str, str], found: tuple[str, str]) -> None:
    assert causes(text, **versions)[0] == found
