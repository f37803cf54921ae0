# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.ray import demands, resources, status

FIXTURES = Path(__file__).parents[4] / "fixtures/ray"
BANNER = "======== Autoscaler status: 2024-08-02 02:04:32.248220 ========"
DASHES = "-" * len(BANNER)


def text(name: str) -> str:
    return (FIXTURES / name).read_text()


def parse(given: str) -> dict[str, Any]:
    found = status.parse(given)
    assert found is not None
    return found


def report(nodes: str, rest: str = " 0.0/8.0 GPU\n\nDemands:\n (no resource demands)") -> str:
    """A report with these sections about nodes, as old releases print the rest of it."""
    return f"{BANNER}\nNode status\n{DASHES}\n{nodes}\n\nResources\n{DASHES}\nUsage:\n{rest}\n"


CLEAN = report("Active:\n 1 node_a1\n 1 node_b2\nPending:\n (no pending nodes)\nRecent failures:\n (no failures)")
# Active, idle, alive, pending, failed.
TWO = (2, 0, 2, 0, 0)


def counts(found: dict[str, Any]) -> tuple[int | None, ...]:
    return tuple(found["nodes"][name] for name in ("active", "idle", "alive", "pending", "failed"))


@pytest.mark.parametrize(
    ("name", "nodes", "gpu", "blocks", "complete"),
    [
        # v1 counts idle nodes as active; its blocks have ids.
        ("status-v1-verbose.txt", TWO, (3.0, 2.0), [("06a14e79", 2.0, 1.0), ("8cfdb407", 1.0, 1.0)], True),
        # v2 without an autoscaler has blocks without a name, whose rows are no rows of the cluster.
        ("status-v2-verbose.txt", (1, 1, 2, 0, 0), (3.0, 2.0), [("4acd0936", 2.0, 1.0), ("2743d8cc", 1.0, 1.0)], True),
        ("status-v2-node-lost.txt", (0, 1, 1, 0, 1), (2.0, 2.0), [("4acd0936", 2.0, 2.0)], True),
    ],
)
def test_real_reports(
    name: str, nodes: tuple[int, ...], gpu: tuple[float, float], blocks: list[tuple[str, float, float]], complete: bool
) -> None:
    found = parse(text(name))
    row = found["resources"]["GPU"]
    assert (counts(found), (row["total"], row["free"]), found["complete"]) == (nodes, gpu, complete)
    told = [(b["id"][:8], b["resources"]["GPU"]["total"], b["resources"]["GPU"]["free"]) for b in found["blocks"]]
    assert told == blocks


def test_what_waits() -> None:
    found = parse(text("status-v1-verbose.txt"))
    assert [(entry["kind"], entry["bundle"], entry["count"]) for entry in found["constraints"]] == [
        ("request_resources", {"GPU": 2.0}, "1"),
        ("request_resources", {"CPU": 3.0}, "1"),
    ]
    assert found["demands"] == [
        {
            "kind": "tasks/actors",
            "count": "1+",
            "at_least": 1,
            "bundle": {"CPU": 1.0, "GPU": 1.0},
            "using_placement_groups": 1,
        },
        {"kind": "tasks/actors", "count": "3+", "at_least": 3, "bundle": {"CPU": 1.0, "GPU": 8.0}},
        {
            "kind": "placement groups",
            "count": "1+",
            "at_least": 1,
            "bundles": [{"bundle": {"CPU": 1.0}, "times": 1}, {"bundle": {"GPU": 4.0}, "times": 1}],
            "strategy": "STRICT_SPREAD",
        },
    ]
    assert demands.gpus_in_one_bundle(found["demands"][2]) == 4.0


def test_idle_nodes_and_activity() -> None:
    first, second = parse(text("status-v2-verbose.txt"))["blocks"]
    assert (first["idle_ms"], first["activity"][-1]) == (None, "Busy workers on node.")
    assert (second["idle_ms"], second["activity"]) == (64567, [])


