# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a proof showed: the transport between the nodes, its figures, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.transport import failure, nccl_log, told
from ansible_collections.tandem.vllm.plugins.module_utils.transport.failure import Ended, Problem
from ansible_collections.tandem.vllm.plugins.module_utils.transport.launch import Proof

GLOO = "gloo/tcp"
SOCKET = "NET/Socket"
# Networks that are RDMA, NCCL's own and plug-ins of makers, by how their names begin. NVLink between machines is no
# network to NCCL, and faster.
RDMA = ("NET/IB", "NET/AWS Libfabric", "NET/Libfabric", "NET/OFI", "NET/UCX", "NET/gIB", "P2P/MNNVL")
LOG_LINES = 60


@dataclass(frozen=True)
class Way:
    """How the data went. transport: between nodes, the slowest where there are several; None: not known.

    transports: all, also within nodes; interfaces: those that data left by, found: those that could have been used;
    gdr: None where nothing is RDMA; evidence: the line that shows the transport; no_rdma: the one that says why not.
    """

    transport: str | None
    transports: tuple[str, ...] = ()
    interfaces: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    gdr: bool | None = None
    evidence: str = ""
    no_rdma: str | None = None


def judge(proof: Proof, ended: Ended, log: str) -> tuple[dict[str, Any], list[Problem]]:
    """The result as the module returns it, and what is wrong."""
    said = told.parse(log)
    nccl = nccl_log.parse(log)
    way = over_nccl(proof, nccl) if proof.backend == "nccl" else over_gloo(proof, said.figures)
    found = failure.failures(proof, ended, said, log)
    if not found:
        found = [*_transport_problems(proof, way), *_bandwidth_problems(proof, way, said.figures)]
    return {
        **_report(proof, way, said.figures, nccl),
        "log_tail": _tail(failure.readable(log, said)) if found else [],
    }, found


def progress(proof: Proof, log: str) -> str:
    """How far the proof is, in words."""
    stage = told.parse(log).stage
    if stage is None:
        return "importing PyTorch"
    missing = f"; {failure.by_node(proof, stage.missing)} not there yet" if stage.missing else ""
    return stage.name + missing


def over_nccl(proof: Proof, log: nccl_log.NcclLog) -> Way:
    """The way that NCCL's log tells."""
    # A group within one machine has no other way to speak of.
    between = [edge for edge in log.edges if proof.nodes == 1 or proof.across(edge.sender, edge.receiver)]
    between.sort(key=lambda edge: _speed(edge.kind))
    shown = [edge for edge in between if edge.kind == between[0].kind]
    fast = [edge for edge in between if edge.kind.startswith("NET/") and is_rdma(edge.kind)]
    return Way(
        transport=shown[0].kind if shown else None,
        transports=_unique(edge.kind for edge in log.edges),
        interfaces=_unique(name for name in map(log.interface, shown) if name),
        found=_unique([*log.sockets.values(), *log.rdma.values()]),
        gdr=all(edge.gdr for edge in fast) if fast else None,
        evidence=shown[0].line if shown else "",
        no_rdma=log.no_rdma,
    )


def over_gloo(proof: Proof, figures: told.Figures | None) -> Way:
    """gloo has TCP alone and logs nothing: the interface is the one that the data was counted at."""
    if figures is None:
        return Way(None)
    most = max(figures.sizes, key=lambda size: size.bytes)
    expected = most.runs * most.bytes * told.ring_share(figures.world)
    busy = [name for name, count in most.sent.items() if count >= expected / 2]
    if proof.nodes > 1:
        busy = [name for name in busy if name != "lo"]
    # A bridge or bond counts what its members count: of those, the one that was named.
    used = sorted(busy, key=lambda name: (name != figures.named, -most.sent[name]))[:1]
    return Way(GLOO, (GLOO,), tuple(used), _unique([*used, *busy]))


