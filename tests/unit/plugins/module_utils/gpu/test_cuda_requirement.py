# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.gpu.cuda_requirement import (
    DRIVER_OF_CUDA,
    Answer,
    Offer,
    brands_of,
    cuda_of,
    driver_for,
    effective,
    judge,
    parse,
    version_numbers,
)

WORKSTATION = ("unknown", "grid", "tesla", "nvidia", "quadro", "quadrortx", "nvidiartx", "vapps", "vpc", "vcs", "vws")


def image(cuda: str, branches: tuple[int, ...], brands: tuple[str, ...] = (*WORKSTATION, "cloudgaming")) -> str:
    """NVIDIA_REQUIRE_CUDA as NVIDIA's base images have it: every brand with every branch."""
    pairs = [f"brand={brand},driver>={n},driver<{n + 1}" for n in branches for brand in brands]
    return " ".join([f"cuda>={cuda}", *pairs])


# nvidia/cuda 12.8.1 and 13.0, and 12.0 with its other brands.
CUDA_12_8 = image("12.8", (470, 535, 550, 560, 565))
CUDA_13_0 = image("13.0", (535, 550, 565, 570, 575))
CUDA_12_0 = (
    "cuda>=12.0 brand=tesla,driver>=450,driver<451 "
    + image("12.0", (470, 510, 515, 520), ("tesla", "unknown", "nvidia", "geforce", "geforcertx")).partition(" ")[2]
)

A100, RTX_4090, A6000 = "NVIDIA A100-SXM4-80GB", "NVIDIA GeForce RTX 4090", "NVIDIA RTX A6000"
BESIDES = "; the driver branches that it allows besides are for GPUs of other brands"


@pytest.mark.parametrize(
    ("text", "cuda", "driver", "name", "answer"),
    [
        (CUDA_12_8, "13.0", "580.159.04", "NVIDIA H200", Answer(True, "cuda>=12.8")),
        (CUDA_12_8, "12.8", "570.133.20", RTX_4090, Answer(True, "cuda>=12.8")),
        # What the compatibility libraries in the image make possible, on the GPUs that they work on.
        (CUDA_12_8, "12.2", "535.183.06", A100, Answer(True, "brand=tesla,driver>=535,driver<536")),
        (CUDA_12_8, "12.4", "550.54.15", A6000, Answer(True, "brand=quadrortx,driver>=550,driver<551")),
        (CUDA_13_0, "12.8", "570.26", "NVIDIA B200", Answer(True, "brand=tesla,driver>=570,driver<571")),
        (CUDA_12_8, "12.4", "550.54.15", RTX_4090, Answer(False, "cuda>=12.8" + BESIDES, "570.26")),
        (CUDA_12_0, "11.7", "515.65.01", RTX_4090, Answer(True, "brand=geforce,driver>=515,driver<516")),
        # A branch that is not in the list.
        (
            CUDA_12_8,
            "12.3",
            "545.29.06",
            A100,
            Answer(False, "cuda>=12.8, or a driver of branch 470 or 535 or 550 or 560 or 565", "570.26"),
        ),
        # The upper bound of a branch is not in it.
        (
            "cuda>=12.8 brand=tesla,driver>=535,driver<536",
            "12.2",
            "536",
            A100,
            Answer(False, "cuda>=12.8, or a driver of branch 535", "570.26"),
        ),
        (
            "cuda>=12.8 brand=tesla,driver>=535,driver<536",
            "12.2",
            "535",
            A100,
            Answer(True, "brand=tesla,driver>=535,driver<536"),
        ),
        # As old messages write it.
        ("cuda >= 9.0", "8.0", "375.26", "Tesla P100-PCIE-16GB", Answer(False, "cuda>=9.0", "450.51.05")),
        ("cuda>=99.0", "13.0", "580.65.06", A100, Answer(False, "cuda>=99.0", None)),
        ("driver>=580 arch>=9.0", "12.8", "570.26", A100, Answer(None, "not known of this host: arch", None)),
        ("CUDA>=12.8", None, None, A100, Answer(None, "not known of this host: cuda", "570.26")),
        (
            "cuda>=13.0 brand=tesla,driver>=570,driver<571",
            "12.8",
            "570.26",
            "NVIDIA GB10",
            Answer(None, "not known of this host: brand", "580.65.06"),
        ),
        # An unknown brand cannot help where the branch is wrong.
        (
            "cuda>=13.0 brand=tesla,driver>=570,driver<571",
            "12.9",
            "575.51.03",
            "NVIDIA GB10",
            Answer(False, "cuda>=13.0" + BESIDES, "580.65.06"),
        ),
        ("brand=tesla", "12.8", "570.26", RTX_4090, Answer(False, "brand=tesla", None)),
        ("brand!=geforce,cuda>=12.0", "12.8", "570.26", RTX_4090, Answer(False, "brand!=geforce,cuda>=12.0", None)),
        ("", "12.8", "570.26", A100, Answer(True, "nothing is required")),
        (
            "cuda>=12.8 brand>tesla",
            "13.0",
            "580.65.06",
            A100,
            Answer(None, "the requirement cannot be read: 'brand>tesla': a brand has no order"),
        ),
        (
            "cuda>=twelve",
            "13.0",
            "580.65.06",
            A100,
            Answer(None, "the requirement cannot be read: 'cuda>=twelve': 'twelve' is no version"),
        ),
        (
            "rocm>=6.0",
            "13.0",
            "580.65.06",
            A100,
            Answer(None, "the requirement cannot be read: 'rocm>=6.0': known are only cuda, driver, brand, arch"),
        ),
        ("cuda", "13.0", "580.65.06", A100, Answer(None, "the requirement cannot be read: 'cuda' is no condition")),
    ],
)
def test_judge(text: str, cuda: str | None, driver: str | None, name: str, answer: Answer) -> None:
    assert judge(text, Offer(cuda, driver, brands_of(name))) == answer


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("driver>=580.95.05", True),
        ("driver>=580.95.6", False),
        ("driver<=580.95.5.0", True),
        ("driver=580.95.05", True),
        ("driver=580.95", False),
        ("driver!=580.95.05", False),
        ("driver!=580", True),
        ("driver>580.95", True),
        ("driver<580.100", True),
        ("driver<580", False),
        ("arch>=9.0", True),
        ("arch>=10.0", False),
    ],
)
def test_versions_compare_by_their_numbers(condition: str, holds: bool) -> None:
    assert judge(condition, Offer(driver="580.95.05", arch="9.0")).satisfied is holds


