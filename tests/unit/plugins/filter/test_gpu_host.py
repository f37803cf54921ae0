# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.tandem.vllm.plugins.filter.gpu_host import FilterModule
from ansible_collections.tandem.vllm.plugins.module_utils.gpu_host import judge as gpu_host
from ansible_collections.tandem.vllm.plugins.module_utils.placement import Model, Node, Placement, Replica, Service

FILTERS = FilterModule().filters()
SERVICE = Service("chat", Model("/models/big", "big"), (Replica("chat-gpu1", ("gpu1",)),))
LAB = Placement("lab", {"gpu1": Node("10.0.0.1")}, (SERVICE,), lab=True).to_dict()
SITE = Placement("site", {"gpu1": Node("10.0.0.1", ("0",), "H200")}, (SERVICE,)).to_dict()
MEASURED: dict[str, Any] = {
    "gpus": {"docker": {"available": True, "engine": "docker", "version": "28.3.3"}},
    "host": {"limits": {"nofile": 1024}, "clock_offset_s": 3.0, "clock": {"synchronised": True}},
    "image": {"found": True, "source": "docker"},
}


def test_names() -> None:
    assert sorted(FILTERS) == ["gpu_host_checks", "gpu_host_failures", "gpu_host_rows", "gpu_host_summary"]


def test_checks() -> None:
    checks = FILTERS["gpu_host_checks"](MEASURED, LAB, "gpu1", {"accept": ["clock"], "nofile": 4096}, [3.0, 0.0, 0.1])
    assert [check["id"] for check in checks] == list(gpu_host.IDS)
    assert {key for check in checks for key in check} == {
        "id",
        "state",
        "variable",
        "value",
        "wanted",
        "remedy",
        "evidence",
        "message",
    }
    by_id = {check["id"]: check for check in checks}
    assert by_id["driver_loaded"]["value"] == "CPU lab mode"
    assert by_id["nofile"]["wanted"] == "must be at least 4096"
    assert by_id["clock"]["state"] == "accepted"
    message = FILTERS["gpu_host_failures"](checks)
    assert message == "The host is not fit for its replicas: " + by_id["nofile"]["message"]
    assert FILTERS["gpu_host_failures"](checks, "No").startswith("No: gpu1: open files of a container = 1024: ")
    assert [row["state"] for row in FILTERS["gpu_host_rows"]([by_id["clock"]])] == ["accepted"]
    assert FILTERS["gpu_host_summary"]([by_id["docker"]]) == ["1 passed"]


def test_outside_the_lab_gpus_are_judged() -> None:
    checks = FILTERS["gpu_host_checks"](MEASURED, SITE, "gpu1")
    assert next(check["state"] for check in checks if check["id"] == "driver_loaded") == "failed"


@pytest.mark.parametrize(
    "arguments",
    [
        ({}, "gpu1"),
        (SITE, "gpu9"),
        (SITE, "gpu1", {"no_such_setting": 1}),
        (SITE, "gpu1", {}, ["soon"]),
    ],
)
def test_wrong_arguments_are_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(AnsibleFilterError, match="wants a placement, one of its nodes, and known settings"):
        FILTERS["gpu_host_checks"](MEASURED, *arguments)
