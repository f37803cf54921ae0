# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures of the communication between the ranks of a model: NCCL, gloo, PyTorch's store, RDMA, shared memory.

Spellings are those of NCCL from 2.2 on, of PyTorch from 1.13 on, of gloo and of vLLM. What NCCL says at the level INFO
is no failure by itself. Texts are in tests/fixtures/triage/nccl, a file for each failure; a test holds that every
phrase has one.
"""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.triage.signature import (
    LOW,
    MEDIUM,
    Case,
    Family,
    Kind,
    Signature,
)

# In text without white space: the counters of PyTorch's watchdog.
SEQUENCE = re.compile(
    r"collectiveoperationtimeout:WorkNCCL\((?:SeqNum=(?P<sequence>\d+),)?(?:OpType=(?P<operation>\w+))?[^)]*?"
    r"(?:NumelIn=(?P<numbers>\d+)[^)]*?)?(?:Timeout\(ms\)=(?P<timeout>\d+))?\)",
    re.IGNORECASE,
)
COUNTERS = re.compile(r"lastenqueued(?:NCCL)?work:(-?\d+),lastcompleted(?:NCCL)?work:(-?\d+)", re.IGNORECASE)
WATCHDOG = r"Watchdog caught collective operation timeout"
# So many collectives cannot all belong to the start: a profile run of a deep model takes some hundreds.
MANY_COLLECTIVES = 1000
FEW_COLLECTIVES = 10
# Interfaces that exist on one machine only.
VIRTUAL = (
    r"(?:docker\d|br-[0-9a-f]{12}|veth\w{3}|lxcbr\d|lxdbr\d|virbr\d|tailscale\d|cni\d|flannel|cali\w|wg\d|zt\w{6}"
    r"|podman\d|vmnet\d|kube-)"
)
BOOTSTRAP_VIRTUAL = rf"NCCL INFO (?:Bootstrap:?|NET) ?: ?Using (?:interface )?(?:\[0\])?(?:{VIRTUAL}|lo:127)"
SOCKET_VIRTUAL = rf"NET/Socket ?: ?Using .{{0,600}}?\]{VIRTUAL}"
# Addresses of bridges that every machine has, loopback and link-local ones.
NOWHERE = r"(?:127\.0\.|172\.1[789]\.|10\.0\.3\.1\b|192\.168\.122\.|\[?fe80:|\[?::1|localhost)"
CONNECT_FAILED = (
    r"NCCL WARN (?:socket\w*: |Net : |Call to )?(?:Connect to|connect to|connect|Connect) .{0,80}"
    r"(?:fail|returned|timeout|refused|timed out)"
)
REFUSED = r"(?:Connection refused|Software caused connection abort)"
UNREACHABLE = r"(?:No route to host|Network is unreachable|Connection timed out)"
GLOO_TIMEOUT = r"Timed out waiting \d+ms for (?:send|recv) operation to complete"
GLOO_FAILED = r"Gloo connectFullMesh failed"
BROKEN = (
    CONNECT_FAILED,
    GLOO_FAILED,
    WATCHDOG,
    r"unhandled system error",
    r"client socket has (?:timed out|failed to connect)",
)
INTERFACE_CHECKS = (
    "ip -brief address; ip route get PEER_ADDRESS",
    "docker exec CONTAINER env | grep -E 'NCCL_|GLOO_|VLLM_HOST_IP'",
    "docker logs CONTAINER 2>&1 | grep -E 'NCCL INFO (Bootstrap|NET/)'",
)
NCCL_CHECKS = (
    "NCCL_DEBUG=INFO in the environment of all ranks, then docker logs CONTAINER 2>&1 | grep 'NCCL WARN'",
    "docker exec CONTAINER df -h /dev/shm",
    "journalctl --dmesg --since -1h | grep -E 'Xid|oom|link is down'",
)
UNHANDLED = (
    r"unhandled (?:system|cuda) error(?!:)",
    r"ncclSystemError: System call",
    r"ncclUnhandledCudaError: Call to CUDA function failed",
    r"ncclInternalError: Internal check failed",
    r"ncclRemoteError: A call failed possibly due to a network error",
    r"NCCL Error \d: ",
    r"NCCL error: (?:invalid usage|internal error|remote process exited)",
    r"NCCL WARN socketProgress: Connection closed by remote peer",
    r"pair\.cc:\d+\] Connection (?:reset|closed) by peer",
)


# Rules and facts.


def _number(text: str | None) -> int | None:
    return int(text) if text else None


def _progress(case: Case) -> tuple[int | None, int | None]:
    """Collectives enqueued at the timeout, and done before it; None where the text does not say.

    A counter that was never set holds anything: what is done cannot be more than what was enqueued.
    """
    sequences = [int(match["sequence"]) for match in SEQUENCE.finditer(case.text.squeezed) if match["sequence"]]
    pairs = [(int(enqueued), int(done)) for enqueued, done in COUNTERS.findall(case.text.squeezed)]
    done = [number for enqueued, number in pairs if number <= enqueued]
    return max(sequences, default=None), max(done, default=None)


def _nothing_worked(case: Case) -> bool:
    """Whether the first collective never finished."""
    sequence, done = _progress(case)
    return (sequence is None or sequence < FEW_COLLECTIVES) and (sequence == 1 or (done is not None and done <= 0))


def _much_worked(case: Case) -> bool:
    sequence, done = _progress(case)
    return max(sequence or 0, done or 0) >= MANY_COLLECTIVES


def _little_worked(case: Case) -> bool:
    """Whether it stopped early, without telling that anything had worked."""
    sequence, done = _progress(case)
    return sequence is not None and sequence < FEW_COLLECTIVES and not done


def _watchdog_facts(case: Case) -> dict[str, Any]:
    """sequence: number of the collective; operation; numbers: elements in it; timeout_s; done: finished before."""
    match = SEQUENCE.search(case.text.squeezed)
    sequence, done = _progress(case)
    if not match:
        return {}
    timeout = _number(match["timeout"])
    return {
        "component": "nccl",
        "sequence": sequence,
        "operation": match["operation"],
        "numbers": _number(match["numbers"]),
        "timeout_s": timeout // 1000 if timeout else None,
        "done": done,
    }


def _peer_facts(case: Case) -> dict[str, Any]:
    """component: who could not connect; peer: the address without its port; port."""
    text = case.text
    peer = (
        text.search(r"Connect to (\[?[\w.:%-]*\w\]?)<(\d+)>")
        or text.search(r"remote=\[(?:[\w.-]+/)?([\w.:-]+)\]:(\d+)")
        or text.search(r"trying to connect to \(?([\w.:-]+), ?(\d+)\)")
        or text.search(r"any network address of \( ?([\w.:-]+), ?(\d+)\)")
    )
    component = "nccl" if text.has(r"NCCL WARN") else "gloo" if text.has(r"gloo") else "torch" if peer else None
    return {
        "component": component,
        "peer": peer.group(1).strip("[]") if peer else None,
        "port": int(peer.group(2)) if peer else None,
    }


def _interface_facts(case: Case) -> dict[str, Any]:
    """interfaces: those that NCCL uses, with their addresses; asked_for: the one that was named and is not there."""
    used = case.text.facts(r"(?:Bootstrap ?: ?Using |\[\d+\])([\w.-]+:[\w.:%-]*\w)<\d+>")
    return {
        **_peer_facts(case),
        "interfaces": used,
        "asked_for": case.text.fact(r"Unable to find (?:address|interface) for: (\[?[^\s\]]+\]?)")
        or case.text.fact(r"SOCKET_IFNAME set (?:by environment )?to ([\w=^,.-]+)"),
    }


def _shm_facts(case: Case) -> dict[str, Any]:
    size = case.text.fact(r"\(size (\d+)\)")
    free = case.text.fact(r"(?:/dev/shm) has only (\d+) bytes")
    return {"segment_bytes": _number(size), "shm_bytes": _number(free)}


def _rdma_facts(case: Case) -> dict[str, Any]:
    return {
        "device": case.text.fact(r"(?:on dev |dev(?:ice)? )(\w*(?:mlx5?|bnxt_re|irdma|efa|rocep)\w*:?\d*)"),
        "status": _number(
            case.text.fact(r"(?:completion (?:from peer .{0,80}?)?with (?:error|status)|status) ?[=: ] ?(\d+)")
        ),
    }


def _needs(_case: Case) -> dict[str, Any]:
    return {"needs": ["NCCL_DEBUG=INFO", "NCCL WARN lines of every rank", "first error of the other ranks"]}


KINDS = (
    Kind(
        "wrong_network_interface",
        "NCCL or gloo uses an interface that does not lead to the other nodes (a bridge of Docker, a veth, a VPN, the "
        "loopback), or one was named that is not there: set NCCL_SOCKET_IFNAME (as =NAME, exactly), GLOO_SOCKET_IFNAME "
        "and TP_SOCKET_IFNAME on each host to the interface with the route to its peers. gloo takes one plain name. "
        "The names may differ from host to host.",
        "ip -brief address; ip route get PEER_ADDRESS; docker exec CONTAINER env | grep SOCKET_IFNAME",
        facts=_interface_facts,
    ),
    Kind(
        "network_unreachable_between_nodes",
        "A node cannot reach another at the address and port that it was given: a firewall between them, an interface "
        "on another network, or the other side is not there (yet). Open all ports between the nodes (the ephemeral "
        "ones too), and pin the interface (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME, VLLM_HOST_IP).",
        "ip route get PEER_ADDRESS; nc -vz PEER_ADDRESS PORT; nft list ruleset",
        because_of=("wrong_network_interface", "node_ip_mismatch", "vllm_host_ip_same_on_all_nodes", "node_lost"),
        facts=_peer_facts,
    ),
    Kind(
        "nccl_init_hang",
        "The very first collective never finished, so no transport works yet: peer-to-peer blocked by IOMMU or ACS, "
        "a wrong interface, blocked ports, a rank that is missing. A longer timeout does not help. Try "
        "NCCL_DEBUG=INFO, then NCCL_P2P_DISABLE=1 on one machine, then the interface between machines.",
        "docker logs CONTAINER 2>&1 | grep -E 'NCCL (WARN|INFO (Bootstrap|NET/|Channel))' | tail -n 40",
        because_of=(
            "wrong_network_interface",
            "network_unreachable_between_nodes",
            "rdma_path_broken",
            "rdma_memlock_limit",
            "shm_too_small",
            "vllm_host_ip_same_on_all_nodes",
            "node_lost",
            "gpu_fell_off_bus",
            "gpu_requires_reset",
        ),
        facts=_watchdog_facts,
    ),
    Kind(
        "nccl_timeout_mid_run",
        "Collectives had worked for long, so interface and firewall are fine: one rank stopped taking part (it "
        "crashed, stalled, or met a defect of the engine). Look at the first error of the other ranks, at Xid lines "
        "and at the link; then upgrade the engine.",
        "docker logs CONTAINER 2>&1 | grep -E 'ERROR|Error' | head -n 20; journalctl --dmesg --since -2h | grep -E "
        "'Xid|oom|link is down'",
        because_of=(
            "node_lost",
            "host_ram_oom",
            "gpu_out_of_memory",
            "gpu_fell_off_bus",
            "gpu_requires_reset",
            "cuda_kernel_error",
            "rdma_path_broken",
            "network_unreachable_between_nodes",
        ),
        facts=_watchdog_facts,
    ),
    Kind(
        "nccl_unknown",
        "NCCL failed, and this text does not say why: it wants the lines NCCL WARN of every rank, which come with "
        "NCCL_DEBUG=INFO in the environment of the containers. Shared memory, interfaces and firewalls, RDMA and a "
        "rank that died before are the usual causes.",
        "docker logs CONTAINER 2>&1 | grep 'NCCL WARN'; docker exec CONTAINER df -h /dev/shm",
        because_of=("wrong_network_interface", "network_unreachable_between_nodes", "shm_too_small", "node_lost"),
        facts=_needs,
    ),
    Kind(
        "shm_too_small",
        "In the container /dev/shm is full or too small (Docker gives 64 MiB): start it with --ipc=host or "
        "--shm-size=16g, and remove what earlier runs left in /dev/shm. Errors of NCCL beside it are its "
        "consequences.",
        "docker exec CONTAINER df -h /dev/shm; docker inspect --format '{{.HostConfig.ShmSize}} "
        "{{.HostConfig.IpcMode}}' CONTAINER",
        facts=_shm_facts,
    ),
    Kind(
        "rdma_path_broken",
        "The RDMA devices are there, but do not reach each other: check the link of each, the GID index "
        "(NCCL_IB_GID_INDEX, the RoCE v2 entry of show_gids), the subnet, switches (PFC), and NCCL_IB_HCA; rails that "
        "are not connected want NCCL_CROSS_NIC=0. NCCL_IB_DISABLE=1 shows whether plain sockets work.",
        "show_gids; ibstat; ib_write_bw -d DEVICE PEER_ADDRESS",
        facts=_rdma_facts,
    ),
    Kind(
        "rdma_memlock_limit",
        "RDMA may not lock memory: start the container with --ulimit memlock=-1, --cap-add IPC_LOCK and the devices "
        "of /dev/infiniband.",
        "docker exec CONTAINER sh -c 'ulimit -l; ls -l /dev/infiniband'",
        facts=_rdma_facts,
    ),
    Kind(
        "nccl_duplicate_gpu",
        "Two ranks use the same GPU: each rank needs its own. Check CUDA_VISIBLE_DEVICES, the GPUs that each Ray node "
        "and each container got, and the sizes of tensor and pipeline parallelism.",
        "nvidia-smi -L; docker exec CONTAINER env | grep VISIBLE_DEVICES",
    ),
)

SIGNATURES = (
    # Interfaces
    Signature(
        "wrong_network_interface",
        (
            r"Bootstrap ?: ?no socket interface found",
            r"no NCCL_SOCKET_IFNAME interface found",
            r"connecting to address (?:.{0,60} )?with family \d+ is neither AF_INET",
            r"ifa != nullptr\. Unable to find (?:address|interface) for",
            r"makeDeviceForInterface\(\): unsupported gloo device",
        ),
        advice="The interface that was named is not there, or its name is written in a way that this library does not "
        "take: NCCL takes =NAME, lists and ^NAME, gloo one plain name only. Set each host's own interface.",
    ),
    Signature(
        "wrong_network_interface",
        (BOOTSTRAP_VIRTUAL, SOCKET_VIRTUAL),
        when=lambda case: any(map(case.text.has, BROKEN)),
    ),
    Signature(
        "wrong_network_interface",
        (
            rf"{CONNECT_FAILED}.{{0,40}}{REFUSED}",
            rf"{GLOO_FAILED}.{{0,200}}{REFUSED}",
        ),
        needs=(rf"(?:Connect to \[?|remote=\[(?:[\w.-]+/)?){NOWHERE}",),
        advice="The address that could not be reached is one that every machine has (loopback, a bridge of Docker, "
        "link-local): the other side advertised the wrong interface. Set NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME on "
        "each host to the interface between the nodes.",
    ),
    Signature("wrong_network_interface", (r"Using the loopback address as fallback",), needs=(GLOO_FAILED,)),
    Signature(
        "wrong_network_interface",
        (BOOTSTRAP_VIRTUAL, r"Using the loopback address as fallback"),
        MEDIUM,
        unless=(r"Init COMPLETE", r"nNodes 1 ", r"Application startup complete"),
        checks=INTERFACE_CHECKS,
    ),
    Signature(
        "wrong_network_interface",
        (
            rf"{GLOO_FAILED} with \[?.{{0,120}}pair\.cc:\d+\] ?(?:no error|timed out connecting)",
            r"makeDeviceForHostname\(\): unsupported gloo device",
        ),
        MEDIUM,
        unless=(UNREACHABLE,),
        checks=INTERFACE_CHECKS,
    ),
    # The way between the nodes
    Signature(
        "network_unreachable_between_nodes",
        (
            rf"NCCL WARN .{{0,160}}{UNREACHABLE}",
            rf"{GLOO_FAILED}.{{0,200}}{UNREACHABLE}",
        ),
        unless=(r"ibv_\w+ failed",),
    ),
    Signature(
        "network_unreachable_between_nodes",
        (
            rf"client socket has failed to connect to .{{0,100}}{UNREACHABLE}",
            r"client socket has timed out after \d+m?s while trying to connect to",
        ),
        advice="This rank cannot reach the address where the first rank keeps its store: a firewall, an address of "
        "another network (VLLM_HOST_IP), or the first rank is not up.",
    ),
    Signature(
        "network_unreachable_between_nodes",
        (
            rf"{CONNECT_FAILED}.{{0,40}}{REFUSED}",
            rf"{GLOO_FAILED}.{{0,200}}Connection refused",
            r"client socket has failed to connect to any network address of",
            r"Timed out after \d+ seconds waiting for clients\. \d+/\d+ clients joined",
        ),
        MEDIUM,
        checks=("nc -vz PEER_ADDRESS PORT", "docker logs --tail 50 CONTAINER", *INTERFACE_CHECKS),
        advice="Nothing listens at the address and port of the other side: its process died or was not started (its "
        "own log says why), or it advertised the address of another interface.",
    ),
    # Hangs
    Signature("nccl_init_hang", (WATCHDOG,), when=_nothing_worked),
    Signature("nccl_timeout_mid_run", (WATCHDOG,), when=_much_worked),
    Signature("nccl_init_hang", (WATCHDOG,), MEDIUM, when=_little_worked, checks=NCCL_CHECKS),
    Signature(
        "nccl_timeout_mid_run",
        (WATCHDOG,),
        MEDIUM,
        when=lambda case: not (_nothing_worked(case) or _little_worked(case) or _much_worked(case)),
        checks=NCCL_CHECKS,
    ),
    Signature("nccl_init_hang", (GLOO_TIMEOUT,), MEDIUM, needs=(r"is_in_the_same_node",), checks=NCCL_CHECKS),
    Signature(
        "nccl_timeout_mid_run",
        (GLOO_TIMEOUT,),
        MEDIUM,
        unless=(r"is_in_the_same_node",),
        checks=NCCL_CHECKS,
        advice="A rank waited for another in vain: it crashed, stalled, or was not started. Look at the first error of "
        "the other ranks.",
    ),
    Signature(
        "nccl_timeout_mid_run",
        (
            r"watchdog got stuck for \d+ seconds without making progress",
            r"Heartbeat monitor timed out! Process will be terminated",
            r"RPC call to \w+ timed out",
        ),
        MEDIUM,
        checks=NCCL_CHECKS,
        advice="A rank makes no progress: it waits for another that stopped, or hangs in a kernel. Look at the first "
        "error of the other ranks, at Xid lines and at the link.",
    ),
    # Shared memory
    Signature(
        "shm_too_small",
        (
            r"Error while creating shared memory segment",
            r"Call to posix_fallocate failed ?: No space left on device",
            r"caused by insufficient shared memory",
            r"workers are out of shared memory",
            r"unable to (?:write to|allocate shared memory\(shm\) for) file </torch_",
            r"configured object store size .{0,40}exceeds /dev/shm size",
            r"No space left on device:? '?/(?:dev/shm|psm_)",
            r"shm \d+M \d+M 0 100% /dev/shm",
        ),
    ),
    Signature(
        "shm_too_small",
        (
            r"Error while attaching to shared memory segment /dev/shm",
            r"Bus error \(core dumped\)",
            r"unexpected bus error encountered",
        ),
        MEDIUM,
        checks=("docker exec CONTAINER df -h /dev/shm", "docker inspect --format '{{.HostConfig.IpcMode}}' CONTAINER"),
        advice="A rank cannot use the shared memory of another: /dev/shm is full, or the ranks of one machine run in "
        "containers that do not share it. Use --ipc=host, or enough --shm-size for one container with all ranks.",
    ),
    # RDMA
    Signature(
        "rdma_memlock_limit",
        (
            r"ibv_(?:reg_mr\w*|create_\w+) failed with (?:error )?(?:\d+ )?Cannot allocate memory",
            r"RLIMIT_MEMLOCK is .{0,40}too (?:small|low)",
        ),
    ),
    Signature(
        "rdma_path_broken",
        (
            r"ibv_modify_qp failed with",
            r"NET/IB ?: ?(?:[\w.:]+ )?Got completion (?:from peer .{0,100})?with (?:error|status)",
            r"NET/IB ?: ?Got async event ?: ?(?:port error|GID table change|device fatal)",
        ),
    ),
    Signature("nccl_duplicate_gpu", (r"Duplicate GPU detected",)),
    # What does not decide
    Signature("nccl_unknown", UNHANDLED, LOW, unless=(r"Duplicate GPU detected",), checks=NCCL_CHECKS),
)

FAMILY = Family("nccl", KINDS, SIGNATURES)
