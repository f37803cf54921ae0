# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.triage.engine import triage
from ansible_collections.tandem.vllm.tests.unit.plugins.module_utils.triage.samples import by_name, causes

BY_NAME = by_name("ray")
PLACEMENT = {"needs": ["ray status", "ray list nodes"]}
WORKER = {"needs": ["dmesg | grep -i oom", "raylet.out", "first error of that worker pid"]}
LOST = "75b2eec8a61cdafd37cc8072b1caf9abdeef9c4e74a4f24d5dfce28d"


@pytest.mark.parametrize(
    ("cause", "name", "details"),
    [
        ("ray_not_running_at_address", "ray status with an address", {"address": "10.0.0.4:6379"}),
        (
            "ray_gcs_unreachable",
            "loopback, and the words of a version (logs-15)",
            {"address": "127.0.0.1:6379"},
        ),
        ("ray_gcs_unreachable", "2.44, ray status (ray-status-25)", {"address": "10.0.0.4:6379"}),
        ("ray_gcs_unreachable", "2.60, a name that does not resolve", {"address": "nowhere:6379"}),
        ("ray_worker_registration_timeout", "slow, out of order (logs-17)", {"address": "10.0.0.65:41000"}),
        ("driver_not_on_ray_node", "vLLM, another host (logs-20)", {"address": "10.0.0.67:6379"}),
        (
            "version_mismatch",
            "both (logs-12)",
            {
                "mismatch": {"ray": ["2.12.0", "2.42.0"], "python": ["3.11.11", "3.9.21"]},
                "node": "10.0.0.87",
            },
        ),
        (
            "version_mismatch",
            "patch level of Python (logs-13)",
            {"mismatch": {"python": ["3.10.13", "3.10.12"]}, "ray_equal": True, "node": "10.0.0.5"},
        ),
        (
            "version_mismatch",
            "Ray only, in one line",
            {"mismatch": {"ray": ["2.43.0", "2.44.1"]}, "node": "10.0.0.5"},
        ),
        (
            "version_mismatch",
            "a nightly build",
            {"mismatch": {"ray": ["3.0.0.dev0", "2.54.0"]}, "node": "Ray Client"},
        ),
        ("version_mismatch", "Ray client, Python", {"mismatch": {"python": ["3.7.7", "3.8.10"]}}),
        ("version_mismatch", "Ray client, Ray", {"mismatch": {"ray": ["2.9.3", "2.0.0"]}}),
        ("version_mismatch", "NCCL", {"mismatch": {"nccl": ["2.20.5", "2.18.5"]}}),
        (
            "node_ip_mismatch",
            "more addresses than nodes (logs-23)",
            {"nodes": 2, "unique_ips": 3, "addresses": ["10.0.0.1", "10.0.0.2", "192.0.2.57"]},
        ),
        (
            "node_ip_mismatch",
            "the number is not there, the list is",
            {"nodes": 1, "unique_ips": 2, "addresses": ["10.0.0.1", "192.0.2.57"]},
        ),
        ("node_ip_mismatch", "the request alone", {"wanted": "10.61.0.27"}),
        ("node_ip_mismatch", "several nodes (logs-19)", {"addresses": ["10.0.0.55"], "severity": "warning"}),
        (
            "vllm_host_ip_same_on_all_nodes",
            "fewer addresses, broken (logs-24)",
            {"nodes": 2, "unique_ips": 1, "addresses": ["10.0.0.110"]},
        ),
        (
            "ray_insufficient_gpus_or_ip_mismatch",
            "endless waiting (logs-21)",
            {"wanted": "10.0.0.101", "gpus_wanted": 2, **PLACEMENT},
        ),
        ("ray_insufficient_gpus_or_ip_mismatch", "timed out, new", {"gpus_wanted": 16, **PLACEMENT}),
        ("ray_insufficient_gpus_or_ip_mismatch", "counted", {"gpus_wanted": 16, **PLACEMENT}),
        (
            "ray_gpus_reserved_by_other_placement_group",
            "left by an engine that died",
            {
                "wanted": "10.0.0.1",
                "gpus_wanted": 16,
                "gpus": {"used": 16.0, "total": 16.0, "pg_used": 0.0, "pg_reserved": 16.0, "free": -16.0},
                **PLACEMENT,
            },
        ),
        ("node_lost", "Ray 1.2 (logs-33)", {"node_id": LOST, "address": "10.0.0.107"}),
        (
            "node_lost",
            "Ray 2.x, with guesses",
            {"node_id": "0f219779261fab027e79667e6451e061ded81c76f07d05584652d818", "address": "10.0.0.51"},
        ),
        ("worker_died_unknown", "three possible causes (logs-32)", {"exit_type": "SYSTEM_ERROR", **WORKER}),
        ("worker_died_unknown", "actor", {"pid": 676, "address": "10.0.0.28", **WORKER}),
        ("worker_died_unknown", "mp executor of v0", {"exit_code": -11, **WORKER}),
    ],
)
def test_details(cause: str, name: str, details: dict[str, Any]) -> None:
    assert triage(BY_NAME[cause, name])[0].details == details


