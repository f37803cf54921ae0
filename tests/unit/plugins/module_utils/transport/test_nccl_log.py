# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.transport.nccl_log import parse

FIXTURES = Path(__file__).parents[4] / "fixtures/nccl"
# As NCCL 2.28 says them, with a device each and with devices used as one.
IB = (
    "host-a:42:57 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/IB/SHARP [RO]; OOB eth0:10.0.0.1<0>\n"
    "host-a:42:57 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/1/GDRDMA\n"
)
MERGED = (
    "host-a:42:57 [0] NCCL INFO NET/IB : Using [0]={[0] rocep1:1/RoCE, [1] rocep2:2/RoCE} [2]mlx5_9:1/IB [RO]; OOB "
    "eth0:10.0.0.1<0>\n"
    "host-a:42:57 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0\n"
)


@pytest.mark.parametrize("name", ["two-hosts", "two-hosts-socket", "two-hosts-ifname", "proof"])
@pytest.mark.parametrize("rank", [0, 1])
def test_real_logs_of_two_hosts(name: str, rank: int) -> None:
    log = parse((FIXTURES / f"{name}-rank{rank}.txt").read_text())
    assert log.version == "2.28.9"
    assert log.sockets == {0: "eth0"}
    # "NET/IB : Using [RO]; OOB ..." names no device.
    assert log.rdma == {}
    assert {(edge.sender, edge.receiver) for edge in log.edges} == {(0, 1), (1, 0)}
    assert {(edge.kind, edge.device, edge.gdr) for edge in log.edges} == {("NET/Socket", 0, False)}
    assert {log.interface(edge) for edge in log.edges} == {"eth0"}


def test_a_rank_alone_names_no_transport() -> None:
    log = parse((FIXTURES / "single-rank0.txt").read_text())
    assert log.edges == ()
    assert log.sockets == {0: "eth0"}
    assert log.no_rdma == "host-a:561:561 [0] NCCL INFO NET/IB : No device found."


@pytest.mark.parametrize(
    ("said", "kind", "device", "gdr"),
    [
        # 2.18, with the bus id
        ("Channel 00/0 : 1[3b000] -> 0[3b000] [receive] via NET/IB/1", "NET/IB", 1, False),
        ("Channel 02 : 3[ca000] -> 0[87000] [send] via NET/IB/0/GDRDMA", "NET/IB", 0, True),
        # the proxy of another rank sends
        ("Channel 00/0 : 1[1] -> 8[0] [send] via NET/IB/3(0)/GDRDMA/Shared", "NET/IB", 3, True),
        ("Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0/GDRDMA(PCI)", "NET/IB", 0, True),
        # 2.28 and later
        ("Channel 01/0 : 1[0] -> 0[0] [receive] via NET/Socket/0 comm 0x2083dd50 nRanks 02", "NET/Socket", 0, False),
        ("Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Libfabric/0/GDRDMA/flush=None", "NET/Libfabric", 0, True),
        # plug-ins
        ("Channel 00/0 : 8[0] -> 0[0] [receive] via NET/AWS Libfabric/7/GDRDMA", "NET/AWS Libfabric", 7, True),
        ("Channel 03/0 : 47[7] -> 39[7] [receive] via NET/IBext_v8/2", "NET/IBext_v8", 2, False),
        # within a machine, and NVLink between machines
        ("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read", "P2P", None, False),
        ("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC", "P2P", None, False),
        ("Channel 01 : 1[1] -> 0[0] via SHM/direct/direct", "SHM", None, False),
        ("Channel 00/0 : 0[0] -> 4[0] via P2P/MNNVL", "P2P/MNNVL", None, False),
    ],
)
def test_how_releases_name_a_connection(said: str, kind: str, device: int | None, gdr: bool) -> None:
    (edge,) = parse(f"(RayWorkerWrapper pid=927) host-a:927:4797 [0] NCCL INFO {said}\n").edges
    assert (edge.kind, edge.device, edge.gdr) == (kind, device, gdr)


@pytest.mark.parametrize(
    "said",
    [
        "Channel 00/02 :    0   1",
        "Using network IB",
        "NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'",
        "P2P is disabled between connected GPUs 1 and 0. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1.",
        "Initialized NET plugin IB",
    ],
)
def test_what_names_no_connection(said: str) -> None:
    assert parse(f"node-a:194:194 [0] NCCL INFO {said}\n").edges == ()


def test_rdma_devices() -> None:
    log = parse(IB)
    assert log.rdma == {0: "mlx5_0", 1: "mlx5_1"}
    assert [log.interface(edge) for edge in log.edges] == ["mlx5_1"]
    assert parse(MERGED).rdma == {0: "rocep1+rocep2", 2: "mlx5_9"}


def test_several_interfaces() -> None:
    line = "h:1:1 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0> [1]br-05:172.19.0.1<0> [2]v6:fe80::1%v6<0>\n"
    assert parse(line).sockets == {0: "eth0", 1: "br-05", 2: "v6"}


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("NCCL version 2.18.1+cuda12.1", "2.18.1"),
        ("h:1:1 [0] NCCL INFO NCCL version 2.28.9+cuda13.0", "2.28.9"),
        ("h:1:1 [0] NCCL INFO cudaDriverVersion 13000", None),
    ],
)
def test_version(line: str, version: str | None) -> None:
    assert parse(line).version == version
