# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a text says of a Ray cluster: addresses, versions, nodes, GPUs free and asked for."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.triage.signature import Case

NODE = r"[\w.:-]*\w"
RAY_VERSION = r"(\d+\.\d+\.\d+(?:\.?(?:dev|rc|post)\d+)?)"
PYTHON_VERSION = r"(\d+\.\d+\.\d{1,2}(?:(?:rc|a|b)\d+)?)"
STARTED_WITH = rf"was started with:\s*Ray:\s*{RAY_VERSION}\s*Python:\s*{PYTHON_VERSION}"
CLUSTER_AND_PROCESS = rf"cluster {STARTED_WITH}.{{0,40}}?This process on (?:node )?(.{{1,80}}?) {STARTED_WITH}"
CLIENT_AND_SERVER = r"client is ([\d.]+\d)\s*,\s*server is ([\d.]+\d)"
NCCL_VERSIONS = r"Mismatched NCCL version detected\s*:\s*rank \d+ version (\d+) rank \d+ version (\d+)"
# In ray status: "2.0/4.0 GPU (2.0 used of 4.0 reserved in placement groups)".
NUMBER = r"([\d.]+(?:e[+-]?\d+)?)"
GPU_USAGE = rf"{NUMBER}/{NUMBER} GPU"
GPU_RESERVED = rf"{GPU_USAGE} \({NUMBER} used of {NUMBER} reserved in placement groups\)"
UP = (r"Ray runtime started", r"Connected to Ray cluster")
WAITS_FOR_GPUS = (
    r"pending placement group",
    r"Waiting for creating a placement group",
    r"Cannot provide a placement group",
    r"Current node has no GPU available",
    r"can fulfill resource request",
)
# In text without white space.
PENDING_GROUP = re.compile(r"((?:\{[^{}]*\}\*\d+,?)+)(?:\(\w+\))?:\d+\+?pendingplacementgroup")
GROUP_SPECS = re.compile(r"specs=(\[\{[^\]]*\}\])")
NODE_REQUEST = r"can fulfill resource request \{[^}]{0,60}'node:"
# GPUs asked for and given are floating point numbers.
NEARLY = 0.01


def came_up(case: Case, *failure: str) -> bool:
    """Whether the text says, after the last of these phrases, that Ray started or was reached."""
    return case.text.last(*UP) > case.text.last(*failure)


def address(case: Case) -> dict[str, Any]:
    """address: the head's, host and port, that was tried last in vain."""
    found = case.text.facts(
        r"(?:GCS at(?: address)?|cluster at address:?|not found at|running at|last error: .{0,40}?ipv4:) ?"
        rf"({NODE}:\d+)"
    )
    return {"address": found[-1] if found else None}


def versions(case: Case) -> dict[str, Any]:
    """mismatch: by name, versions of the cluster and of the process that joins; ray_equal: Ray's own are the same."""
    both = case.text.search(CLUSTER_AND_PROCESS)
    if both:
        ray, python, node, other_ray, other_python = both.groups()
        pairs = {"ray": [ray, other_ray], "python": [python, other_python]}
        differ = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
        return {"mismatch": differ, "ray_equal": "ray" not in differ, "node": node}
    nccl = case.text.search(NCCL_VERSIONS)
    if nccl:
        return {"mismatch": {"nccl": [_nccl_version(number) for number in nccl.groups()]}}
    pair = case.text.search(CLIENT_AND_SERVER)
    name = "python" if case.text.has(r"Python (?:minor )?versions differ") else "ray"
    return {"mismatch": {name: [pair.group(2), pair.group(1)]} if pair else None}