FOUND = "ray_gcs_unreachable", "high"
SILENT = "[W 1 1] rpc_client.h:153: Failed to connect to GCS at address 10.0.0.1:6379 within 5 seconds.\n"
UP = "2026-12-01 04:31:31,770 SUCC scripts.py:1085 -- Ray runtime started.\n"
REQUEST = "Error: No available node types can fulfill resource request {'node:10.0.0.9': 0.001, 'GPU': 1.0}.\n"
USAGE = " %s/2.0 GPU (%s used of %s reserved in placement groups)\n"
WAITS = "Waiting for creating a placement group of specs for 10 seconds. specs=[{'node:10.0.0.9': 0.001, 'GPU': 1.0}]\n"
TOO_FEW = "WARNING The number of required GPUs exceeds the total number of available GPUs in the placement group.\n"
LACK = "ray_insufficient_gpus_or_ip_mismatch", "medium"
RESERVED = "ray_gpus_reserved_by_other_placement_group", "high"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # What came later counts.
        (SILENT, [FOUND]),
        (SILENT + UP, []),
        (UP + SILENT, [FOUND]),
        # Whether GPUs lack, or the address, or others hold them.
        (WAITS, [LACK]),
        (REQUEST, [("node_ip_mismatch", "medium"), LACK]),
        (REQUEST + TOO_FEW, [LACK]),
        (WAITS + USAGE % ("0.0", "0.0", "0.0"), [("node_ip_mismatch", "high"), LACK]),
        (WAITS + USAGE % ("2.0", "2.0", "2.0"), [RESERVED, LACK]),
        (WAITS + USAGE % ("2.0", "0.0", "2.0"), [RESERVED, LACK]),
        (WAITS + USAGE % ("0.0", "0.0", "1.0"), [("node_ip_mismatch", "high"), LACK]),
        (USAGE % ("2.0", "2.0", "2.0"), []),
        # More than the cluster has is no matter of placement groups.
        (WAITS.replace("[{", "[{'GPU': 1.0}, {'GPU': 1.0}, {") + USAGE % ("2.0", "2.0", "2.0"), [LACK]),
    ],
)
def test_what_else_the_text_says_decides(text: str, found: list[tuple[str, str]]) -> None:
    assert causes(text) == found


def test_a_worker_on_its_own_loopback_gets_its_own_advice() -> None:
    loopback = triage(BY_NAME["ray_gcs_unreachable", "loopback, and the words of a version (logs-15)"])[0]
    other = triage(BY_NAME["ray_gcs_unreachable", "1.12"])[0]
    assert "loopback" in loopback.advice
    assert "loopback" not in other.advice
