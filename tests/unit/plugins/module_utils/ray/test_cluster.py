# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.problems import Problems
from ansible_collections.tandem.vllm.plugins.module_utils.ray import cluster, commands, expectation
from ansible_collections.tandem.vllm.plugins.module_utils.ray.expectation import Expectation

FIXTURES = Path(__file__).parents[4] / "fixtures/ray"
HEAD, WORKER = "127.0.0.1", "127.0.0.2"
BOTH = {HEAD: 2, WORKER: 1}


def text(name: str | None) -> str | None:
    return None if name is None else (FIXTURES / name).read_text()


def listed(*nodes: tuple[str, float, str]) -> str:
    """A list of nodes: address, GPUs, state; the first is the head."""
    return json.dumps(
        [
            {
                "node_id": f"{number:056x}",
                "node_ip": ip,
                "is_head_node": number == 0,
                "state": state,
                "state_message": "heartbeats" if state == "DEAD" else None,
                "resources_total": {"CPU": 1.0, "GPU": gpus},
            }
            for number, (ip, gpus, state) in enumerate(nodes)
        ]
    )


TWO = listed((HEAD, 2.0, "ALIVE"), (WORKER, 1.0, "ALIVE"))
DEAD = listed((HEAD, 2.0, "ALIVE"), (WORKER, 1.0, "DEAD"))
ONE = listed((HEAD, 2.0, "ALIVE"))
V1, V2, LOST = "status-v1-verbose.txt", "status-v2-verbose.txt", "status-v2-node-lost.txt"
WAITS = "5 or more demands wait; one bundle that waits wants 8 GPUs"


def facts(status: str | None, nodes: str | None, expected: Expectation, version: str | None = None) -> dict[str, Any]:
    return cluster.facts(text(status), nodes, expected, version)


@pytest.mark.parametrize(
    ("status", "nodes", "expected", "ready", "verdict"),
    [
        (V1, TWO, Expectation(), True, f"ready: 2 nodes alive; 3 GPUs, 2 free for a new engine; {WAITS}"),
        (
            V2,
            TWO,
            Expectation(2, BOTH, None, (HEAD, WORKER)),
            True,
            f"ready: 2 nodes alive (1 idle); 3 GPUs, 2 free for a new engine; {WAITS}",
        ),
        (None, TWO, Expectation(2, {}, None, (HEAD, WORKER)), True, "ready: 2 nodes alive; 3 GPUs"),
        (None, ONE, Expectation(2), False, "not ready: 1 of 2 nodes are alive; 1 node alive; 2 GPUs"),
        (
            None,
            ONE,
            Expectation(2, BOTH, None, (HEAD, WORKER)),
            False,
            f"not ready: node {WORKER} is missing; 1 node alive; 2 GPUs",
        ),
        (
            None,
            DEAD,
            Expectation(2, BOTH, None, (HEAD, WORKER)),
            False,
            f"not ready: node {WORKER} is dead: heartbeats; 1 node alive; 1 dead in the list, "
            "which do not count; 2 GPUs",
        ),
        # `ray status` is some seconds behind: who died is in it still.
        (
            V2,
            DEAD,
            Expectation(2),
            False,
            "not ready: 1 of 2 nodes are alive; ray status is behind the list of nodes (it counts 2 nodes): it is "
            "renewed each 5 s, by the head's monitor; 1 node alive; 1 dead in the list, which do not count; "
            f"3 GPUs, 2 free for a new engine; {WAITS}",
        ),
        (
            None,
            TWO,
            Expectation(gpus_each=2),
            False,
            f"not ready: node {WORKER} has 1 GPU in Ray, expected 2; 2 nodes alive; 3 GPUs",
        ),
        # Nodes of others in the cluster are none of ours.
        (None, TWO, Expectation(gpus_each=2, addresses=(HEAD,)), True, "ready: 2 nodes alive; 3 GPUs"),
        # A failure of late matters only where nobody says which nodes are needed.
        (
            LOST,
            ONE,
            Expectation(),
            False,
            "not ready: 1 recent failure (node_2743d8cc003918e58fd3227a64f0f8d90f4051cea1d320d591299c68: "
            "NodeTerminated); 1 node alive (1 idle); 2 GPUs, 2 free for a new engine",
        ),
        (LOST, ONE, Expectation(1, {HEAD: 2}), True, "ready: 1 node alive (1 idle); 2 GPUs, 2 free for a new engine"),
        # The blocks of -v tell GPUs per node, but no addresses.
        (
            V2,
            None,
            Expectation(2, gpus_each=1),
            False,
            "not ready: node 4acd09363cb86b6005cebc374fe03d700ea946108fb72d5743f0d0e8 has 2 GPUs in Ray, expected 1; "
            f"2 nodes alive (1 idle); 3 GPUs, 2 free for a new engine; {WAITS}",
        ),
        (
            V2,
            None,
            Expectation(addresses=(HEAD, WORKER)),
            False,
            f"not ready: whether {HEAD} and {WORKER} are among them cannot be told; {expectation.PER_NODE}; "
            f"2 nodes alive (1 idle); 3 GPUs, 2 free for a new engine; {WAITS}",
        ),
        (
            None,
            ONE,
            Expectation(version="2.60.0"),
            False,
            "not ready: whether Ray is 2.60.0 cannot be told from a text; 1 node alive; 2 GPUs",
        ),
        (
            None,
            listed((HEAD, 0.0, "ALIVE"), (HEAD, 0.0, "ALIVE")),
            Expectation(),
            False,
            "not ready: 2 nodes are alive under 1 address: two have the same; 2 nodes alive; no GPU",
        ),
    ],
)
def test_verdicts(status: str | None, nodes: str | None, expected: Expectation, ready: bool, verdict: str) -> None:
    found = facts(status, nodes, expected)
    assert (found["verdict"], found["ready"]) == (verdict, ready)


