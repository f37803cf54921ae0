# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.smi import text as smi_text
from ansible_collections.tandem.vllm.plugins.module_utils.smi.values import Reading

FIXTURES = Path(__file__).parents[4] / "fixtures"
TABLES = FIXTURES / "smi"
MACHINES = FIXTURES / "gpu_hosts"
TABLE_BORDER = "+-------------------------------+----------------------+----------------------+\n"


def fixture(name: str) -> str:
    return (TABLES / name).read_text()


def machine(name: str) -> str:
    return (MACHINES / name).read_text()


def told(reading: Reading, *names: str) -> list[Any]:
    """Some facts of each GPU; just the fact when it is one."""
    return [gpu[names[0]] if len(names) == 1 else tuple(gpu[name] for name in names) for gpu in reading.gpus]


NAMES = (
    "index", "name", "memory_used_mib", "memory_total_mib", "fan", "temp_c", "perf", "power_w", "power_limit_w",
    "util_pct", "status",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "driver", "cuda", "gpus"),
    [
        ("384_k80.txt", "384.111", None, [(0, "Tesla K80", 0, 11439, None, 31, "P0", 62.0, 149.0, 100, "ok")]),
        (
            "430_geforce.txt",
            "430.40",
            "10.1",
            [(0, "GeForce GTX 1070", 8040, 8111, "ERR!", 43, "P8", 9.0, 250.0, 0, "ok")],
        ),
        (
            "450_mig_change_pending.txt",
            None,
            None,
            [
                (6, "A100-SXM4-40GB", 0, 40537, None, 32, "P0", 55.0, 400.0, 0, "ok"),
                (7, "A100-SXM4-40GB", 0, 40537, None, 34, "P0", 69.0, 400.0, None, "ok"),
            ],
        ),
        (
            "525_a40_one_broken.txt",
            "525.60.13",
            "12.0",
            [
                (3, "NVIDIA A40", 0, 46068, 0, 30, "P8", 14.0, 300.0, 0, "ok"),
                (4, None, 0, 46068, "ERR!", None, None, None, None, None, "error"),
            ],
        ),
        (
            "531_wddm.txt",
            "531.18",
            "12.1",
            [
                (0, "NVIDIA GeForce RTX 4070 Ti", 1481, 12282, 0, 44, "P8", 16.0, 285.0, 2, "ok"),
                (1, "NVIDIA GeForce RTX 3050 4...", 0, 4096, None, 40, "P0", 8.0, None, 0, "ok"),
            ],
        ),
        (
            "570_a100_mig.txt",
            "570.148.08",
            "12.8",
            [(0, "NVIDIA A100 80GB PCIe", 249, 81920, None, 54, "P0", 90.0, 300.0, None, "ok")],
        ),
        (
            "570_gh200.txt",
            "570.133.20",
            "12.8",
            [(0, "NVIDIA GH200 480GB", 48427, 97871, None, 33, "P0", 95.0, 900.0, 0, "ok")],
        ),
        ("580_gb10.txt", "580.95.05", "13.0", [(0, "NVIDIA GB10", None, None, None, 45, "P0", 11.0, None, 10, "ok")]),
        (
            "580_h200_idle.txt",
            "580.159.04",
            "13.0",
            [(0, "NVIDIA H200", 0, 143771, None, 40, "P0", 100.0, 700.0, 0, "ok")],
        ),
        # This driver has other words in the header.
        (
            "610_geforce.txt",
            "610.57.04",
            "13.3",
            [(0, "NVIDIA GeForce GTX 1650", 580, 4096, 0, 51, "P0", None, 75.0, 39, "ok")],
        ),
    ],
)
def test_tables_of_all_eras(name: str, driver: str | None, cuda: str | None, gpus: list[Any]) -> None:
    reading = smi_text.parse(fixture(name))
    assert (reading.driver, reading.cuda) == (driver, cuda)
    assert told(reading, *NAMES) == gpus


def test_faults_of_a_broken_gpu() -> None:
    reading = smi_text.parse(fixture("525_a40_one_broken.txt"))
    assert told(reading, "faults") == [
        [],
        ["name", "ecc", "fan", "temperature", "performance", "power", "utilization", "mig"],
    ]


def test_the_mode_in_force_while_another_is_pending() -> None:
    reading = smi_text.parse(fixture("450_mig_change_pending.txt"))
    assert told(reading, "mig_mode", "faults", "ecc_mode") == [
        ("disabled", [], "enabled"),
        ("enabled", ["mig change pending"], "enabled"),
    ]


