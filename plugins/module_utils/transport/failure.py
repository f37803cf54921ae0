# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a proof did not come to figures."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.tandem.vllm.plugins.module_utils.transport import script
from ansible_collections.tandem.vllm.plugins.module_utils.transport.launch import LABEL_KEY, LABEL_VALUE, Proof
from ansible_collections.tandem.vllm.plugins.module_utils.transport.told import RankError, Told
from ansible_collections.tandem.vllm.plugins.module_utils.triage import gpu, memory, nccl, server
from ansible_collections.tandem.vllm.plugins.module_utils.triage.engine import Cause, triage
from ansible_collections.tandem.vllm.plugins.module_utils.triage.signature import LOW

# What can go wrong between ranks, and what goes wrong on the way there.
FAMILIES = (nccl.FAMILY, gpu.FAMILY, memory.FAMILY, server.FAMILY)
# What only says that something ended; here it is another rank.
NO_CAUSE = ("engine_died_unknown", "worker_died_unknown")
LOST = re.compile(r"Connection was likely closed|Connection (?:reset|closed) by |Broken pipe|remote process exited")
GIVEN_UP = re.compile(r"not done within \d+ s")


@dataclass(frozen=True)
class Ended:
    """How the container ended. found: it was there; timed_out: it had not ended; error: Docker's."""

    found: bool
    timed_out: bool = False
    exit_code: int | None = None
    oom_killed: bool = False
    error: str = ""


@dataclass(frozen=True)
class Problem:
    """One thing wrong. id: failure_triage_info's, or one of the module's; says: what, in words."""

    id: str
    says: str
    evidence: str
    advice: str
    next_command: str

    def __str__(self) -> str:
        return "{} ({}: {}). {}. Next: {}.".format(
            self.says, self.id, self.evidence.rstrip("."), self.advice.rstrip("."), self.next_command
        )


def failures(proof: Proof, ended: Ended, told: Told, log: str) -> list[Problem]:
    """What went wrong on this node; [] where all its ranks came to their end."""
    if not ended.found:
        return [_gone(proof, ended)]
    if ended.oom_killed:
        return [_out_of_memory(proof)]
    first = next((error for error in told.errors if not error.stopped), None)
    if first is not None and first.missing:
        return [_rank_missing(proof, first)]
    if first is None and told.figures is not None and ended.exit_code == 0:
        return []
    return [_failed(proof, ended, first, readable(log, told))]