def test_gpus_of_each_node() -> None:
    found = cluster.facts(text(V1), text("node-table.txt"), Expectation())
    told = {node["ip"]: (node["GPU"], node["gpu_used"], node["gpu_free"], node["host"]) for node in found["node_list"]}
    assert told == {HEAD: (2.0, 1.0, 1.0, "node-a"), WORKER: (None, None, None, "node-a")}
    found = cluster.facts(text(V2), None, Expectation())
    assert [(node["GPU"], node["gpu_used"], node["gpu_free"]) for node in found["node_list"]] == [
        (2.0, 1.0, 1.0),
        (1.0, 0.0, 1.0),
    ]


PLAIN = (
    "======== Autoscaler status: 2025-12-17 17:13:41.621247 ========\nNode status\n-------\nActive:\n 1 node_a\n"
    " 1 node_b\n 1 node_c\nPending:\n (no pending nodes)\nRecent failures:\n (no failures)\n\nResources\n-------\n"
    "Total Usage:\n"
    " 0.0/192.0 CPU\n 0.0/2.0 GPU\n\nFrom request_resources:\n (none)\nPending Demands:\n (no resource demands)\n"
)
PER_NODE = expectation.PER_NODE


@pytest.mark.parametrize(
    ("given", "expected", "ready", "begin"),
    [
        (PLAIN, Expectation(3), True, "ready: 3 nodes alive; 2 GPUs, 2 free for a new engine; which node has them"),
        # A total is no figure of a node.
        (PLAIN, Expectation(3, gpus_each=1), False, "not ready: the cluster has 2 GPUs, expected 3; 3 nodes"),
        (
            PLAIN,
            Expectation(gpus_each=0),
            False,
            f"not ready: 2 GPUs in all do not tell which node has them; {PER_NODE}",
        ),
        (PLAIN, Expectation(4), False, "not ready: 3 of 4 nodes are alive; 3 nodes alive"),
        (
            PLAIN.partition(" 0.0/2.0")[0],
            Expectation(),
            False,
            "cannot tell: the text is cut off, so what it does not show",
        ),
        (
            PLAIN.partition(" 1 node_c")[0],
            Expectation(3),
            False,
            "not ready: 2 of 3 nodes are in the text, which is cut",
        ),
        (PLAIN.partition(" 0.0/2.0")[0], Expectation(3), True, "ready: the text is cut off"),
        (
            PLAIN[PLAIN.index("Total") :],
            Expectation(),
            False,
            "cannot tell: the text lacks its part about nodes; 2 GPUs",
        ),
        (PLAIN[PLAIN.index("Total") :], Expectation(3), False, "cannot tell: the number of nodes cannot be told"),
        (
            PLAIN.replace("(no pending nodes)", "10.0.0.5: gpu, setting up\n m4, 2 launching"),
            Expectation(3),
            False,
            "not ready: 3 nodes pending (10.0.0.5 setting up, 2 m4 launching); 3 nodes alive",
        ),
        ("No cluster status. It may take a few seconds", Expectation(), False, "not ready: the GCS answers, but"),
        (
            "Ray cluster is not found at 10.0.0.1:6379",
            Expectation(),
            False,
            "not ready: ray not running at address: Ray",
        ),
        ("hello", Expectation(), False, "not ready: the text holds no output of ray status"),
    ],
)
def test_verdicts_of_a_status(given: str, expected: Expectation, ready: bool, begin: str) -> None:
    found = cluster.facts(given, None, expected)
    assert (found["verdict"][: len(begin)], found["ready"]) == (begin, ready)


