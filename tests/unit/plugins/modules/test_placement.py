# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.vllm.plugins.module_utils.api_keys import key_state, key_states
from ansible_collections.tandem.vllm.plugins.module_utils.placement import Placement, release
from ansible_collections.tandem.vllm.plugins.modules.placement import main

IMAGE = "sha256:" + "ab" * 32
NODE = {
    "address": "10.0.0.1",
    "gpus": ["0", "1"],
    "gpu_model": None,
    "gpu_memory_gib": None,
    "gpu_access": "nvidia",
}
KEY = "sk-Client-Alice-0001"


def run(capsys: pytest.CaptureFixture[str], arguments: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0), json.loads(capsys.readouterr().out)


def arguments(**changes: Any) -> dict[str, Any]:
    return {
        "environment": "site",
        "lab": False,
        "image": {"ref": IMAGE},
        "services": [{"name": "chat", "model": {"path": "/models/big", "served_name": "big", "revision": "5ede"}}],
        "nodes": [{"name": "gpu1", "address": "10.0.0.1", "gpus": {"count": 2}, "port": 8080}],
        "gateways": [{"name": "gw", "address": "10.0.0.9", "gpus": None, "port": 8080}],
        "inventory_hosts": ["gpu1", "gw"],
        "api_keys": key_states([{"name": "chat", "key": KEY}]),
        "engine_api_key": key_state("sk-Engine-Key-000003"),
        **changes,
    }


def test_placement(capsys: pytest.CaptureFixture[str]) -> None:
    status, result = run(capsys, arguments())
    assert (status, result["changed"]) == (0, False)
    # A client that is called like a service hides nothing of the placement.
    assert result["placement"] == {
        "environment": "site",
        "lab": False,
        "nodes": {"gpu1": NODE},
        "services": [
            {
                "name": "chat",
                "model": {"path": "/models/big", "served_name": "big", "revision": "5ede", "manifest": None},
                "replicas": [
                    {
                        "name": "chat-gpu1",
                        "nodes": ["gpu1"],
                        "tensor_parallel": 2,
                        "pipeline_parallel": 1,
                        "executor": "mp",
                        "port": 8000,
                        "gpus": ["0", "1"],
                    }
                ],
                "task": "generate",
                "engine": {},
                "extra_args": {},
                "limits": {"shm_size": "8g", "memory": None, "cpus": None},
                "environment": {},
            }
        ],
        "network": {"gbit": None, "latency_us": None, "rdma": None, "minimum_gbit": None},
    }
    assert result["release"] == release(Placement.from_dict(result["placement"]), IMAGE)


def test_check_mode_is_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, arguments(_ansible_check_mode=True)) == run(capsys, arguments(_ansible_check_mode=False))


def test_one_problem(capsys: pytest.CaptureFixture[str]) -> None:
    status, result = run(capsys, arguments(engine_api_key=None))
    said = (
        "tandem_engine_api_key = not set: is required: nothing is served without a key. "
        "Make one with 'openssl rand -hex 24' and keep it in ansible-vault."
    )
    assert (status, result["failed"], result["problems"]) == (1, True, [said])
    assert result["msg"] == "The inventory does not fit the contract (nothing was changed): " + said


def test_several_problems(capsys: pytest.CaptureFixture[str]) -> None:
    status, result = run(capsys, arguments(nodes=[], api_keys=None))
    assert (status, len(result["problems"])) == (1, 2)
    assert result["msg"].split("\n- ") == [
        "The inventory does not fit the contract (nothing was changed):",
        *result["problems"],
    ]


def test_nothing_given(capsys: pytest.CaptureFixture[str]) -> None:
    status, result = run(capsys, {})
    assert status == 1
    assert [p.partition(" = ")[0] for p in result["problems"]] == [
        "tandem_environment",
        "tandem_image",
        "tandem_api_keys",
        "tandem_engine_api_key",
        "group tandem_nodes",
        "group tandem_gateway",
    ]


def test_archive(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    archive = tmp_path / "vllm.tar"
    image = {"ref": IMAGE, "archive": str(archive)}
    _status, result = run(capsys, arguments(image=image))
    assert result["problems"] == [
        f"tandem_image.archive = '{archive}': must be a file on the control node. "
        "Correct the path, or 'docker save' it."
    ]
    archive.write_text("")
    assert run(capsys, arguments(image=image))[0] == 0


@pytest.mark.parametrize("archive", [["/a.tar"], 1, True])
def test_archive_that_is_no_path(capsys: pytest.CaptureFixture[str], archive: Any) -> None:
    _status, result = run(capsys, arguments(image={"ref": IMAGE, "archive": archive}))
    assert result["problems"] == [
        f"tandem_image.archive = {archive!r}: must be a file on the control node. "
        "Correct the path, or 'docker save' it."
    ]


def test_unknown_topology(capsys: pytest.CaptureFixture[str]) -> None:
    _status, result = run(capsys, arguments(topology="ring"))
    assert result["msg"] == "value of topology must be one of: dual_replica, ray_tp, ray_tp_pp, got: ring"


TWO_NODES = [{"name": f"gpu{n}", "address": f"10.0.0.{n}", "gpus": {"count": 2}, "port": 8080} for n in (1, 2)]


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({"topology": "ray_tp"}, (4, 1, "ray")),
        ({"topology": "ray_tp_pp"}, (2, 2, "ray")),
        ({"topology": "ray_tp_pp", "executor": "mp", "nodes_per_replica": 2}, (2, 2, "mp")),
    ],
)
def test_a_replica_over_nodes(
    capsys: pytest.CaptureFixture[str], options: dict[str, Any], sizes: tuple[int, int, str]
) -> None:
    status, result = run(capsys, arguments(nodes=TWO_NODES, **options))
    assert status == 0
    assert result["placement"]["services"][0]["replicas"] == [
        {
            "name": "chat-gpu1-x2",
            "nodes": ["gpu1", "gpu2"],
            "tensor_parallel": sizes[0],
            "pipeline_parallel": sizes[1],
            "executor": sizes[2],
            "port": 8000,
            "gpus": [],
        }
    ]


def test_how_it_is_spread_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    _status, result = run(capsys, arguments(nodes=TWO_NODES, nodes_per_replica="all", executor="slurm"))
    assert [p.partition(":")[0] for p in result["problems"]] == [
        "tandem_executor = 'slurm'",
        "tandem_nodes_per_replica = 'all'",
    ]


def test_the_network(capsys: pytest.CaptureFixture[str]) -> None:
    stated = {"gbit": 100, "rdma": True, "minimum_gbit": 80.5}
    _status, result = run(capsys, arguments(network=stated))
    assert result["placement"]["network"] == {"gbit": 100.0, "latency_us": None, "rdma": True, "minimum_gbit": 80.5}


def test_the_network_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    status, result = run(capsys, arguments(network={"gbit": "fast"}))
    assert (status, result["problems"]) == (
        1,
        ["tandem_network.gbit = 'fast': must be a number above zero. Correct the value in the inventory."],
    )