@pytest.mark.parametrize(
    "given",
    [
        CLEAN,
        "root@node-a:~# ray status\n" + CLEAN + "root@node-a:~#",
        # Prefixes: srun -l with another task between, other tools' logs, compose, a quotation, an indented block.
        "1: worker is up\n" + "".join(f"0: {line}\n" for line in CLEAN.split("\n")).replace("0: Pend", "1: x\n0: Pend"),
        "".join(f"I 03-15 02:13:4{n % 3} backend_utils.py:521] {line}  \n" for n, line in enumerate(CLEAN.split("\n"))),
        "".join(f"ray-head-1  | {line}\n" for line in CLEAN.split("\n")),
        "".join(f"2024-08-02T02:04:3{n % 9}.12{n}Z {line}\n" for n, line in enumerate(CLEAN.split("\n"))),
        "".join(f"(head, rank=0, pid=31{n % 7}) {line}\n" for n, line in enumerate(CLEAN.split("\n"))),
        "".join(f"> {line}".rstrip() + "\n" for line in CLEAN.split("\n")),
        "".join(f"    {line}\n" for line in CLEAN.split("\n")),
        # Lines of libraries round it, colours, other line ends, JSON.
        "2024-08-02 02:04:31,663 - INFO - NumExpr defaulting to 16 threads.\n"
        + CLEAN
        + "Connection to 10.0.0.1 closed.",
        "x.py:89: UserWarning: old\n  warnings.warn(w)\n"
        + CLEAN
        + "2024-08-02 02:04:33,1\tINFO autoscaler.py:9 -- busy",
        "\x1b[2J\x1b[1m" + CLEAN.replace("Active:", "\x1b[32mActive:\x1b[0m"),
        CLEAN.replace("\n", "\r\n"),
        '{"changed": true, "stdout": "' + CLEAN.replace("\n", "\\n") + '", "rc": 0}',
        # Out of a picture.
        CLEAN.replace("Pending:", "Pending :").replace("0.0/8.0", "0. 0/8.0").replace("Usage:", "Usage : "),
        # Several: the last one counts. A failed try before it.
        report("Active:\n 5 x\nPending:\n a, 1 launching\nRecent failures:\n (no failures)") + CLEAN,
        text("status-unreachable.txt") + CLEAN,
        # A list of nodes before or behind it.
        CLEAN + text("list-nodes.txt"),
        text("list-nodes.txt") + CLEAN,
    ],
)
def test_noise(given: str) -> None:
    found = parse(given)
    assert (found["reachable"], counts(found), found["resources"]["GPU"]["total"]) == (True, TWO, 8.0)
    assert (found["demands"], found["failures"], found["pending"], found["complete"]) == ([], [], [], True)


@pytest.mark.parametrize(
    ("given", "stripped"),
    [(CLEAN, False), ("".join(f"0: {line}\n" for line in CLEAN.split("\n")), True), ("  " + CLEAN, False)],
)
def test_whether_there_was_a_prefix(given: str, stripped: bool) -> None:
    assert parse(given)["prefix_stripped"] is stripped


@pytest.mark.parametrize(
    ("nodes", "numbers", "pending", "failures"),
    [
        # Ray 1 without node types, and with an empty section.
        (" 1 node(s) with resources: {'CPU': 4.0}\n 2 node(s) with resources: {}", (3, 0, 3, None, None), [], []),
        (
            "Healthy:\n\nPending:\n (no pending nodes)\nRecent failures:\n (no failures)",
            (0, 0, 0, 0, 0),
            [],
            [],
        ),
        (
            "Healthy:\n 2 ray.head.default\n 20 4xlarge\n"
            "Pending:\n p3.2xlarge, 2 launching\n 10.0.0.4: m4, waiting-for-ssh\n"
            " i-0abc: gpu worker, setting up: step 2, mounts\n fd00::4: m4, starting ray\n"
            "Recent failures:\n p3: RayletUnexpectedlyDied (ip: 10.0.0.6)\n 10.0.0.7: m4\n"
            " m4: LaunchFailed (latest_attempt: 02:46:40) - no capacity: wait\n  and try again\n"
            " m4: NodeTerminated (instance_id: i-1)",
            (22, 0, 22, 5, 4),
            [
                {"type": "p3.2xlarge", "count": 2, "state": "launching"},
                {"ip": "10.0.0.4", "type": "m4", "state": "waiting-for-ssh"},
                {"instance": "i-0abc", "type": "gpu worker", "state": "setting up: step 2, mounts"},
                {"ip": "fd00::4", "type": "m4", "state": "starting ray"},
            ],
            [
                {"type": "p3", "reason": "RayletUnexpectedlyDied", "ip": "10.0.0.6"},
                {"type": "m4", "reason": None, "ip": "10.0.0.7"},
                {
                    "type": "m4",
                    "reason": "LaunchFailed",
                    "latest_attempt": "02:46:40",
                    "detail": "no capacity: wait and try again",
                },
                {"type": "m4", "reason": "NodeTerminated", "instance_id": "i-1"},
            ],
        ),
    ],
)
def test_sections_about_nodes(
    nodes: str, numbers: tuple[int | None, ...], pending: list[Any], failures: list[Any]
) -> None:
    found = parse(report(nodes))
    assert (counts(found), found["pending"], found["failures"]) == (numbers, pending, failures)


