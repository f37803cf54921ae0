# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.smi.topology import parse

FIXTURES = Path(__file__).parents[4] / "fixtures"


def fixture(name: str) -> str:
    return (FIXTURES / name).read_text()


def test_one_gpu_with_escapes() -> None:
    text = fixture("gpu_hosts/h200/topology.txt")
    assert "\x1b[4m" in text
    assert parse(text) == {"links": {"GPU0": {}}, "nics": {}, "gpu_link": None}


def test_nvlink_to_each_and_adapters() -> None:
    found = parse(fixture("gpu_hosts/h100x8/topology.txt"))
    assert found["gpu_link"] == "nvlink"
    assert {name for name in found["links"] if name.startswith("GPU")} == {f"GPU{n}" for n in range(8)}
    assert found["links"]["GPU0"]["GPU7"] == "NV18"
    assert all(name in found["links"]["GPU0"] for name in found["nics"])


def test_adapters_named_in_the_matrix_and_links_of_two_kinds() -> None:
    found = parse(fixture("smi/topology_mixed.txt"))
    assert found["gpu_link"] == "mixed"
    assert found["links"]["GPU0"] == {
        "GPU1": "NV3",
        "GPU2": "SYS",
        "GPU3": "SYS",
        "mlx5_0": "NODE",
        "mlx5_1": "NODE",
        "mlx5_2": "SYS",
    }
    assert found["links"]["mlx5_2"] == {
        "GPU0": "SYS",
        "GPU1": "SYS",
        "GPU2": "NODE",
        "GPU3": "NODE",
        "mlx5_0": "SYS",
        "mlx5_1": "SYS",
    }
    assert found["nics"] == {"mlx5_0": "mlx5_0", "mlx5_1": "mlx5_1", "mlx5_2": "mlx5_2"}


PCIE = """\
# nvidia-smi topo -m
#       GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID
# GPU0     X    PHB     SYS     0-15    0               N/A
# GPU1    PHB      X    SYS     0-15    0               N/A
# NIC0    SYS     SYS      X
#
# NIC Legend:
#
"""


def test_pcie_with_blanks_and_a_prefix() -> None:
    found = parse(PCIE + "  NIC0: mlx5_bond_0\n")
    assert found == {
        "links": {
            "GPU0": {"GPU1": "PHB", "NIC0": "SYS"},
            "GPU1": {"GPU0": "PHB", "NIC0": "SYS"},
            "NIC0": {"GPU0": "SYS", "GPU1": "SYS"},
        },
        "nics": {"NIC0": "mlx5_bond_0"},
        "gpu_link": "pcie",
    }


@pytest.mark.parametrize("text", ["", "Failed to initialize NVML: Unknown Error", "GPU 0: NVIDIA A10 (UUID: GPU-1)"])
def test_no_matrix(text: str) -> None:
    assert parse(text) == {"links": {}, "nics": {}, "gpu_link": None}
