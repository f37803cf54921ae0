# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why `ray` answered nothing: the cause, in the words of the triage's Ray family."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

# Host and port, as Ray names a GCS; an IPv6 address stands in brackets.
ADDRESS = r"(?P<address>\[[0-9A-Fa-f:.]+\]:\d+|[\w.-]+:\d+)"


@dataclass(frozen=True)
class Cause:
    """root_cause: an id, or None where the family has none for it. reachable: whether the GCS answered, None unknown.

    retryable: whether it can pass by itself; remedy: words; final: nothing but an error follows such a line.
    """

    pattern: re.Pattern[str]
    root_cause: str | None
    reachable: bool | None
    retryable: bool
    remedy: str
    final: bool = True


@dataclass(frozen=True)
class Trouble:
    """A cause that was found. line: number of it, from 0; reason: the line; address: the one it names, or None."""

    cause: Cause
    line: int
    reason: str
    address: str | None


def _cause(
    pattern: str,
    root_cause: str | None,
    remedy: str,
    *,
    reachable: bool | None = False,
    retryable: bool = True,
    final: bool = True,
) -> Cause:
    return Cause(re.compile(pattern, re.IGNORECASE), root_cause, reachable, retryable, remedy, final)


# The first that a text has is its cause: what comes from a mismatch or an empty address also ends in timeouts.
CAUSES = (
    _cause(
        r"Ray version mismatch|\bVersion mismatch: The cluster was started with|Mismatched Ray version",
        "version_mismatch",
        "use the same image (Ray, and Python to the patch) on all nodes",
        reachable=True,
        retryable=False,
    ),
    _cause(
        r"Malformed (?:address|host)\b|Invalid address format|Invalid address port|"
        r"(?:at|to)(?: address)?:? ['\"]?:\d+|--address[= ]['\"]?:\d+|--address[= ]?(?:''|\"\")|"
        r"RAY_ADDRESS[= ]['\"]?:\d+|invalid (?:bootstrap )?address ['\"]{2}",
        "ray_head_address_empty",
        "the head's address is empty: set it to <address of the head>:<port>",
        retryable=False,
    ),
    _cause(
        rf"Ray cluster is not found at {ADDRESS}|Ray cluster is not found at",
        "ray_not_running_at_address",
        "no Ray head answers there: start it, or correct the address (RAY_ADDRESS, /tmp/ray/ray_current_cluster)",
    ),
    _cause(
        r"Could not find any running Ray instance|No running Ray instance|Ray has not been started yet|"
        r"Can't find a `?node_ip_address\.json`? file",
        "ray_not_running_here",
        "no Ray node runs in this container: start one, or give the head's address",
    ),
    _cause(
        r"Timed out while waiting for GCS|Failed to get cluster ID from GCS|Failed to connect to GCS|"
        r"Unable to connect to GCS|Unable to connect to (?:the )?Redis|GCS (?:server )?(?:is )?unavailable|"
        r"Error 11[013] connecting to|failed to connect to all addresses|StatusCode\.(?:UNAVAILABLE|DEADLINE_EXCEEDED)|"
        r"RpcError: .*(?:Deadline Exceeded|connection refused|unavailable)",
        "ray_gcs_unreachable",
        "the head is down, its address is stale, or a firewall or a wrong interface is between: "
        "probe the TCP port from this node",
    ),
    _cause(
        r"Found multiple active Ray instances",
        None,
        "several Ray clusters run in this container: give the address of the one that is meant",
        retryable=False,
        # The same words are a warning where Ray then chooses the latest.
        final=False,
    ),
    _cause(
        r"Failed to connect to (?:the )?API server|Failed to make request to http\S+/api/v0/",
        None,
        "`ray list nodes` asks the dashboard, which is off: `ray status -v` and the container's own look need none",
        reachable=None,
        retryable=False,
    ),
    _cause(
        r"\bray: (?:command )?not found|No module named '?ray\b|\"ray\": executable file not found|"
        r"unrecognized command .*\bray\b|exec: \"ray\"",
        None,
        "the image has no Ray: use one with Ray, or the image derived with the wheelhouse",
        retryable=False,
    ),
    _cause(
        r"No such container|container \S+ is not running|Container \S+ is restarting",
        None,
        "start the Ray container, and look at 'docker logs' of it when it does not stay up",
    ),
)
HINT = re.compile(rf"(?:existing Ray cluster at address: |GCS at address |GCS at |not found at ){ADDRESS}")


def find(lines: list[str]) -> Trouble | None:
    """The cause of an error in a text; None where it has none that is known."""
    for cause in CAUSES:
        for number, line in enumerate(lines):
            if cause.pattern.search(line):
                return Trouble(cause, number, line.strip(), _address(lines))
    return None


def facts(trouble: Trouble) -> dict[str, Any]:
    """The cause as part of a result: reachable, root_cause, reason, remedy, retryable, address."""
    return {
        "reachable": trouble.cause.reachable,
        "root_cause": trouble.cause.root_cause,
        "reason": trouble.reason,
        "remedy": trouble.cause.remedy,
        "retryable": trouble.cause.retryable,
        "address": trouble.address,
    }


def _address(lines: list[str]) -> str | None:
    for line in lines:
        hint = HINT.search(line)
        if hint:
            return hint["address"].rstrip(".")
    return None