def test_mig_devices_of_a_table() -> None:
    [gpu] = smi_text.parse(fixture("570_a100_mig.txt")).gpus
    found = [
        (d["index"], d["gpu_instance_id"], d["memory_total_mib"], d["memory_used_mib"]) for d in gpu["mig_devices"]
    ]
    assert (gpu["mig_mode"], found) == ("enabled", [(0, 1, 40192, 107), (1, 5, 19968, 71)])


def test_mig_devices_of_the_list() -> None:
    [gpu] = smi_text.parse(fixture("list_mig.txt")).gpus
    assert (gpu["uuid"], gpu["mig_mode"]) == ("GPU-6983d37f-1b4d-0f55-a108-dde0e8b47d14", "enabled")
    assert [(d["index"], d["profile"], d["uuid"]) for d in gpu["mig_devices"]] == [
        (0, "3g.48gb", "MIG-51fa7c7a-4c41-59bf-b08a-9cb4b47525a7"),
        (1, "2g.24gb", "MIG-27b1a30b-e164-5ba8-9904-9d949f65d8e4"),
        (2, "1g.24gb", "MIG-6c80966f-629d-5379-803b-55424fc1a0bc"),
    ]


def test_unified_memory_is_no_fault() -> None:
    assert told(smi_text.parse(fixture("580_gb10.txt")), "memory_unified", "faults") == [(True, [])]
    assert told(smi_text.parse(fixture("570_gh200.txt")), "memory_unified") == [False]


@pytest.mark.parametrize(
    ("name", "processes"),
    [
        (
            "430_geforce.txt",
            [
                (0, 1164, "G", "/usr/lib/xorg/Xorg", 49),
                (0, 4242, "C", "...anaconda3/envs/pytorch110/bin/python3.5", 7979),
            ],
        ),
        ("525_a40_one_broken.txt", [(2, 2111354, "C", "...eratornet/venv/bin/python", 818)]),
        ("531_wddm.txt", [(0, 1234, "C+G", "C:\\Windows\\System32\\dwm.exe", None)]),
        (
            "580_gb10.txt",
            [(0, 4174, "G", "/usr/lib/xorg/Xorg", 84), (0, 4399, "G", "/usr/bin/gnome-shell", 125)],
        ),
        ("384_k80.txt", []),
    ],
)
def test_processes_of_a_table(name: str, processes: list[Any]) -> None:
    found = smi_text.parse(fixture(name)).processes
    assert [(p["gpu_index"], p["pid"], p["type"], p["name"], p["memory_mib"]) for p in found] == processes


def test_windows() -> None:
    reading = smi_text.parse(fixture("531_wddm.txt"))
    assert (reading.driver_model, told(reading, "persistence")) == ("WDDM", [None, None])


GLUED = """\
|   0  NVIDIA GeForce ...  On   | 00000000:01:00.0 Off |                  Off |
|ERR!   59C    P0    66W / 480W |    120MiB / 24564MiB |      0%      Default |
|                               |                      |                  N/A |
"""
BARE_GB10 = """\
|   0  NVIDIA GB10   On | 0000000F:01:00.0 N/A |    N/A |
|ERR!  35C  P8   N/A / N/A | Not Supported | N/A  Default |
|                                          |       ERR! |

Pending : GPU requires reset
"""


@pytest.mark.parametrize(
    "prefix",
    ["", "    ", "> ", "# ", "node1: ", "vllm-1  | ", "Dec 01 10:00:00 node1 check[77]: ", "(container) $ nvidia-smi "],
)
def test_rows_behind_any_prefix(prefix: str) -> None:
    text = "".join(prefix + line for line in GLUED.splitlines(keepends=True))
    reading = smi_text.parse(text)
    assert told(reading, *NAMES) == [(0, "NVIDIA GeForce ...", 120, 24564, "ERR!", 59, "P0", 66.0, 480.0, 0, "ok")]
    assert told(reading, "faults", "ecc_mode", "persistence", "bus_id") == [
        (["fan"], "disabled", True, "00000000:01:00.0")
    ]


def test_a_table_in_colours_and_with_other_line_ends() -> None:
    reading = smi_text.parse("\x1b[1m" + GLUED.replace("\n", "\x1b[0m\r\n"))
    assert told(reading, "name", "temp_c") == [("NVIDIA GeForce ...", 59)]


