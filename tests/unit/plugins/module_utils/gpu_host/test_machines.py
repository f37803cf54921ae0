# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tools say on each machine of tests/fixtures/gpu_hosts, read and judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.gpu.facts import Source, gather
from ansible_collections.tandem.vllm.plugins.module_utils.gpu_host import judge as gpu_host
from ansible_collections.tandem.vllm.plugins.module_utils.placement import Model, Node, Placement, Replica, Service

MACHINES = next(parent for parent in Path(__file__).parents if parent.name == "tests") / "fixtures" / "gpu_hosts"
# About Docker, packages and the rest of the host, which these folders do not tell.
ELSEWHERE = gpu_host.IDS[gpu_host.IDS.index("docker") :]


def read(machine: str) -> dict[str, Any]:
    """gpu_info's result on a machine."""

    def text(name: str) -> str:
        path = MACHINES / machine / name
        return path.read_text() if path.exists() else ""

    fabric = {"LoadState": "loaded", "ActiveState": "active"}
    return gather(
        Source(
            smi=text("smi.txt") if text("exit") else text("query.xml"),
            kernel_version=text("version"),
            kernel_log=text("kernel.txt"),
            library_version=text("library").strip() or None,
            pci_gpus=[line.split()[0] for line in text("pci").splitlines()],
            nvswitch=bool(text("nvswitch")),
            fabric_unit=fabric if text("nvswitch") else {"LoadState": "not-found", "ActiveState": "inactive"},
            live=True,
        )
    )


@pytest.mark.parametrize(
    ("machine", "node", "failed", "words"),
    [
        ("a100x4", Node("10.0.0.1", ("0", "1", "2", "3"), "A100", 80), [], ""),
        ("h100x8", Node("10.0.0.1", tuple(map(str, range(8))), "H100", 80), [], ""),
        ("gb10", Node("10.0.0.1", ("0",), "GB10", 128), [], ""),
        (
            "h200",
            Node("10.0.0.1", ("0",), "H200", 141),
            ["gpu_memory_in_use"],
            "held by pid 429 python3 with 3682 MiB",
        ),
        (
            "a100x4_held",
            Node("10.0.0.1", ("0", "1", "2", "3"), "A100", 80),
            ["gpu_memory_in_use"],
            "41421 MiB on GPU 2",
        ),
        # The three others are as they should be.
        ("a100x4_held", Node("10.0.0.1", ("0", "1", "3"), "A100", 80), [], ""),
        (
            "a100x4_lost",
            Node("10.0.0.1", ("0", "1", "2", "3"), "A100", 80),
            ["gpu_on_bus"],
            "no answer from 0000:46:00 (",
        ),
        (
            "a100x4_lost_handle",
            Node("10.0.0.1", ("0", "1", "2", "3"), "A100", 80),
            ["gpu_on_bus"],
            "no answer from 0000:46:00 (",
        ),
        ("a100x4_mig", Node("10.0.0.1", ("0", "1", "2", "3"), "A100", 80), ["mig"], "on for GPU 0:"),
        (
            "a100x4_mismatch",
            Node("10.0.0.1", ("0", "1", "2", "3"), "A100", 80),
            ["driver_matches_library"],
            "NVIDIA user-space library = 580.173.02 (Failed to initialize NVML: Driver/library version mismatch): "
            "must be 580.159.04",
        ),
        ("a100x4_unloaded", Node("10.0.0.1", ("0", "1", "2", "3"), "A100", 80), ["driver_loaded"], "= not loaded: "),
    ],
)
def test_machine(machine: str, node: Node, failed: list[str], words: str) -> None:
    service = Service("chat", Model("/models/big", "big"), (Replica("chat-gpu1", ("gpu1",), gpus=node.gpus),))
    image = {"found": True, "source": "docker", "cuda_requirement": "cuda>=12.8"}
    host = gpu_host.host_of(
        Placement("site", {"gpu1": node}, (service,)), "gpu1", {"gpus": read(machine), "image": image}
    )
    checks = [check for check in gpu_host.judge(host) if check.id not in ELSEWHERE]
    wrong = [check for check in checks if check.state == "failed"]
    assert [check.id for check in wrong] == failed
    assert words in "".join(check.message for check in wrong)
    if not failed:
        assert [c.id for c in checks if c.state == "not_checked"] == (["gpu_memory"] if machine == "gb10" else [])
