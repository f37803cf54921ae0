# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.gpu.visibility import LaunchOptionError
from ansible_collections.tandem.vllm.plugins.module_utils.transport import launch
from ansible_collections.tandem.vllm.plugins.module_utils.transport.script import SCRIPT

IMAGE = "sha256:" + "0" * 64
PARAMETERS: dict[str, Any] = {
    "name": "tandem-chat-proof",
    "rank": 1,
    "nodes": 2,
    "processes": 4,
    "node_names": ["node-a", "node-b"],
    "master_address": "10.0.0.1",
    "master_port": 29400,
    "backend": "nccl",
    "sizes_mib": None,
    "expect": {"rdma": True, "minimum_gbit": 80.0},
    "timeout": 120,
}
PROOF = launch.read(PARAMETERS)
CONTAINER: dict[str, Any] = {
    "name": "tandem-chat",
    "image": IMAGE,
    "command": ["vllm", "serve"],
    "entrypoint": ["/bin/sh"],
    "env": {"NCCL_SOCKET_IFNAME": "=eth1", "NCCL_DEBUG": "WARN"},
    "mounts": [{"type": "bind", "source": "/models/m", "target": "/models/m", "read_only": True}],
    "device_requests": [{"driver": "nvidia", "count": 0, "device_ids": ["0", "1"], "capabilities": [["gpu"]]}],
    "shm_size": "16g",
    "memory": "200g",
    "cpus": None,
    "ulimits": ["memlock:-1:-1"],
    "devices": ["/dev/infiniband:/dev/infiniband:rwm"],
    "capabilities": ["IPC_LOCK"],
}


def options(argv: list[str]) -> list[str]:
    """What stands between `docker run` and the entry point."""
    return argv[: argv.index("--entrypoint")]


def test_the_command_line() -> None:
    argv = launch.run_argv(PROOF, CONTAINER)
    start = (
        "docker run --detach --pull never --network host --name tandem-chat-proof --label tandem.probe=all_reduce_proof"
    )
    assert options(argv)[:11] == start.split()
    text = " ".join(options(argv))
    for part in (
        "--log-driver json-file --log-opt max-size=64m --log-opt max-file=1",
        "--init",
        "--security-opt no-new-privileges:true",
        "--shm-size 16g",
        "--memory 200g",
        "--ulimit memlock=-1:-1",
        "--device /dev/infiniband:/dev/infiniband:rwm",
        "--cap-add IPC_LOCK",
        "--env NCCL_SOCKET_IFNAME==eth1",
        "--env NCCL_DEBUG=INFO",
        "--env NCCL_DEBUG_SUBSYS=INIT,ENV,NET",
        '--gpus driver=nvidia,"device=0,1"',
    ):
        assert part in text
    assert not {"--privileged", "--mount", "--rm", "--restart"} & set(argv)
    assert argv[argv.index("--entrypoint") :][:5] == ["--entrypoint", "python3", IMAGE, "-c", SCRIPT]
    assert json.loads(argv[-1]) == {
        "rank": 1,
        "nodes": 2,
        "processes": 4,
        "address": "10.0.0.1",
        "port": 29400,
        "backend": "nccl",
        "sizes": [2**20, 256 * 2**20],
        "seconds": 120,
    }


def test_gloo_wants_no_logging_of_nccl() -> None:
    proof = launch.read({**PARAMETERS, "backend": "gloo"})
    argv = launch.run_argv(proof, {"image": IMAGE, "env": {"GLOO_SOCKET_IFNAME": "eth0"}})
    assert [word for word in argv if "NCCL" in word and word != SCRIPT] == []
    assert json.loads(argv[-1])["sizes"] == [2**20, 16 * 2**20]


def test_an_unknown_option_of_the_launch_is_refused() -> None:
    with pytest.raises(LaunchOptionError, match=r"container\.privileged"):
        launch.run_argv(PROOF, {**CONTAINER, "privileged": True})


def test_ranks_and_nodes() -> None:
    assert PROOF.world == 8
    assert [PROOF.across(*pair) for pair in ((0, 3), (3, 4), (7, 0), (4, 7))] == [False, True, True, False]
    assert [PROOF.node(0), replace(PROOF, names=()).node(1)] == ["node-a", "node 1"]


def test_what_makes_sense() -> None:
    assert launch.problems(PROOF, CONTAINER).found == []
    assert launch.problems(PROOF, None).found == []


@pytest.mark.parametrize(
    ("more", "container", "said"),
    [
        ({"rank": 2}, CONTAINER, "rank = 2: must be from 0 to 1, as nodes is 2"),
        ({"rank": -1}, CONTAINER, "rank = -1: must be from 0 to 1"),
        ({"rank": 0, "nodes": 1, "processes": 1, "node_names": None}, CONTAINER, "nodes = 1: must make two ranks"),
        ({"processes": 0}, CONTAINER, "processes = 0: must be a whole number above zero"),
        ({"node_names": ["a"]}, CONTAINER, "node_names = ['a']: must be 2 names"),
        ({"master_port": 0}, CONTAINER, "master_port = 0: must be a TCP port"),
        ({"sizes_mib": [1, 0]}, CONTAINER, "sizes_mib = 0: must be a whole number above zero"),
        ({"timeout": 19}, CONTAINER, "timeout = 19: must be 20 seconds or more"),
        ({"expect": {"minimum_gbit": 0.0}}, CONTAINER, "expect.minimum_gbit = 0.0: must be a number above zero"),
        ({}, {"env": {}}, "container.image = not set: is required"),
    ],
)
def test_bad_input(more: dict[str, Any], container: dict[str, Any], said: str) -> None:
    (problem,) = launch.problems(launch.read({**PARAMETERS, **more}), container).found
    assert said in str(problem)