def test_reset_pending_below_a_table() -> None:
    reading = smi_text.parse(BARE_GB10)
    assert told(reading, "name", "fan", "memory_total_mib", "memory_unified", "status", "faults") == [
        ("NVIDIA GB10", "ERR!", None, True, "requires_reset", ["fan", "mig", "reset pending"])
    ]


def test_without_the_words_it_is_an_error() -> None:
    assert told(smi_text.parse(BARE_GB10.partition("\n\n")[0]), "status") == ["error"]


def test_a_pending_reset_is_of_the_gpu_with_the_faults() -> None:
    healthy = "|   1  NVIDIA A10   On | 00000000:02:00.0 Off |    0 |\n"
    healthy += "| 0%  35C  P8   9W / 150W | 4MiB / 9MiB | 0% Default |\n"
    before, _blank, after = BARE_GB10.partition("\n\n")
    reading = smi_text.parse(before + "\n" + healthy + "\n" + after)
    assert told(reading, "index", "status") == [(0, "requires_reset"), (1, "ok")]


def test_a_piece_that_begins_with_a_second_row() -> None:
    reading = smi_text.parse(GLUED.partition("\n")[2] + TABLE_BORDER + GLUED)
    assert told(reading, "index", "temp_c", "status") == [(None, 59, "ok"), (0, 59, "ok")]


@pytest.mark.parametrize("name", ["query.xml", "query.txt"])
def test_the_long_output_as_xml_and_as_text(name: str) -> None:
    reading = smi_text.parse(machine("h200/" + name))
    [gpu] = reading.gpus
    # The two were captured one after the other.
    assert gpu.pop("power_w") == {"query.xml": 111.42, "query.txt": 115.78}[name]
    assert gpu == {
        "index": 0,
        "uuid": "GPU-be1950b0-2e67-2b05-72e7-483243006410",
        "bus_id": "00000000:00:06.0",
        "name": "NVIDIA H200",
        "memory_total_mib": 143771,
        "memory_used_mib": 3691,
        "memory_unified": False,
        "ecc_mode": "enabled",
        "ecc_corrected": 0,
        "ecc_uncorrected": 0,
        "remap_pending": False,
        "mig_mode": "disabled",
        "mig_devices": [],
        "compute_mode": "Default",
        "persistence": True,
        "perf": "P0",
        "fan": None,
        "temp_c": 41,
        "power_limit_w": 700.0,
        "util_pct": 0,
        "fabric_state": None,
        "fabric_status": None,
        "status": "ok",
        "faults": [],
    }
    assert reading.processes == [
        {
            "gpu_index": 0,
            "gpu_uuid": "GPU-be1950b0-2e67-2b05-72e7-483243006410",
            "pid": 429,
            "type": "C",
            "name": "python3",
            "memory_mib": 3682,
            "container": None,
            "environment": None,
        }
    ]
    assert (reading.driver, reading.cuda, reading.errors) == ("580.159.04", "13.0", [])


@pytest.mark.parametrize(
    ("old", "new", "status", "faults"),
    [
        ("<fan_speed>N/A", "<fan_speed>Unknown Error", "ok", ["fan"]),
        ("<gpu_temp>41 C", "<gpu_temp>Unknown Error", "error", ["temperature"]),
        ("<tx_util>848 KB/s", "<tx_util>Unknown Error", "error", ["pci/tx_util"]),
        ("<gpu_temp>41 C", "<gpu_temp>GPU is lost", "lost", ["temperature"]),
        ("<gpu_temp>41 C", "<gpu_temp>GPU requires reset", "requires_reset", ["reset pending"]),
        ("<gpu_recovery_action>None", "<gpu_recovery_action>Reset", "requires_reset", ["recovery action: Reset"]),
        ("<pending_mig>Disabled", "<pending_mig>Enabled", "ok", ["mig change pending"]),
    ],
)
def test_faults_in_xml(old: str, new: str, status: str, faults: list[str]) -> None:
    text = machine("h200/query.xml")
    assert old in text
    assert told(smi_text.parse(text.replace(old, new)), "status", "faults") == [(status, faults)]