def _nccl_version(number: str) -> str:
    """21805 as "2.18.5"."""
    value = int(number)
    return "%d.%d.%d" % (value // 10000, value // 100 % 100, value % 100)


def unique_addresses(case: Case) -> tuple[int | None, int | None]:
    """How many nodes and how many addresses vLLM counted, where the text says so."""
    if "unique_addresses" not in case.text.worked_out:
        count = case.text.search(r"Got (\d+) nodes? with\s*node ids")
        nodes = int(count.group(1)) if count else None
        count = case.text.search(r"(?<!\d)(\d+) unique IP address(?:es)?(?: |\{|:|\.)")
        addresses = int(count.group(1)) if count else None
        if addresses is None:
            listed = case.text.fact(r"unique IP address(?:es)? (\{[^}]*\})")
            addresses = len(set(re.findall(r"'([^']+)'", listed))) if listed else None
        case.text.worked_out["unique_addresses"] = (nodes, addresses)
    counted: tuple[int | None, int | None] = case.text.worked_out["unique_addresses"]
    return counted


def more_addresses(case: Case) -> bool:
    """Whether vLLM counted more addresses than nodes."""
    nodes, addresses = unique_addresses(case)
    return nodes is not None and addresses is not None and addresses > nodes


def fewer_addresses(case: Case) -> bool:
    """Whether vLLM counted fewer addresses than nodes."""
    nodes, addresses = unique_addresses(case)
    return nodes is not None and addresses is not None and addresses < nodes


def addresses(case: Case) -> dict[str, Any]:
    """nodes, unique_ips: numbers; addresses: those listed; wanted: a node that was asked for; severity: warning."""
    nodes, unique = unique_addresses(case)
    listed = case.text.fact(r"unique IP address(?:es)? (\{[^}]*\})")
    raylet = r"cannot find a local Raylet with the same address"
    return {
        "nodes": nodes,
        "unique_ips": unique,
        "addresses": re.findall(r"'([^']+)'", listed or "")
        or case.text.facts(r"This node has an IP address of ([\w.:]*\w),"),
        "wanted": wanted_node(case),
        "severity": "warning" if case.text.has(raylet) and case.text.has(UP[0]) else None,
    }


def wanted_node(case: Case) -> str | None:
    """Address of the node that a placement group asks for."""
    return case.text.fact(rf"'node:({NODE})':")


def connected_to(case: Case) -> str | None:
    """Address of the head that the driver talks to, without its port."""
    return case.text.fact(r"Connecting to existing Ray cluster at address: ([\w.-]+):\d+")


def wanted_gpus(case: Case) -> int | None:
    """GPUs that the placement group asks for."""
    text = case.text
    said = text.fact(r"(?:requiring |Required number of devices: ?)(\d+)")
    if said:
        return int(said)
    rows = PENDING_GROUP.findall(text.squeezed)
    if rows:
        return sum(int(count) for count in re.findall(r"'GPU':1\.0[^}]*\}\*(\d+)", rows[-1]))
    specs = GROUP_SPECS.findall(text.squeezed)
    return specs[-1].count("'GPU'") if specs else None


def gpu_usage(case: Case) -> dict[str, float] | None:
    """GPUs of the whole cluster as ray status shows them: used, total, pg_used, pg_reserved, free."""
    match = case.text.search(GPU_RESERVED) or case.text.search(GPU_USAGE)
    if not match:
        return None
    used, total, pg_used, pg_reserved = (*map(float, match.groups()), 0.0, 0.0)[:4]
    return {
        "used": used,
        "total": total,
        "pg_used": pg_used,
        "pg_reserved": pg_reserved,
        "free": total - used + pg_used - pg_reserved,
    }


def gpus_are_free(case: Case) -> bool:
    """Whether ray status, in the text, has as many free GPUs as are asked for."""
    usage, wanted = gpu_usage(case), wanted_gpus(case)
    return bool(usage and wanted and usage["free"] > wanted - NEARLY)


def gpus_are_reserved(case: Case) -> bool:
    """Whether other placement groups hold the GPUs that one waits for."""
    usage = gpu_usage(case)
    if not usage or usage["pg_reserved"] < NEARLY or not any(map(case.text.has, WAITS_FOR_GPUS)):
        return False
    # All of them together would be enough, so it is not the number of GPUs that lacks.
    return usage["free"] < (wanted_gpus(case) or 1) - NEARLY and usage["total"] > (wanted_gpus(case) or 1) - NEARLY


def node_unknown(case: Case) -> bool:
    """Whether the node asked for is none of Ray's, surely: GPUs are free, or the head has another address."""
    wanted, head = wanted_node(case), connected_to(case)
    return gpus_are_free(case) or bool(wanted and head and wanted != head)


def node_likely_unknown(case: Case) -> bool:
    """Whether nothing speaks for a lack of GPUs on the node that is asked for."""
    wanted, head = wanted_node(case), connected_to(case)
    return (wanted is None or wanted != head) and not case.text.has(r"number of required GPUs exceeds")


def placement(case: Case) -> dict[str, Any]:
    """What was asked for: wanted (node), gpus_wanted; gpus: see gpu_usage; needs: what decides."""
    return {
        "wanted": wanted_node(case),
        "gpus_wanted": wanted_gpus(case),
        "gpus": gpu_usage(case),
        "needs": ["ray status", "ray list nodes"],
    }


def lost_node(case: Case) -> dict[str, Any]:
    """node_id and address of the first node that is gone."""
    return {
        "node_id": case.text.fact(r"node (?:with )?(?:node |client )?id:?\s*([0-9a-f]{40,56})")
        or case.text.fact(r"Node Id: ([0-9a-f]{40,56})"),
        "address": case.text.fact(rf"(?:and|,) (?:ip|address): ({NODE})"),
    }


def dead_worker(case: Case) -> dict[str, Any]:
    """pid, exit_type, exit_code of the worker, address of its node; needs: what decides."""
    pid = case.text.fact(r"(?:Worker PID: |\bpid: ?)(\d+)")
    code = case.text.fact(r"exit ?code:? (-?\d+)")
    return {
        "pid": int(pid) if pid else None,
        "exit_type": case.text.fact(r"Worker exit type: ([A-Z_]+[A-Z])"),
        "exit_code": int(code) if code else None,
        "address": case.text.fact(r"\bip: \[?([\d.]+\d)"),
        "needs": ["dmesg | grep -i oom", "raylet.out", "first error of that worker pid"],
    }
