# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.transport import failure, verdict
from ansible_collections.tandem.vllm.plugins.module_utils.transport.failure import Ended
from ansible_collections.tandem.vllm.plugins.module_utils.transport.launch import Proof
from ansible_collections.tandem.vllm.plugins.module_utils.transport.script import MARK

FIXTURES = Path(__file__).parents[4] / "fixtures"
PROOF = Proof("tandem-proof", 0, 2, 1, "10.0.0.1", 29400, "nccl", (1, 256), 180, ("node-a", "node-b"))
GLOO = replace(PROOF, backend="gloo", sizes_mib=(1, 16))
DONE = Ended(True, exit_code=0)
FAILED = Ended(True, exit_code=1)
SIZES = [
    {"size_bytes": 1024, "runs": 50, "seconds": 0.00002, "sent": {}},
    {"size_bytes": 2**28, "runs": 7, "seconds": 0.02, "sent": {}},
]
FIGURES: dict[str, Any] = {
    "rank": 0,
    "world_size": 2,
    "torch": "2.11.0",
    "nccl": "2.28.9",
    "named": None,
    "sizes": SIZES,
}


def fixture(name: str) -> str:
    return (FIXTURES / f"{name}.txt").read_text()


def marked(**values: Any) -> str:
    return f"\n{MARK}{json.dumps(values)}\n"


def log(*said: str, **other_figures: Any) -> str:
    lines = "".join(f"host-a:1:1 [0] NCCL INFO {line}\n" for line in said)
    return lines + marked(**{**FIGURES, **other_figures})


IB = (
    "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
    "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA",
    "Channel 01/0 : 0[0] -> 1[0] [send] via NET/IB/1/GDRDMA",
)
TCP = (
    "NET/IB : No device found.",
    "NET/Socket : Using [0]eth0:10.0.0.1<0>",
    "Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0",
)


def test_real_sockets_between_two_hosts() -> None:
    result, found = verdict.judge(PROOF, DONE, fixture("nccl/proof-rank0"))
    assert found == []
    sizes = result.pop("sizes")
    assert result == {
        "backend": "nccl",
        "transport": "NET/Socket",
        "transports": ["NET/Socket"],
        "interface": "eth0",
        "interfaces_found": ["eth0"],
        "gdr": None,
        "bus_gbit": 14.755,
        "latency_us": 4797.7,
        "world_size": 2,
        "nccl_version": "2.28.9",
        "torch_version": "2.11.0+cu130",
        "log_tail": [],
    }
    assert [(size["size_bytes"], size["bus_gbit"]) for size in sizes] == [(2**20, 1.706), (2**28, 14.755)]


def test_the_contract_says_rdma_and_the_log_says_socket() -> None:
    result, found = verdict.judge(replace(PROOF, rdma=True), DONE, fixture("nccl/proof-rank0"))
    (problem,) = found
    assert problem.id == "rdma_not_used"
    assert problem.says == "The contract says RDMA, and the nodes talk over NET/Socket (eth0)"
    assert "[receive] via NET/Socket/0 | " in problem.evidence
    assert problem.evidence.endswith("NCCL INFO NET/IB : No device found.")
    # It is told what is used nevertheless.
    assert (result["transport"], result["bus_gbit"]) == ("NET/Socket", 14.755)
    assert result["log_tail"]


def test_rdma() -> None:
    result, found = verdict.judge(replace(PROOF, rdma=True), DONE, log(*IB))
    assert found == []
    assert (result["transport"], result["interface"], result["gdr"]) == ("NET/IB", "mlx5_0,mlx5_1", True)
    assert (result["bus_gbit"], result["latency_us"]) == (107.374, 20.0)


def test_rdma_through_the_hosts_memory() -> None:
    result, _found = verdict.judge(PROOF, DONE, log(*(line.replace("/GDRDMA", "") for line in IB)))
    assert (result["transport"], result["gdr"]) == ("NET/IB", False)


def test_one_channel_over_sockets_is_no_rdma() -> None:
    result, found = verdict.judge(replace(PROOF, rdma=True), DONE, log(*IB, *TCP[1:]))
    assert [problem.id for problem in found] == ["rdma_not_used"]
    assert (result["transport"], result["transports"]) == ("NET/Socket", ["NET/IB", "NET/Socket"])


@pytest.mark.parametrize(
    ("way", "rdma"),
    [
        ("NET/IBext_v8/0", True),
        ("NET/AWS Libfabric/0/GDRDMA", True),
        ("NET/FasTrak/0", False),
        ("P2P/MNNVL", True),
    ],
)
def test_networks_of_plug_ins(way: str, rdma: bool) -> None:
    _result, found = verdict.judge(
        replace(PROOF, rdma=True), DONE, log(f"Channel 00/0 : 0[0] -> 1[0] [send] via {way}")
    )
    assert (found == []) is rdma