def by_node(proof: Proof, ranks: Sequence[int]) -> str:
    """Ranks with the names of their nodes."""
    found: dict[int, list[str]] = {}
    for rank in ranks:
        found.setdefault(rank // proof.processes, []).append(str(rank))
    return "; ".join(
        "{} of {}".format(
            "rank " + numbers[0] if len(numbers) == 1 else "ranks " + ", ".join(numbers), proof.node(node)
        )
        for node, numbers in found.items()
    )


def not_started(proof: Proof, said: str) -> Problem:
    """Docker did not start the container."""
    evidence = " | ".join(line.strip() for line in said.splitlines() if line.strip() and "--help" not in line)
    says = f"The container {proof.name} could not be started"
    if "no such image" in said.lower():
        advice = "Bring the launch image to this node first"
        return Problem("image_missing", says, evidence, advice, "docker image ls --digests")
    cause = _likeliest(said)
    if cause is not None:
        return Problem(cause.id, says, evidence, cause.advice, cause.next_command)
    return Problem("not_started", says, evidence, "Read Docker's words", "systemctl status docker.service")


def not_ours(proof: Proof) -> Problem:
    """A container of that name is another's."""
    return Problem(
        "name_taken",
        f"There is a container {proof.name} that is no transport proof, and it is left alone",
        f"it has no label {LABEL_KEY}={LABEL_VALUE}",
        "Give the proof another name",
        shlex.join(["docker", "container", "inspect", proof.name]),
    )


def not_removed(proof: Proof, why: str) -> Problem:
    """Docker did not take the container away."""
    return Problem(
        "container_left_behind",
        f"The container {proof.name} could not be removed",
        why,
        "Remove it by hand",
        shlex.join(["docker", "rm", "--force", proof.name]),
    )


def _gone(proof: Proof, ended: Ended) -> Problem:
    return Problem(
        "container_gone",
        f"There is no container {proof.name} to collect",
        ended.error or "Docker does not know it",
        "Run the step start on every node of the group first, with the same name",
        "docker ps --all",
    )


def _out_of_memory(proof: Proof) -> Problem:
    return Problem(
        "host_ram_oom",
        "A rank was killed for memory",
        f"Docker says that {proof.name} was killed for memory",
        "Give the container more memory, or the proof smaller sizes_mib",
        "journalctl --dmesg --since -10m | grep -i oom",
    )


def _rank_missing(proof: Proof, error: RankError) -> Problem:
    nodes = ", ".join(map(proof.node, dict.fromkeys(rank // proof.processes for rank in error.missing)))
    return Problem(
        "rank_missing",
        f"Not all ranks came: {by_node(proof, error.missing)}",
        f"rank {error.rank}: {error.error}",
        f"Read what the proof says on {nodes}: it was not started there within {proof.timeout} s, died, or cannot "
        f"reach {proof.address}:{proof.port}",
        f"on {nodes}: ip route get {proof.address}; docker ps --all",
    )


def _failed(proof: Proof, ended: Ended, error: RankError | None, log: str) -> Problem:
    says, evidence = _words(proof, ended, error, log)
    cause = _likeliest(log)
    lost = next((line.strip() for line in log.splitlines() if LOST.search(line)), None)
    if lost and (cause is None or cause.confidence == LOW):
        advice = "Another rank ended first: what the proof says on the other nodes is the cause"
        return Problem("other_rank_failed", says, lost, advice, _command(proof, None))
    if cause is not None:
        return Problem(cause.id, says, cause.evidence, cause.advice, _command(proof, cause))
    if error is not None and error.stage in (script.CONNECT, script.FIRST) and GIVEN_UP.match(error.error):
        return _no_way(proof, says, evidence)
    advice = "No known cause is in the log: read log_tail, here and on the other nodes"
    return Problem("unknown", says, evidence, advice, _command(proof, None))


def _no_way(proof: Proof, says: str, evidence: str) -> Problem:
    return Problem(
        "ranks_cannot_connect",
        says,
        evidence,
        f"All ranks reach {proof.address}:{proof.port}, but not each other: open all ports between the nodes, the "
        "ephemeral ones too, and pin the interface on each (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME)",
        _command(proof, None) + "; nft list ruleset",
    )


def _command(proof: Proof, cause: Cause | None) -> str:
    """The next command; of the triage's those that need no container, as it is gone."""
    parts = [part.strip() for part in cause.next_command.split(";")] if cause else []
    known = "; ".join(part for part in parts if "CONTAINER" not in part)
    details = cause.details if cause else {}
    peer, port = details.get("peer") or proof.address, details.get("port") or proof.port
    command = known or "ip -brief address; ip route get PEER_ADDRESS"
    return command.replace("PEER_ADDRESS", str(peer)).replace(" PORT", f" {port}")


def _words(proof: Proof, ended: Ended, error: RankError | None, log: str) -> tuple[str, str]:
    """What happened, and what shows it."""
    if error is not None:
        first = error.error.strip().partition("\n")[0]
        if error.stage == script.STORE:
            return f"Rank {error.rank} cannot reach the first rank at {proof.address}:{proof.port}", first
        if error.stage == script.SUM:
            return "The ranks' sum is wrong: what arrives is not what was sent", first
        return f"Rank {error.rank} failed at: {error.stage}", first
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    last = lines[-1] if lines else ended.error or "the log is empty"
    if ended.timed_out:
        return f"The container had not ended after {proof.timeout} s", last
    return f"The container ended with {ended.exit_code} and told no figures", last


def readable(log: str, told: Told) -> str:
    """The log without the program's lines and the stacks of C++, and what the program tells of errors."""
    lines = [line for line in log.splitlines() if not line.startswith(script.MARK)]
    lines += [line for error in told.errors for line in error.error.splitlines()]
    return "\n".join(line for line in lines if not line.startswith("frame #"))


def _likeliest(text: str) -> Cause | None:
    return next((cause for cause in triage(text, families=FAMILIES) if cause.id not in NO_CAUSE), None)