@pytest.mark.parametrize(
    ("status", "wanted", "missing"),
    [
        ("status-gpu-idle.txt", 1, []),
        ("status-gpu-idle.txt", 2, ["1 GPU free, expected 2"]),
        # With a placement group that somebody has left behind, and with an engine's.
        ("status-gpu-stale-group.txt", 1, ["0 GPUs free, expected 1, a placement group holds 1"]),
        ("status-gpu-held.txt", 1, ["0 GPUs free, expected 1, a placement group holds 1"]),
        ("status-gpu-held.txt", 0, []),
        (V1, 2, []),
        (V1, 3, ["2 GPUs free, expected 3, a placement group holds 1"]),
    ],
)
def test_free_gpus(status: str, wanted: int, missing: list[str]) -> None:
    found = facts(status, None, Expectation(free_gpus=wanted))
    assert (found["missing"], found["ready"]) == (missing, not missing)


def test_a_list_does_not_tell_what_is_free() -> None:
    found = facts(None, TWO, Expectation(free_gpus=2))
    assert (found["missing"], found["ready"]) == (["how many GPUs are free cannot be told"], False)


def test_a_report_that_is_behind() -> None:
    found = facts(V1, listed((HEAD, 2.0, "ALIVE"), (WORKER, 4.0, "ALIVE")), Expectation(2))
    assert (found["ready"], found["retryable"]) == (False, True)
    assert "behind the list of nodes (it counts 3 GPUs, the list 6)" in found["verdict"]


def test_a_list_without_a_node() -> None:
    found = facts(None, "[]", Expectation(1, {HEAD: 1}, None, (HEAD,)))
    assert (found["missing"][0], found["missing_addresses"]) == (f"node {HEAD} is missing", [HEAD])


def test_a_list_stands_in_for_a_report() -> None:
    found = cluster.facts("No cluster status. It may take a few seconds", TWO, Expectation(2))
    assert (found["ready"], found["nodes"], found["resources"], found["gpu_total"]) == (True, None, None, 3.0)
    # A report stands in for what is cut off of a list.
    cut = '{"data": {"result": {"total": 3, "result": ' + ONE + "}}}"
    found = cluster.facts(PLAIN, cut, Expectation(3))
    assert (found["alive"], found["complete"], found["ready"]) == (3, False, True)


def test_two_heads() -> None:
    nodes = json.loads(TWO)
    nodes[1]["is_head_node"] = True
    found = cluster.facts(None, json.dumps(nodes), Expectation(2))
    assert (found["ready"], found["retryable"], found["heads"]) == (False, True, 2)
    assert found["verdict"].startswith("not ready: 2 heads are alive: after a restart of the head")


def test_a_list_that_is_cut_off_calls_nobody_missing() -> None:
    cut = '{"data": {"result": {"total": 3, "result": ' + ONE + "}}}"
    found = cluster.facts(None, cut, Expectation(3, {}, None, (HEAD, WORKER)))
    words = [f"node {WORKER} is not in the text, which is cut off", "1 of 3 nodes are in the text, which is cut off"]
    assert found["missing"] == words
    assert (found["missing_addresses"], found["complete"], found["ready"]) == ([], False, False)
    assert "the text is cut off (1 of 3 nodes), so no node can be called missing" in found["verdict"]