def _report(proof: Proof, way: Way, figures: told.Figures | None, nccl: nccl_log.NcclLog) -> dict[str, Any]:
    sizes = figures.sizes if figures else ()
    return {
        "backend": proof.backend,
        "transport": way.transport,
        "transports": list(way.transports),
        "interface": ",".join(way.interfaces) or None,
        "interfaces_found": list(way.found),
        "gdr": way.gdr,
        "bus_gbit": _bus_gbit(figures),
        "latency_us": round(figures.latency_us, 1) if figures else None,
        "sizes": [
            {
                "size_bytes": size.bytes,
                "seconds": size.seconds,
                "algorithm_gbit": round(size.algorithm_gbit(), 3),
                "bus_gbit": round(size.bus_gbit(proof.world), 3),
            }
            for size in sizes
        ],
        "world_size": figures.world if figures else None,
        "nccl_version": nccl.version or (figures.nccl if figures else None),
        "torch_version": figures.torch if figures else None,
    }


def _transport_problems(proof: Proof, way: Way) -> list[Problem]:
    if way.transport is None:
        return [
            Problem(
                "transport_not_known",
                "It is not known what the nodes talk over: NCCL's log names no connection between them",
                way.no_rdma or "no line 'Channel ... via ...' of a rank on another node",
                "See that the image's NCCL logs to stdout with NCCL_DEBUG=INFO, and that rank, nodes and processes "
                "are those of the group",
                "docker run --rm --entrypoint python3 IMAGE -c 'import torch; print(torch.cuda.nccl.version())'",
            )
        ]
    if not proof.rdma or proof.nodes == 1 or is_rdma(way.transport):
        return []
    if way.transport == GLOO:
        return [
            Problem(
                "rdma_not_checked",
                "The contract says RDMA, and gloo on CPU cannot show it",
                f"transport {GLOO}",
                "Prove it with the backend nccl on machines with GPUs, or leave expect.rdma out here",
                "ibv_devinfo",
            )
        ]
    return [
        Problem(
            "rdma_not_used",
            f"The contract says RDMA, and the nodes talk over {way.transport}"
            + (f" ({','.join(way.interfaces)})" if way.interfaces else ""),
            " | ".join(line for line in (way.evidence, way.no_rdma) if line),
            "Give the container the RDMA devices (/dev/infiniband, ulimit memlock=-1, IPC_LOCK) and the image "
            "libibverbs, leave NCCL_IB_DISABLE and NCCL_NET unset, and name the devices in NCCL_IB_HCA; or correct the "
            "contract",
            "ibv_devinfo; ls -l /dev/infiniband; show_gids",
        )
    ]


def _bandwidth_problems(proof: Proof, way: Way, figures: told.Figures | None) -> list[Problem]:
    reached = _bus_gbit(figures)
    if proof.minimum_gbit is None or reached is None or reached >= proof.minimum_gbit:
        return []
    used = ",".join(way.interfaces)
    return [
        Problem(
            "bandwidth_below_floor",
            f"The nodes reach {reached:g} Gbit/s, and the contract wants {proof.minimum_gbit:g} Gbit/s at least",
            f"{way.transport or 'unknown transport'} over {used or 'an interface that is not known'}, "
            f"{proof.world} ranks on {proof.nodes} nodes",
            "Look at the link's speed, MTU, errors and limits, and at what else uses it; over sockets, a fast link "
            "wants more of them (NCCL_SOCKET_NTHREADS, NCCL_NSOCKS_PERTHREAD)",
            f"ip -statistics link show {used}; ethtool {used}; tc qdisc show dev {used}"
            if used and way.transport in (SOCKET, GLOO)
            else "ibstat; ip -statistics link show",
        )
    ]


def _bus_gbit(figures: told.Figures | None) -> float | None:
    return round(max(size.bus_gbit(figures.world) for size in figures.sizes), 3) if figures else None


def _speed(kind: str) -> int:
    return 0 if kind == SOCKET else 2 if is_rdma(kind) else 1


def is_rdma(kind: str) -> bool:
    """Whether a transport between nodes is RDMA or better."""
    return kind.startswith(RDMA)


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _tail(log: str) -> list[str]:
    return [line for line in log.splitlines() if line.strip()][-LOG_LINES:]


def message(proof: Proof, found: list[Problem]) -> str:
    """All that is wrong, for a person."""
    return f"{proof.node(proof.rank)}: the transport proof failed. " + " ".join(map(str, found))