@pytest.mark.parametrize(
    ("cut_after", "numbers", "complete", "fragment"),
    [
        ("(no resource demands)", TWO, True, False),
        ("Demands:", TWO, False, False),
        ("GPU", TWO, False, False),
        ("Recent failures:", (2, 0, 2, 0, None), False, False),
        ("Pending:", (2, 0, 2, None, None), False, False),
        ("node_a1", (1, 0, 1, None, None), False, False),
    ],
)
def test_cut_off_at_the_end(cut_after: str, numbers: tuple[int | None, ...], complete: bool, fragment: bool) -> None:
    found = parse(CLEAN[: CLEAN.index(cut_after) + len(cut_after)])
    assert (counts(found), found["complete"], found["fragment"]) == (numbers, complete, fragment)


@pytest.mark.parametrize(
    ("begin_at", "nodes"),
    [("Resources", None), (" 0.0/8.0", None), ("Pending:", (None, None, None, 0, 0))],
)
def test_cut_off_at_the_beginning(begin_at: str, nodes: tuple[int | None, ...] | None) -> None:
    found = parse(CLEAN[CLEAN.index(begin_at) :])
    assert (found["reachable"], found["fragment"], found["complete"]) == (True, True, False)
    assert (counts(found) if found["nodes"] else None, found["resources"]["GPU"]["total"]) == (nodes, 8.0)


@pytest.mark.parametrize(
    ("line", "name", "values"),
    [
        ("0.0/16.0 CPU", "CPU", {"used": 0.0, "total": 16.0, "pg_reserved": 0.0, "free": 16.0}),
        ("2/2 GPU", "GPU", {"used": 2.0, "total": 2.0, "free": 0.0}),
        (
            " 3.0/22.0 CPU (1.0 used of 4.0 reserved in placement groups)",
            "CPU",
            {"pg_used": 1.0, "pg_reserved": 4.0, "free": 16.0, "free_for_new_pg": 16.0},
        ),
        (
            "1.734723475976807e-18/1.0 accelerator_type:L4 (0.0 used of 0.002 reserved in placement groups)",
            "accelerator_type:L4",
            {"used": 1.734723475976807e-18, "used_approx": 0.0, "total": 1.0, "pg_reserved": 0.002, "free": 0.998},
        ),
        ("-1e-05/1.0 node:x", "node:x", {"used": -1e-05, "used_approx": 0.0, "free": 1.0}),
        (
            "0.00/36.670 GiB memory",
            "memory",
            {"used": "0.00 GiB", "total": "36.670 GiB", "total_bytes": 39374112686, "free": 39374112686},
        ),
        ("5.42KiB/10.04KiB object_store_memory", "object_store_memory", {"used_bytes": 5550, "total": "10.04KiB"}),
        ("0B/1.19TiB memory", "memory", {"used": "0B", "used_bytes": 0, "total_bytes": 1308418837053}),
        (
            "1.00MiB/2.00GiB memory (512.00KiB used of 1.00GiB reserved in placement groups)",
            "memory",
            {"pg_used": 524288, "pg_reserved": 2**30, "free": 2**31 - 2**20 + 2**19 - 2**30},
        ),
    ],
)
def test_rows_of_resources(line: str, name: str, values: dict[str, Any]) -> None:
    found = resources.row(line)
    assert found is not None
    assert (found[0], {key: found[1][key] for key in values}) == (name, values)