@pytest.mark.parametrize(
    ("version", "ready", "retryable"), [("2.60.0", True, False), ("2.49.1", False, False), (None, False, True)]
)
def test_version(version: str | None, ready: bool, retryable: bool) -> None:
    found = facts(None, TWO, Expectation(2, version="2.60.0"), version)
    assert (found["ready"], found["retryable"]) == (ready, retryable)


def test_the_status_does_without_the_dashboard() -> None:
    found = cluster.facts(PLAIN, text("list-nodes-no-dashboard.txt"), Expectation(3))
    assert (found["ready"], found["reachable"], found["alive"]) == (True, True, 3)
    assert "/api/v0/nodes" in found["reason"]


def test_unreachable_names_all_that_was_expected() -> None:
    found = facts("status-unreachable.txt", None, Expectation(2, BOTH, None, (HEAD, WORKER)))
    told = [found[key] for key in ("reachable", "root_cause", "ready", "retryable", "address", "missing_addresses")]
    assert told == [False, "ray_gcs_unreachable", False, True, "127.0.0.1:6399", [HEAD, WORKER]]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, Expectation()),
        ({"nodes": "2", "gpus_per_node": "4"}, Expectation(2, gpus_each=4)),
        ({"free_gpus": "8"}, Expectation(free_gpus=8)),
        (
            {
                "gpus_per_node": {"10.0.0.1": "4", "10.0.0.2": 2},
                "addresses": ["10.0.0.3", "10.0.0.1"],
                "version": "2.6.0",
            },
            Expectation(None, {"10.0.0.1": 4, "10.0.0.2": 2}, None, ("10.0.0.3", "10.0.0.1", "10.0.0.2"), "2.6.0"),
        ),
    ],
)
def test_expectations(given: dict[str, Any], expected: Expectation) -> None:
    problems = Problems()
    assert expectation.read(given, problems) == expected
    assert problems.found == []


@pytest.mark.parametrize(
    ("given", "variable", "wanted"),
    [
        ({"nodes": 0}, "expect.nodes", "must be a whole number from 1"),
        ({"nodes": True}, "expect.nodes", "must be a whole number from 1"),
        ({"gpus_per_node": "many"}, "expect.gpus_per_node", "must be a whole number from 0"),
        ({"gpus_per_node": {"10.0.0.1": -1}}, "expect.gpus_per_node.10.0.0.1", "must be a whole number from 0"),
        ({"addresses": "10.0.0.1"}, "expect.addresses", "must be a list of addresses"),
        ({"free_gpus": -1}, "expect.free_gpus", "must be a whole number from 0"),
        ({"version": 2.6}, "expect.version", "must be a text such as '2.49.1'"),
        ({"node": 2}, "expect.node", "unknown key; allowed are addresses, free_gpus, gpus_per_node, nodes, version"),
    ],
)
def test_bad_expectations(given: dict[str, Any], variable: str, wanted: str) -> None:
    problems = Problems()
    expectation.read(given, problems)
    assert [(problem.variable, problem.wanted) for problem in problems.found] == [(variable, wanted)]


def test_command_lines() -> None:
    begin = ["docker", "exec", "--env", "RAY_ADDRESS=10.0.0.1:6379", "tandem-ray", "timeout", "-k", "2", "30"]
    assert commands.status("tandem-ray", "10.0.0.1:6379", 30) == [
        *begin,
        *("ray", "status", "-v", "--address", "10.0.0.1:6379"),
    ]
    assert commands.status("c", None, 5) == ["docker", "exec", "c", "timeout", "-k", "2", "5", "ray", "status", "-v"]
    assert commands.list_nodes("tandem-ray", "10.0.0.1:6379", 30)[9:] == [
        *("ray", "list", "nodes", "--format", "json", "--limit", "10000"),
    ]
    assert commands.look("tandem-ray", "10.0.0.1:6379", 30)[:11] == [*begin, "python3", "-c"]
    compile(commands.LOOK, "look", "exec")


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        (f'noise\n{commands.MARK}{{"nodes": []}}\nmore\n', {"nodes": []}),
        ("bash: python3: not found\n", {"error": "bash: python3: not found"}),
        ("", {"error": "no answer"}),
    ],
)
def test_what_the_look_answers(output: str, answer: dict[str, Any]) -> None:
    assert commands.looked(output) == answer