def test_what_ranks_of_one_node_use_is_not_what_nodes_use() -> None:
    proof = replace(PROOF, processes=2)
    text = log("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM", "Channel 00/0 : 1[1] -> 2[0] [send] via NET/Socket/0")
    result, _found = verdict.judge(proof, DONE, text)
    assert (result["transport"], result["transports"]) == ("NET/Socket", ["P2P", "NET/Socket"])


def test_a_group_within_one_node() -> None:
    proof = replace(PROOF, nodes=1, processes=2, rdma=True)
    result, found = verdict.judge(proof, DONE, log("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"))
    assert (result["transport"], found) == ("P2P", [])


@pytest.mark.parametrize(
    "text",
    [
        log(),
        log("Using network Socket", "NET/Socket : Using [0]eth0:10.0.0.1<0>"),
        # Ranks 0 and 1 of one node say nothing of the other.
        log("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"),
    ],
)
def test_a_log_that_names_no_transport_is_no_pass(text: str) -> None:
    result, found = verdict.judge(replace(PROOF, processes=2), DONE, text)
    assert [problem.id for problem in found] == ["transport_not_known"]
    assert "It is not known" in found[0].says
    assert result["transport"] is None


@pytest.mark.parametrize(("floor", "ids"), [(107.3, []), (107.4, ["bandwidth_below_floor"])])
def test_the_floor(floor: float, ids: list[str]) -> None:
    _result, found = verdict.judge(replace(PROOF, minimum_gbit=floor), DONE, log(*IB))
    assert [problem.id for problem in found] == ids


def test_what_is_told_of_a_slow_link() -> None:
    _result, (problem,) = verdict.judge(replace(GLOO, minimum_gbit=20), DONE, fixture("transport/gloo"))
    assert str(problem).startswith(
        "The nodes reach 5.797 Gbit/s, and the contract wants 20 Gbit/s at least (bandwidth_below_floor: gloo/tcp over "
        "eth0, 2 ranks on 2 nodes). Look at the link's speed"
    )
    assert problem.next_command == "ip -statistics link show eth0; ethtool eth0; tc qdisc show dev eth0"


def test_two_things_wrong_are_both_told() -> None:
    proof = replace(PROOF, rdma=True, minimum_gbit=200)
    _result, found = verdict.judge(proof, DONE, log(*TCP))
    assert [problem.id for problem in found] == ["rdma_not_used", "bandwidth_below_floor"]
    said = verdict.message(proof, found)
    assert said.startswith("node-a: the transport proof failed. The contract says RDMA, and")
    assert "bandwidth_below_floor" in said


def test_real_gloo() -> None:
    result, found = verdict.judge(GLOO, DONE, fixture("transport/gloo"))
    assert found == []
    assert (result["transport"], result["transports"], result["interface"]) == ("gloo/tcp", ["gloo/tcp"], "eth0")
    assert (result["bus_gbit"], result["nccl_version"], result["gdr"]) == (5.797, None, None)


def test_gloo_cannot_show_rdma() -> None:
    _result, found = verdict.judge(replace(GLOO, rdma=True), DONE, fixture("transport/gloo"))
    assert [problem.id for problem in found] == ["rdma_not_checked"]


@pytest.mark.parametrize(
    ("sent", "named", "interface"),
    [
        ({"eth0": 7 * 2**28, "eth1": 2**28}, None, "eth0"),
        # A bridge counts what its member counts.
        ({"eth0": 7 * 2**28 + 9, "br0": 7 * 2**28}, "br0", "br0"),
        # It was named, and the data went elsewhere.
        ({"eth0": 7 * 2**28}, "eth1", "eth0"),
        # Data of two nodes that stays on this one is not seen as leaving it.
        ({"lo": 7 * 2**28}, "lo", None),
        ({}, "eth0", None),
    ],
)
def test_the_interface_that_gloo_used(sent: dict[str, int], named: str | None, interface: str | None) -> None:
    told = log(named=named, sizes=[SIZES[0], {**SIZES[1], "sent": sent}])
    result, _found = verdict.judge(GLOO, DONE, told)
    assert result["interface"] == interface


@pytest.mark.parametrize(
    ("name", "proof", "problem_id", "says"),
    [
        ("nccl/proof-rank-absent-rank0", PROOF, "rank_missing", "Not all ranks came: rank 1 of node-b"),
        ("transport/rank_missing", GLOO, "rank_missing", "Not all ranks came: rank 1 of node-b"),
        (
            "transport/first_rank_unreachable",
            replace(GLOO, address="10.89.70.11"),
            "network_unreachable_between_nodes",
            "Rank 1 cannot reach the first rank at 10.89.70.11:29400",
        ),
        ("transport/no_such_interface", GLOO, "wrong_network_interface", "Rank 0 failed at: connect the ranks"),
        ("nccl/proof-interface-missing-rank0", PROOF, "wrong_network_interface", "Rank 0 failed at: "),
        ("nccl/proof-interface-missing-rank1", PROOF, "other_rank_failed", "Rank 1 failed at: "),
        ("nccl/interface-loopback-rank1", PROOF, "wrong_network_interface", "The container ended with 1"),
        ("nccl/duplicate-gpu-rank0", PROOF, "nccl_duplicate_gpu", "The container ended with 1"),
        ("nccl/rank-stalled-rank0", PROOF, "nccl_timeout_mid_run", "The container ended with 1"),
    ],
)
def test_real_failures(name: str, proof: Proof, problem_id: str, says: str) -> None:
    result, (problem,) = verdict.judge(proof, FAILED, fixture(name))
    assert problem.id == problem_id
    assert problem.says.startswith(says)
    assert "CONTAINER" not in problem.next_command
    assert result["bus_gbit"] is None
    assert not [line for line in result["log_tail"] if line.startswith(("frame #", MARK))]


