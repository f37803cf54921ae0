# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.gpu import driver_files

MACHINES = Path(__file__).parents[4] / "fixtures" / "gpu_hosts"


@pytest.mark.parametrize(
    ("text", "version", "flavour"),
    [
        ((MACHINES / "h200" / "version").read_text(), "580.159.04", "open"),
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  Tue Mar  5 22:42:15 UTC 2024\n",
            "535.161.08",
            "proprietary",
        ),
        (
            "[7.8] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.158.01  Release Build",
            "570.158.01",
            "open",
        ),
        ("", None, None),
    ],
)
def test_kernel_module(text: str, version: str | None, flavour: str | None) -> None:
    assert driver_files.kernel_module(text, True) == {"loaded": True, "version": version, "flavour": flavour}


@pytest.mark.parametrize(
    ("names", "version"),
    [
        (["/usr/lib/libnvidia-ml.so.1", "/usr/lib/libnvidia-ml.so.580.159.04"], "580.159.04"),
        (["libcuda.so.570.9", "libcuda.so.570.133.20", "libcuda.so"], "570.133.20"),
        (["libcuda.so.1", "libcudart.so.12.4.1"], None),
    ],
)
def test_library_version(names: list[str], version: str | None) -> None:
    assert driver_files.library_version(names) == version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVIDIA Container Toolkit CLI version 1.18.1\ncommit: efe99418\n", "1.18.1"),
        ("cli-version: 1.14.3\nlib-version: 1.14.3\n", "1.14.3"),
        ("", None),
    ],
)
def test_toolkit_version(text: str, version: str | None) -> None:
    assert driver_files.toolkit_version(text) == version


DPKG = """\
libnvidia-compute-580-server\t580.159.04-0ubuntu1\tinstall ok installed
libnvidia-container1\t1.18.1-1\tinstall ok installed
linux-modules-nvidia-580-server-generic\t6.8.0-90\thold ok installed
nvidia-container-toolkit\t1.18.1-1\tinstall ok installed
nvidia-driver-570\t570.1-0ubuntu1\tdeinstall ok config-files
nvidia-driver-580-server\t580.159.04-0ubuntu1\tinstall ok installed
nvidia-fabricmanager-580\t580.159.04-1\tinstall ok installed
python3\t3.12\tinstall ok installed
"""


def test_packages_of_apt() -> None:
    packages = driver_files.dpkg_packages(DPKG, "nvidia-driver-580-server\n")
    assert [(p["name"], p["version"], p["held"]) for p in packages] == [
        ("libnvidia-compute-580-server", "580.159.04-0ubuntu1", False),
        ("linux-modules-nvidia-580-server-generic", "6.8.0-90", True),
        ("nvidia-driver-580-server", "580.159.04-0ubuntu1", True),
        ("nvidia-fabricmanager-580", "580.159.04-1", False),
    ]
    assert driver_files.fabric_manager_version(packages) == "580.159.04"
    assert driver_files.fabric_manager_version(packages[:3]) is None


def test_packages_of_dnf() -> None:
    text = (
        "bash\t5.1-1\nkmod-nvidia-open-dkms\t580.1-1.el9\nnvidia-driver\t580.1-1.el9\nnvidia-driver-libs\t580.1-1.el9\n"
    )
    packages = driver_files.rpm_packages(text, "# Added locks\nnvidia-driver-3:580.1-1.el9.*\n")
    assert [(p["name"], p["held"]) for p in packages] == [
        ("kmod-nvidia-open-dkms", False),
        ("nvidia-driver", True),
        ("nvidia-driver-libs", False),
    ]


@pytest.mark.parametrize(
    ("text", "upgrades"),
    [
        ('APT::Periodic::Unattended-Upgrade "1";\n', True),
        ('APT::Periodic::Unattended-Upgrade "0";\n', False),
        ("", False),
    ],
)
def test_unattended_upgrades(text: str, upgrades: bool) -> None:
    assert driver_files.unattended(text) is upgrades