def test_parse() -> None:
    alternatives = parse("cuda>=12.8  Brand=Tesla,driver>=535,driver<536 ,")
    assert [list(map(str, a)) for a in alternatives] == [["cuda>=12.8"], ["brand=tesla", "driver>=535", "driver<536"]]


@pytest.mark.parametrize(
    ("requirement", "cuda_version", "text"),
    [
        ("cuda>=12.8", "12.9.1", "cuda>=12.8"),
        # The container toolkit takes it so.
        (None, "12.9.1", "cuda>=12.9"),
        (" ", "13.0", "cuda>=13.0"),
        (None, "", None),
        (None, None, None),
        (None, "unknown", None),
    ],
)
def test_effective_requirement(requirement: str | None, cuda_version: str | None, text: str | None) -> None:
    assert effective(requirement, cuda_version) == text


@pytest.mark.parametrize(
    ("brand", "names"),
    [
        (
            "tesla",
            "NVIDIA A100-SXM4-80GB|NVIDIA A100-PCIE-40GB|NVIDIA H100 80GB HBM3|NVIDIA H100 PCIe|NVIDIA H200|NVIDIA H20"
            "|NVIDIA L4|NVIDIA L40S|Tesla T4|Tesla V100-SXM2-32GB|NVIDIA A10|NVIDIA A10G|NVIDIA B200|NVIDIA GB200"
            "|NVIDIA GH200 480GB|NVIDIA A30|NVIDIA A2|Tesla P4|NVIDIA B300 SXM6 AC|NVIDIA GB300",
        ),
        ("geforce", "NVIDIA GeForce RTX 5090|GeForce GTX 1080 Ti"),
        ("nvidiartx", "NVIDIA RTX A6000|NVIDIA RTX 6000 Ada Generation|NVIDIA RTX PRO 6000 Blackwell|Quadro RTX 8000"),
        ("quadro", "Quadro P6000"),
        ("titan", "NVIDIA TITAN V|TITAN RTX"),
        ("vcs", "NVIDIA A100-40C|GRID V100D-8Q"),
        (None, "NVIDIA GB10|NVIDIA Thor|Orin (nvgpu)"),
    ],
)
def test_brands(brand: str | None, names: str) -> None:
    for name in names.split("|"):
        brands = brands_of(name)
        assert brands is None if brand is None else brand in (brands or ()), name
        assert ("geforce" in (brands or ())) is (brand == "geforce"), name
    assert brands_of(None) is None


@pytest.mark.parametrize(
    ("cuda", "driver"), [("12.8", "570.26"), ("12.7", "570.26"), ("12.9.1", "575.51.03"), ("99.0", None)]
)
def test_driver_for(cuda: str, driver: str | None) -> None:
    assert driver_for(cuda) == driver


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [("580.159.04", "13.0"), ("535.183.06", "12.2"), ("525.60.12", "11.8"), ("375.26", None), ("580.65.06", "13.0")],
)
def test_cuda_of(driver: str, cuda: str | None) -> None:
    assert cuda_of(driver) == cuda


def test_the_table_is_in_order() -> None:
    assert list(DRIVER_OF_CUDA) == sorted(DRIVER_OF_CUDA, key=lambda row: version_numbers(row[0]))
    assert list(DRIVER_OF_CUDA) == sorted(DRIVER_OF_CUDA, key=lambda row: version_numbers(row[1]))


@pytest.mark.parametrize(
    ("text", "numbers"), [("26.1.5+dfsg1", (26, 1, 5)), ("580.173-0ubuntu1", (580, 173)), ("unknown", ()), ("", ())]
)
def test_version_numbers(text: str, numbers: tuple[int, ...]) -> None:
    assert version_numbers(text) == numbers