def test_the_ranks_that_are_missing_are_named_by_node() -> None:
    proof = replace(PROOF, nodes=3, processes=2, names=("a", "b", "c"))
    text = marked(rank=0, stage="wait for all ranks", error="not done within 180 s", missing=[3, 4, 5])
    _result, (problem,) = verdict.judge(proof, FAILED, text)
    assert problem.says == "Not all ranks came: rank 3 of b; ranks 4, 5 of c"
    assert problem.next_command == "on b, c: ip route get 10.0.0.1; docker ps --all"


def test_the_next_command_has_address_and_port() -> None:
    text = fixture("transport/first_rank_unreachable")
    _result, (problem,) = verdict.judge(replace(GLOO, rank=1), FAILED, text)
    assert problem.next_command == "ip route get 10.89.70.11; nc -vz 10.89.70.11 29400; nft list ruleset"


@pytest.mark.parametrize(
    ("ended", "text", "problem_id", "said"),
    [
        (Ended(False, error="No such container: x"), "", "container_gone", "There is no container tandem-proof"),
        (Ended(True, exit_code=137, oom_killed=True), "", "host_ram_oom", "killed for memory"),
        (Ended(True, timed_out=True, exit_code=0), "last\n", "unknown", "had not ended after 180 s (unknown: last)"),
        (Ended(True, exit_code=127, error="exec: python3"), "", "unknown", "ended with 127 and told no figures"),
        (DONE, "", "unknown", "(unknown: the log is empty)"),
        # One rank has figures, and another one failed.
        (
            FAILED,
            log(*IB) + marked(rank=1, stage="run", error="the process ended with -11"),
            "unknown",
            "Rank 1 failed",
        ),
        (FAILED, marked(rank=0, stage="check the sum", error="ValueError: x"), "unknown", "The ranks' sum is wrong"),
        (
            FAILED,
            marked(rank=0, stage="connect the ranks", error="not done within 30 s"),
            "ranks_cannot_connect",
            "All ranks reach 10.0.0.1:29400, but not each other",
        ),
        (
            FAILED,
            marked(rank=0, stage="first all-reduce", error="not done within 30 s"),
            "ranks_cannot_connect",
            "the ephemeral ones too",
        ),
        (FAILED, marked(rank=0, stage="all-reduce of 1 bytes", error="not done within 9 s"), "unknown", "not done"),
    ],
)
def test_other_ends(ended: Ended, text: str, problem_id: str, said: str) -> None:
    _result, (problem,) = verdict.judge(PROOF, ended, text)
    assert problem.id == problem_id
    assert said in str(problem)


def test_the_rank_that_failed_first_is_told() -> None:
    text = marked(rank=1, stage="run", error="the process ended with -9", stopped=True)
    text += marked(rank=0, stage="import PyTorch", error="ModuleNotFoundError: No module named 'torch'")
    _result, (problem,) = verdict.judge(PROOF, FAILED, text)
    assert problem.says == "Rank 0 failed at: import PyTorch"
    assert problem.evidence == "ModuleNotFoundError: No module named 'torch'"


@pytest.mark.parametrize(
    ("said", "problem_id"),
    [
        ("docker: Error response from daemon: No such image: x:1.\nSee 'docker run --help'.\n", "image_missing"),
        (
            'docker: Error response from daemon: could not select device driver "nvidia" with capabilities: [[gpu]].\n',
            "nvidia_container_toolkit_missing",
        ),
        ("docker: Error response from daemon: Conflict.\n", "not_started"),
    ],
)
def test_a_container_that_did_not_start(said: str, problem_id: str) -> None:
    problem = failure.not_started(PROOF, said)
    assert problem.id == problem_id
    assert problem.evidence in said
    assert "--help" not in str(problem)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "importing PyTorch"),
        (marked(rank=0, stage="wait for all ranks", missing=[1]), "wait for all ranks; rank 1 of node-b not there yet"),
        (
            marked(rank=0, stage="wait for all ranks", missing=[1]) + marked(rank=0, stage="first all-reduce"),
            "first all-reduce",
        ),
    ],
)
def test_progress(text: str, words: str) -> None:
    assert verdict.progress(PROOF, text) == words