def test_errors_of_the_memory_are_counted() -> None:
    text = machine("h200/query.xml")
    text = text.replace("<dram_correctable>0", "<dram_correctable>7", 1)
    text = text.replace("<dram_uncorrectable>0", "<dram_uncorrectable>1", 1)
    text = text.replace("<sram_uncorrectable_parity>0", "<sram_uncorrectable_parity>2", 1)
    text = text.replace("<remapped_row_pending>No", "<remapped_row_pending>Yes")
    assert told(smi_text.parse(text), "ecc_corrected", "ecc_uncorrected", "remap_pending") == [(7, 3, True)]


def test_errors_of_the_memory_before_ampere() -> None:
    text = """\
GPU 00000000:07:00.0
    Product Name                          : Tesla V100-SXM2-16GB
    ECC Errors
        Volatile
            Single Bit
                Device Memory             : 4
                Total                     : 5
            Double Bit
                Device Memory             : 1
                Total                     : 1
"""
    assert told(smi_text.parse(text), "ecc_corrected", "ecc_uncorrected") == [(5, 1)]


def test_xml_that_was_cut_off() -> None:
    text = machine("a100x4/query.xml")
    third = [n for n in range(len(text)) if text.startswith("<gpu ", n)][2]
    reading = smi_text.parse(text[: third + 300])
    assert told(reading, "index") == [0, 1]
    assert reading.errors == ["the XML of nvidia-smi is cut off or damaged"]


def test_xml_cannot_bring_entities() -> None:
    bomb = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa">]><nvidia_smi_log>'
    bomb += "<cuda_version>&a;</cuda_version></nvidia_smi_log>"
    reading = smi_text.parse(bomb)
    assert (reading.cuda, reading.errors) == (None, ["the XML of nvidia-smi is cut off or damaged"])


def test_a_fragment_of_the_long_output() -> None:
    lines = machine("h200/query.txt").splitlines()
    at = next(n for n, line in enumerate(lines) if "Product Name" in line)
    reading = smi_text.parse("$ nvidia-smi -q | less\n" + "\n".join(lines[at : at + 120]))
    assert told(reading, "name", "memory_total_mib", "bus_id") == [("NVIDIA H200", 143771, "00000000:00:06.0")]


def test_the_long_output_behind_a_log_prefix() -> None:
    text = "\n".join("node1: " + line for line in machine("h200/query.txt").splitlines())
    assert told(smi_text.parse(text), "name", "ecc_uncorrected", "mig_mode") == [("NVIDIA H200", 0, "disabled")]


CSV = "index, uuid, memory.total [MiB], memory.used [MiB], utilization.gpu [%]\n"


@pytest.mark.parametrize(
    ("text", "names", "gpus"),
    [
        (
            "580_h200.csv",
            ("index", "uuid", "bus_id", "name", "memory_total_mib", "memory_used_mib", "power_w", "mig_mode"),
            [
                (
                    0,
                    "GPU-be1950b0-2e67-2b05-72e7-483243006410",
                    "00000000:00:06.0",
                    "NVIDIA H200",
                    143771,
                    3691,
                    118.6,
                    "disabled",
                )
            ],
        ),
        # Without units.
        (
            CSV + "0, GPU-0000aaaa, 81920, 12, 3\n1, GPU-0000bbbb, 81920, 0, 0\n",
            ("index", "memory_total_mib", "memory_used_mib", "util_pct"),
            [(0, 81920, 12, 3), (1, 81920, 0, 0)],
        ),
        # One column, and no index: rows come in its order.
        (
            "pci.bus_id\n00000000:01:00.0\n00000000:02:00.0\n",
            ("index", "bus_id"),
            [(0, "00000000:01:00.0"), (1, "00000000:02:00.0")],
        ),
        (
            "index, name, memory.total [MiB], memory.used [MiB]\n0, NVIDIA GB10, [N/A], [N/A]\n",
            ("name", "memory_total_mib", "memory_unified", "status"),
            [("NVIDIA GB10", None, True, "ok")],
        ),
        ("0, NVIDIA GB10, [N/A], [N/A], [N/A]", ("index", "name", "status"), [(0, "NVIDIA GB10", "ok")]),
        (
            "0, NVIDIA A100-SXM4-80GB, 81920 MiB, 12 MiB",
            ("index", "name", "memory_total_mib"),
            [(0, "NVIDIA A100-SXM4-80GB", 81920)],
        ),
        (
            "index, temperature.gpu, memory.used [MiB]\n0, [GPU requires reset], 0 MiB\n",
            ("index", "temp_c", "status", "faults"),
            [(0, None, "requires_reset", ["reset pending"])],
        ),
        (
            "index, pstate, memory.total [MiB]\n0, [GPU is lost], [GPU is lost]\n1, P8, 24564 MiB\n",
            ("index", "status", "memory_unified"),
            [(0, "lost", False), (1, "ok", False)],
        ),
        (
            "index, fan.speed [%], power.draw [W]\n0, [Unknown Error], 66.00 W\n1, 30 %, [Unknown Error]\n",
            ("fan", "status", "faults"),
            [("ERR!", "ok", ["fan"]), (30, "error", ["power"])],
        ),
    ],
)
def test_csv(text: str, names: tuple[str, ...], gpus: list[Any]) -> None:
    reading = smi_text.parse(fixture(text) if text.endswith(".csv") else text)
    assert told(reading, *names) == gpus


