# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.transport import told
from ansible_collections.tandem.vllm.plugins.module_utils.transport.script import MARK, SCRIPT

FIXTURES = Path(__file__).parents[4] / "fixtures/transport"


def run(seconds: int, processes: int = 1, folder: Path | None = None) -> tuple[int, told.Told]:
    """The program with no torch but the one in a folder: its exit status, and what it told."""
    plan: dict[str, Any] = {"rank": 1, "nodes": 2, "processes": processes, "address": "127.0.0.1", "port": 1}
    plan.update(backend="gloo", sizes=[], seconds=seconds)
    environment = {**os.environ, "PYTHONPATH": str(folder) if folder else ""}
    argv = [sys.executable, "-S", "-c", SCRIPT, json.dumps(plan)]
    ran = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=60)
    return ran.returncode, told.parse(ran.stdout)


def test_it_is_python_3_9() -> None:
    ast.parse(SCRIPT, feature_version=(3, 9))


def test_an_image_without_torch() -> None:
    status, said = run(30, processes=2)
    assert status == 1
    # Ranks are numbered through all nodes, and this is the second one.
    assert sorted(error.rank for error in said.errors) == [2, 3]
    assert {(error.stage, error.error) for error in said.errors} == {
        ("import PyTorch", "ModuleNotFoundError: No module named 'torch'")
    }


def test_a_rank_that_hangs_tells_where(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import time\ntime.sleep(60)\n")
    status, said = run(1, folder=tmp_path)
    assert status == 1
    assert said.errors == (told.RankError(1, "import PyTorch", "not done within 1 s", (), False),)


def test_a_rank_that_is_killed_is_told(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
    status, said = run(30, folder=tmp_path)
    assert status == 1
    assert said.errors == (told.RankError(1, "run", "the process ended with -9", (), False),)


def test_real_figures() -> None:
    figures = told.parse((FIXTURES / "gloo.txt").read_text()).figures
    assert figures is not None
    assert (figures.world, figures.torch, figures.nccl, figures.named) == (2, "2.13.0+cpu", None, "eth0")
    assert [size.bytes for size in figures.sizes] == [2**20, 2**24]
    assert figures.latency_us == pytest.approx(3371.4, abs=0.1)
    # 16 MiB in 23.15 ms; of two ranks, each sends the message once.
    assert figures.sizes[1].bus_gbit(2) == pytest.approx(5.797, abs=0.001)


@pytest.mark.parametrize(("world", "gbit"), [(2, 8.0), (4, 12.0), (8, 14.0)])
def test_bus_bandwidth(world: int, gbit: float) -> None:
    assert told.Size(10**9, 1, 1.0, {}).algorithm_gbit() == 8.0
    assert told.Size(10**9, 1, 1.0, {}).bus_gbit(world) == gbit


def test_a_broken_line_is_passed_over() -> None:
    error = MARK + json.dumps({"rank": 3, "stage": "run", "error": "e", "missing": [1, 2], "stopped": True})
    said = told.parse(f"{MARK}{{host-a:1:1 [0] NCCL INFO\n{error}\nx {MARK}\n")
    assert said == told.Told(None, (told.RankError(3, "run", "e", (1, 2), True),))
