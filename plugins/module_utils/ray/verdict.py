# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says in plain words whether a cluster is ready, and what it lacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.ray.demands import gpus_in_one_bundle
from ansible_collections.tandem.vllm.plugins.module_utils.ray.expectation import Expectation, Shortfall
from ansible_collections.tandem.vllm.plugins.module_utils.ray.values import count

# So many are named; the rest is in the result.
NAMED = 5
NOT_YET = (
    "the GCS answers, but the autoscaler has not reported yet: ask again in 5 to 10 s; "
    "if it stays so, its monitor is dead, and `ray list nodes` tells more"
)
TWO_HEADS = (
    "{} heads are alive: after a restart of the head that lasts until the health check gives the old one up "
    "(10 to 15 s); if it stays so, two clusters were started"
)


def verdict(facts: Mapping[str, Any], expected: Expectation, short: Shortfall) -> dict[str, Any]:
    """The judgement: ready, retryable, verdict (words), missing (a sentence each), missing_addresses.

    ready: the cluster answers, has nodes, none is pending, and all that is expected is there.
    """
    if facts["reachable"] is not True or facts["root_cause"] is not None:
        return _unanswered(facts, expected)
    waiting, lacks = _waiting(facts, expected), [*short.hopeless, *short.words]
    known = facts["alive"] is not None
    # In a text that is cut off, what is expected can be seen, but not that nothing else is wrong.
    seen = facts["complete"] or (expected != Expectation() and not lacks)
    ready = known and facts["alive"] > 0 and not waiting and not lacks and seen
    retryable = not ready and not short.hopeless and (bool(waiting) or bool(short.words) or facts["retryable"])
    return {
        "ready": ready,
        "retryable": retryable,
        "missing": [*lacks, *waiting],
        "missing_addresses": short.addresses,
        "verdict": _words(facts, ready, [*lacks, *waiting]),
    }


def _unanswered(facts: Mapping[str, Any], expected: Expectation) -> dict[str, Any]:
    reason = facts["reason"] or "Ray did not answer"
    said = (
        f"not ready: {facts['root_cause'].replace('_', ' ')}: {reason}"
        if facts["root_cause"]
        else f"not ready: {reason}"
    )
    remedy = facts["remedy"]
    return {
        "ready": False,
        "retryable": bool(facts["retryable"]),
        "missing": [reason],
        # While nothing answers, no node is known to be there.
        "missing_addresses": list(expected.addresses) if facts["reachable"] is False else [],
        "verdict": f"{said.rstrip('.')}. {remedy[0].upper()}{remedy[1:]}" if remedy else said,
    }


def _waiting(facts: Mapping[str, Any], expected: Expectation) -> list[str]:
    """What is under way, and may be over in a while."""
    result = []
    counts = facts["nodes"]
    if facts["alive"] is None and not facts["resources"]:
        result.append(NOT_YET)
    elif counts and counts.get("pending"):
        named = [_pending(entry) for entry in facts["pending"][:NAMED]]
        result.append(f"{_nodes(counts['pending'])} pending ({', '.join(named)})")
    # Without an expectation nobody knows whether the node that failed was needed.
    if counts and counts.get("failed") and not expected.least_nodes():
        failed = [f"{entry['type']}: {entry['reason'] or 'failed'}" for entry in facts["failures"][:NAMED]]
        result.append(f"{counts['failed']} recent failure{_s(counts['failed'])} ({', '.join(failed)})")
    if facts["heads"] is not None and facts["heads"] > 1:
        result.append(TWO_HEADS.format(facts["heads"]))
    behind = _behind(facts)
    if behind:
        result.append(
            f"ray status is behind the list of nodes ({behind}): it is renewed each 5 s, by the head's monitor"
        )
    addresses = facts["unique_alive_ips"]
    alive = [node["ip"] for node in facts["node_list"] if node["alive"]]
    if addresses and all(alive) and addresses < len(alive):
        words = f"{addresses} address{'' if addresses == 1 else 'es'}"
        result.append(f"{len(alive)} nodes are alive under {words}: two have the same")
    return result


def _behind(facts: Mapping[str, Any]) -> str:
    """Where the report and a whole list differ; empty where they do not."""
    counts = facts["nodes"]
    if not counts or facts["rows_in_text"] is None or not facts["complete"]:
        return ""
    if counts["alive"] != facts["alive"]:
        return f"it counts {_nodes(counts['alive'])}"
    total, listed = facts["gpu_total"], facts["gpu_listed"]
    if None not in (total, listed) and total != listed:
        return f"it counts {count(total)} GPU{_s(total)}, the list {count(listed)}"
    return ""


def _pending(entry: Mapping[str, Any]) -> str:
    where = entry.get("ip") or entry.get("instance") or f"{entry['count']} {entry['type']}"
    return f"{where} {entry['state']}"


def _s(number: float) -> str:
    return "" if number == 1 else "s"


def _nodes(number: int) -> str:
    return f"{number} node{_s(number)}"


def _words(facts: Mapping[str, Any], ready: bool, lacks: list[str]) -> str:
    state = "ready" if ready else "not ready"
    if facts["fragment"] and facts["alive"] is None:
        state, lacks = "cannot tell", [*lacks, "the text lacks its part about nodes"]
    elif not facts["complete"]:
        state = "cannot tell" if not ready and not lacks else state
        lacks = [*lacks, _cut(facts)]
    return f"{state}: {'; '.join([*lacks, *_alive_words(facts), *_gpu_words(facts)])}"


def _alive_words(facts: Mapping[str, Any]) -> list[str]:
    if facts["alive"] is None:
        return []
    counts = facts["nodes"] or {}
    # A list of nodes may be some seconds newer than the status.
    idle = counts.get("idle") if counts.get("alive") == facts["alive"] else None
    words = [f"{_nodes(facts['alive'])} alive" + (f" ({idle} idle)" if idle else "")]
    if facts["dead"]:
        words.append(f"{facts['dead']} dead in the list, which do not count")
    return words


def _cut(facts: Mapping[str, Any]) -> str:
    if facts["total"] is not None and facts["total"] != facts["rows_in_text"]:
        return (
            f"the text is cut off ({facts['rows_in_text']} of {facts['total']} nodes), so no node can be called missing"
        )
    return "the text is cut off, so what it does not show may be there"


def _gpu_words(facts: Mapping[str, Any]) -> list[str]:
    total, free = facts["gpu_total"], facts["gpu_free_for_new_pg"]
    if total is None:
        return []
    if total == 0:
        return ["no GPU"]
    words = [f"{count(total)} GPU{_s(total)}" + ("" if free is None else f", {count(free)} free for a new engine")]
    largest = max((gpus_in_one_bundle(entry) for entry in facts["demands"] or []), default=0.0)
    if facts["demands"]:
        words.append(f"{sum(entry['at_least'] for entry in facts['demands'])} or more demands wait")
    if not facts["node_list"] and (facts["alive"] or 0) > 1:
        words.append("which node has them is not in this text")
    if free is not None and largest > free:
        words.append(f"one bundle that waits wants {count(largest)} GPUs")
    elif largest:
        words.append(f"one bundle wants {count(largest)} GPUs on one node")
    return words
