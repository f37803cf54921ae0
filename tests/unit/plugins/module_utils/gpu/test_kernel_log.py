# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.gpu.kernel_log import parse

MACHINES = Path(__file__).parents[4] / "fixtures" / "gpu_hosts"


@pytest.mark.parametrize(
    ("line", "code", "bus_id"),
    [
        ("[1.5] NVRM: Xid (PCI:0000:3b:00): 79, pid=12, name=python3, GPU has fallen off the bus.", 79, "0000:3b:00"),
        ("Dec  6 17:49:03 host kernel: [ 8659.7] NVRM: Xid (PCI:0000:01:00): 31, Ch 0", 31, "0000:01:00"),
        ("[  983.540000] NVRM: Xid (0001:00): 6, PE0000 0438 ff7f6a59", 6, "0001:00"),
        ("kernel: NVRM: NVRM: Xid (PCI:0001:00:00.0): 48, pid='<unknown>'", 48, "0001:00:00.0"),
    ],
)
def test_xids_of_all_eras(line: str, code: int, bus_id: str) -> None:
    assert parse(line) == {"read": True, "xid": [{"code": code, "bus_id": bus_id, "line": line}], "faults": []}


FELL_OFF = """\
[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0
               NVRM: (PCI ID: 10de:26b5) installed in this system has
               NVRM: fallen off the bus and is not responding to commands.
[ 1843.439662] NVRM: The NVIDIA probe routine failed for 1 device(s).
[ 1843.439669] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.158.01  Release Build
"""
MISMATCH = """\
Apr 16 12:24:14 host kernel: NVRM: API mismatch: the client has the version 440.82, but
                             NVRM: this kernel module has the version 440.64.  Please
                             NVRM: make sure that this kernel module and all NVIDIA driver
                             NVRM: components have the same version.
"""


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        (
            FELL_OFF,
            [
                "[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0 (PCI ID: 10de:26b5) installed in this system has "
                "fallen off the bus and is not responding to commands.",
                "[ 1843.439662] NVRM: The NVIDIA probe routine failed for 1 device(s).",
            ],
        ),
        (
            MISMATCH,
            [
                "Apr 16 12:24:14 host kernel: NVRM: API mismatch: the client has the version 440.82, but this kernel "
                "module has the version 440.64.  Please make sure that this kernel module and all NVIDIA driver "
                "components have the same version."
            ],
        ),
        # Each line with its own time stamp, as the journal has it, and another's line after a cut.
        (
            "[1.0] NVRM: API mismatch: the client has the version 1.2, but\n[1.1] usb 1-1: new device\n",
            ["[1.0] NVRM: API mismatch: the client has the version 1.2, but"],
        ),
        (
            "NVRM: ... requires use of the NVIDIA open kernel modules",
            ["NVRM: ... requires use of the NVIDIA open kernel modules"],
        ),
        (
            "[9.1] NVRM: RmInitAdapter failed! (0x62:0x40:2028)\n"
            "[9.2] NVRM: rm_init_adapter failed, device minor number 0",
            [
                "[9.1] NVRM: RmInitAdapter failed! (0x62:0x40:2028)",
                "[9.2] NVRM: rm_init_adapter failed, device minor number 0",
            ],
        ),
        (
            "[9.1] nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32",
            ["[9.1] nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32"],
        ),
        ("[9.1] usb 1-1: device has fallen off the bus", []),
        ((MACHINES / "h200" / "kernel.txt").read_text(), []),
        ((MACHINES / "h100x8" / "kernel.txt").read_text(), []),
        ("", []),
    ],
)
def test_faults_without_an_xid(text: str, faults: list[str]) -> None:
    assert parse(text) == {"read": True, "xid": [], "faults": faults}


def test_a_gpu_that_fell_off_with_an_xid() -> None:
    found: dict[str, Any] = parse((MACHINES / "a100x4_lost" / "kernel.txt").read_text())
    assert [(xid["code"], xid["bus_id"]) for xid in found["xid"]] == [(79, "0000:46:00"), (154, "0000:46:00")]
    assert found["faults"] == ["[91265.118216] NVRM: GPU 0000:46:00.0: GPU has fallen off the bus."]


def test_a_log_that_could_not_be_read() -> None:
    assert parse(None) == {"read": False, "xid": [], "faults": []}