@pytest.mark.parametrize("line", ["", "0.0/16.0", "0.00/36.670 GiB", "CPU 1/2", "Demands:", "{'CPU': 1}: 1+ x", "1/2"])
def test_no_row(line: str) -> None:
    assert resources.row(line) is None


def test_rows_that_a_terminal_broke() -> None:
    rest = (
        " 1.0/8.0 GPU (1.0 used of 1.0 reserved in\nplacement groups)\n\nTotal Demands:\n"
        " {'GPU': 2.0} * 1 (STRICT_PACK): 2+ pending placement groups <-- waits\n"
        " {'CPU': 1.0,\n 'GPU': 1.0}: 11+ pending tasks/actors"
    )
    found = parse(report("Active:\n 1 x\nPending:\n (no pending nodes)\nRecent failures:\n (no failures)", rest))
    assert found["resources"]["GPU"]["free"] == 7.0
    assert [(d["bundle"], d["at_least"]) for d in found["demands"]] == [
        ({"GPU": 2.0}, 2),
        ({"CPU": 1.0, "GPU": 1.0}, 11),
    ]


def test_reported_by_the_gcs_alone() -> None:
    found = parse("No cluster status. It may take a few seconds for the Ray internal services to start up.\n")
    told = [found[key] for key in ("reachable", "retryable", "nodes", "resources", "root_cause")]
    assert told == [True, True, None, None, None]


@pytest.mark.parametrize(
    ("given", "reachable", "root_cause", "address"),
    [
        (text("status-not-running.txt"), False, "ray_not_running_here", None),
        (text("status-unreachable.txt"), False, "ray_gcs_unreachable", "127.0.0.1:6399"),
        ("Ray cluster is not found at 10.0.0.4:6379", False, "ray_not_running_at_address", "10.0.0.4:6379"),
        (
            "[2025, W 1] gcs_client.cc:183: Failed to get cluster ID from GCS server: RpcError",
            False,
            "ray_gcs_unreachable",
            None,
        ),
        (
            "WARNING utils.py:1333 -- Unable to connect to GCS at 10.0.0.4:6379. Check that",
            False,
            "ray_gcs_unreachable",
            "10.0.0.4:6379",
        ),
        (
            "redis.exceptions.ConnectionError: Error 111 connecting to 10.0.0.4:6379.",
            False,
            "ray_gcs_unreachable",
            None,
        ),
        ("ValueError: Malformed address :6379. Expected '<host>:<port>'.", False, "ray_head_address_empty", None),
        ("Failed to connect to GCS at address :6379 within 5 seconds.", False, "ray_head_address_empty", None),
        (
            "RuntimeError: Ray version mismatch: cluster has Ray version 2.60.0 but local Ray version is 2.49.1",
            True,
            "version_mismatch",
            None,
        ),
        ("ConnectionError: Found multiple active Ray instances: {'10.0.0.1:6379', '10.0.0.1:1'}.", None, None, None),
        ("bash: ray: command not found", False, None, None),
        ("Error response from daemon: No such container: tandem-ray", False, None, None),
        # The newest counts.
        (CLEAN + text("status-unreachable.txt"), False, "ray_gcs_unreachable", "127.0.0.1:6399"),
    ],
)
def test_errors(given: str, reachable: bool | None, root_cause: str | None, address: str | None) -> None:
    found = parse(given)
    if reachable is None:
        reachable = False
    assert [found[key] for key in ("reachable", "root_cause", "address", "nodes")] == [
        reachable,
        root_cause,
        address,
        None,
    ]
    assert found["reason"]
    assert found["remedy"]


@pytest.mark.parametrize(
    "given", ["", "hello\n3 things\n", "2024-08-02 02:04:32 INFO all is well", "Node: 7 fell over"]
)
def test_nothing_of_ray(given: str) -> None:
    assert status.parse(given) is None