def test_csv_names_the_driver() -> None:
    assert smi_text.parse(fixture("580_h200.csv")).driver == "580.159.04"
    assert smi_text.parse("driver_version\n535.161.08\n").driver == "535.161.08"


@pytest.mark.parametrize(
    ("text", "processes"),
    [
        (machine("h200/processes.csv"), [("GPU-be1950b0-2e67-2b05-72e7-483243006410", 429, "python3", 3682)]),
        (
            "pid, process_name, gpu_uuid, used_memory [MiB]\n7, a, b, GPU-0000aaaa, 5 MiB\n"
            "8, [Not Found], GPU-0000aaaa, [N/A]\n",
            [("GPU-0000aaaa", 7, "a, b", 5), ("GPU-0000aaaa", 8, None, None)],
        ),
        ("GPU-0000aaaa, 9, python3, 12 MiB\n", [("GPU-0000aaaa", 9, "python3", 12)]),
    ],
)
def test_processes_in_csv(text: str, processes: list[Any]) -> None:
    found = smi_text.parse(text).processes
    assert [(p["gpu_uuid"], p["pid"], p["name"], p["memory_mib"]) for p in found] == processes


HANDLE = "Unable to determine the device handle for "


@pytest.mark.parametrize(
    ("line", "index", "bus_id"),
    [
        (HANDLE + "GPU 0000:0B:00.0: Unknown Error", None, "0000:0B:00.0"),
        (HANDLE + "GPU0000:07:00.0: Unknown Error", None, "0000:07:00.0"),
        (HANDLE + "GPU1: 0000:46:00.0: Unknown Error", 1, "0000:46:00.0"),
        (HANDLE + "gpu 0000:02:00.0: GPU is lost.  Reboot the system to recover this GPU", None, "0000:02:00.0"),
    ],
)
def test_a_gpu_that_cannot_be_addressed(line: str, index: int | None, bus_id: str) -> None:
    reading = smi_text.parse("$ nvidia-smi\n" + line + "\n")
    assert told(reading, "index", "bus_id", "status", "faults") == [(index, bus_id, "lost", ["handle"])]
    assert reading.errors == [line]


def test_a_lost_gpu_beside_others() -> None:
    reading = smi_text.parse(HANDLE + "GPU0000:07:00.0: Unknown Error\n" + fixture("430_geforce.txt"))
    assert told(reading, "bus_id", "status") == [("00000000:03:00.0", "ok"), ("0000:07:00.0", "lost")]


def test_a_lost_gpu_that_the_table_still_lists() -> None:
    reading = smi_text.parse(HANDLE + "GPU 0000:03:00.0: Unknown Error\n" + fixture("430_geforce.txt"))
    assert told(reading, "name", "bus_id", "status", "faults") == [
        ("GeForce GTX 1070", "0000:03:00.0", "lost", ["fan", "handle"])
    ]


def test_a_damaged_inforom_is_told_and_no_more() -> None:
    reading = smi_text.parse(fixture("430_geforce.txt") + "WARNING: infoROM is corrupted at gpu 0000:03:00.0\n")
    assert told(reading, "status", "faults") == [("ok", ["fan", "infoROM"])]


MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
UNLOADED = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA "
    "driver is installed and running."
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no text was given"),
        (" \n", "no text was given"),
        ("hello", "the text holds no GPU and no message of nvidia-smi"),
        ("# nvidia-smi\n" + MISMATCH + "\nNVML library version: 580.173\n", MISMATCH),
        (
            "(container) $ nvidia-smi -L\nFailed to initialize NVML: Unknown Error",
            "Failed to initialize NVML: Unknown Error",
        ),
        (UNLOADED, UNLOADED),
        ("$ nvidia-smi\nNo devices were found", "No devices were found"),
        ("bash: nvidia-smi: command not found", "nvidia-smi is not installed"),
        ("sh: 1: nvidia-smi: not found", "nvidia-smi is not installed"),
        ("zsh: command not found: nvidia-smi", "nvidia-smi is not installed"),
        ("Command 'nvidia-smi' not found, but can be installed with:", "nvidia-smi is not installed"),
        ('exec: "nvidia-smi": executable file not found in $PATH', "nvidia-smi is not installed"),
        ("'nvidia-smi' is not recognized as an internal or external command,", "nvidia-smi is not installed"),
        (fixture("580_version.txt"), "nvidia-smi names the driver, but the text lists no GPU"),
        (fixture("580_mig_profiles.txt"), "the text holds no GPU and no message of nvidia-smi"),
        (HANDLE + "GPU0000:07:00.0: Unknown Error", HANDLE + "GPU0000:07:00.0: Unknown Error"),
        (fixture("580_gb10.txt"), None),
    ],
)
def test_why_there_is_no_gpu(text: str, reason: str | None) -> None:
    assert smi_text.reason(text, smi_text.parse(text)) == reason


def test_versions() -> None:
    reading = smi_text.parse(fixture("580_version.txt"))
    assert (reading.driver, reading.cuda, reading.nvml_library) == ("580.159.04", "13.0", "580.159")
    assert smi_text.parse(MISMATCH + "\nNVML library version: 580.173").nvml_library == "580.173"


WDDM_HEADER = """\
nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver to a newer version
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 551.78                 Driver Version: 551.78         CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                     TCC/WDDM  | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
"""


def test_a_table_that_ends_with_its_header() -> None:
    reading = smi_text.parse(WDDM_HEADER)
    assert (reading.driver, reading.cuda, reading.gpus) == ("551.78", "12.4", [])


def test_several_outputs_of_one_machine_are_put_together() -> None:
    text = "\n".join(
        "$ nvidia-smi " + name + "\n" + machine("a100x4_mig/" + name) for name in ("list.txt", "smi.txt", "query.xml")
    )
    reading = smi_text.parse(text)
    assert told(reading, "index", "bus_id", "memory_total_mib") == [
        (0, "00000000:07:00.0", 81920),
        (1, "00000000:46:00.0", 81920),
        (2, "00000000:85:00.0", 81920),
        (3, "00000000:C7:00.0", 81920),
    ]
    assert all(uuid.startswith("GPU-") for uuid in told(reading, "uuid"))
    devices = reading.gpus[0]["mig_devices"]
    assert [(d["profile"], d["gpu_instance_id"], d["memory_total_mib"]) for d in devices] == [
        ("3g.40gb", 1, 40192),
        ("3g.40gb", 2, 40192),
    ]
    assert all(d["uuid"].startswith("MIG-") for d in devices)


def test_the_same_index_of_two_machines_is_two_gpus() -> None:
    reading = smi_text.parse(fixture("430_geforce.txt") + fixture("570_gh200.txt"))
    assert told(reading, "index", "name") == [(0, "GeForce GTX 1070"), (0, "NVIDIA GH200 480GB")]


def test_a_process_of_two_outputs_is_one() -> None:
    reading = smi_text.parse(machine("a100x4_held/smi.txt") + machine("a100x4_held/query.xml"))
    assert [(p["gpu_index"], p["pid"], p["memory_mib"]) for p in reading.processes] == [(2, 2918311, 41412)]


def test_a_container_without_and_a_host_with_gpus() -> None:
    text = "(container) $ nvidia-smi -L\nFailed to initialize NVML: Unknown Error\n(host) # nvidia-smi -L\n" + "".join(
        f"GPU {n}: NVIDIA A10 (UUID: GPU-f15ae561-21b1-6003-c768-{n:012})\n" for n in range(3)
    )
    reading = smi_text.parse(text)
    assert told(reading, "index", "name") == [(0, "NVIDIA A10"), (1, "NVIDIA A10"), (2, "NVIDIA A10")]
    assert reading.errors == ["Failed to initialize NVML: Unknown Error"]


def test_the_kernel_speaks_of_gpus_in_other_words() -> None:
    text = "[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0\n"
    text += "               NVRM: (PCI ID: 10de:26b5) installed in this system has\n"
    assert smi_text.parse(text).gpus == []
