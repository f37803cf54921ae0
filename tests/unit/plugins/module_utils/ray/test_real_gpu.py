# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Ray 2.60.0 said of one real H200, which it had found by itself: idle, held, wanted by another, left reserved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.ray import cluster, commands, status
from ansible_collections.tandem.vllm.plugins.module_utils.ray.expectation import Expectation

FIXTURES = Path(__file__).parents[4] / "fixtures/ray"
ONE = Expectation(1, {"10.0.0.1": 1}, None, ("10.0.0.1",), "2.60.0")


def text(name: str) -> str:
    return (FIXTURES / name).read_text()


def facts(name: str, expected: Expectation) -> dict[str, Any]:
    """As the module puts them together of `ray status -v` and the look."""
    seen = commands.looked(text("look-gpu.txt"))
    versions = seen["cluster"]
    return cluster.facts(
        text(name), json.dumps(seen["nodes"]), expected, versions["ray_version"], versions["python_version"]
    )


@pytest.mark.parametrize(
    ("name", "gpu", "waiting"),
    [
        # Used, used in placement groups, reserved by them, free for a new one.
        ("status-gpu-idle.txt", (0.0, 0.0, 0.0, 1.0), []),
        ("status-gpu-held.txt", (1.0, 1.0, 1.0, 0.0), []),
        ("status-gpu-waiting.txt", (1.0, 1.0, 1.0, 0.0), [("placement groups", {"CPU": 1.0, "GPU": 1.0}, "PACK")]),
        # The actor was killed, its detached group was not removed: nothing uses the GPU, and nothing else gets it.
        ("status-gpu-stale-group.txt", (0.0, 0.0, 1.0, 0.0), []),
    ],
)
def test_status(name: str, gpu: tuple[float, ...], waiting: list[Any]) -> None:
    found = status.parse(text(name))
    assert found is not None
    assert (found["reachable"], found["complete"], found["nodes"]["alive"], found["failures"]) == (True, True, 1, [])
    assert [(entry["kind"], entry["bundle"], entry["strategy"]) for entry in found["demands"]] == waiting
    (block,) = found["blocks"]
    for rows in (found["resources"], block["resources"]):
        assert tuple(rows["GPU"][key] for key in ("used", "pg_used", "pg_reserved", "free_for_new_pg")) == gpu
        # Ray counts the kind of GPU apart, and a bundle that asks for GPU alone takes none of it.
        assert (rows["accelerator_type:H200"]["total"], rows["accelerator_type:H200"]["free"]) == (1.0, 1.0)
        assert rows["object_store_memory"]["total"] == "1.86GiB"


@pytest.mark.parametrize(
    ("name", "used", "free"),
    [
        ("status-gpu-idle.txt", 0.0, 1.0),
        ("status-gpu-held.txt", 1.0, 0.0),
        ("status-gpu-stale-group.txt", 0.0, 0.0),
    ],
)
def test_status_and_look(name: str, used: float, free: float) -> None:
    found = facts(name, ONE)
    assert (found["ready"], found["missing"], found["heads"]) == (True, [], 1)
    assert (found["ray_version"], found["python_version"]) == ("2.60.0", "3.12.3")
    assert (found["gpu_total"], found["gpu_listed"], found["gpu_free_for_new_pg"]) == (1.0, 1.0, free)
    (node,) = found["node_list"]
    assert (node["ip"], node["host"], node["head"], node["accelerator"]) == ("10.0.0.1", "host-a", True, "H200")
    assert (node["CPU"], node["GPU"], node["gpu_used"], node["gpu_free"]) == (16.0, 1.0, used, free)
    assert node["memory_bytes"] == 127180848128.0


def test_fewer_gpus_than_expected() -> None:
    found = facts("status-gpu-idle.txt", Expectation(1, {"10.0.0.1": 2}))
    assert not found["ready"]
    assert found["missing"] == ["node 10.0.0.1 has 1 GPU in Ray, expected 2"]
