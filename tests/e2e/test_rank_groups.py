# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One model over two nodes: real Ray and real vLLM on CPU, with what comes back by itself and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from ansible_collections.tandem.vllm.tests.e2e import faults, lab
from ansible_collections.tandem.vllm.tests.e2e.lab import good, on, playbook

NODES = ["node1", "node2"]
OUTSIDE = "tandem-lab-outside"


def processes(host: str, pattern: str) -> list[str]:
    """Ids of a lab host's processes whose command line fits; pgrep itself is not among them."""
    return on(host, "pgrep", "-f", pattern).output.split()


@contextmanager
def second_network(host: str) -> Iterator[str]:
    """Another network of a lab host, which its group knows nothing of; the host's address there."""
    faults.docker("network", "create", OUTSIDE)
    try:
        faults.docker("network", "connect", OUTSIDE, f"tandem-lab-{host}")
        shown = on(host, "ip", "-4", "-o", "address", "show").output
        yield re.findall(r"inet (172\.[\d.]+)/", shown)[-1]
    finally:
        faults.docker("network", "disconnect", "--force", OUTSIDE, f"tandem-lab-{host}")
        faults.docker("network", "rm", OUTSIDE)


def listening(host: str) -> set[int]:
    """TCP ports that a host listens on, on any address but loopback."""
    shown = on(host, "ss", "-Hltn").output
    addresses = [line.split()[3] for line in shown.splitlines() if line.strip()]
    return {int(a.rpartition(":")[2]) for a in addresses if not a.startswith(("127.", "[::1]"))}


def reachable(address: str, ports: set[int]) -> set[int]:
    """Of ports, those that this machine can connect to at an address."""
    script = (
        "import socket, sys\n"
        "for port in map(int, sys.argv[2:]):\n"
        "    with socket.socket() as s:\n"
        "        s.settimeout(0.5)\n"
        "        if s.connect_ex((sys.argv[1], port)) == 0:\n"
        "            print(port)\n"
    )
    found = lab.program("python3", "-c", script, address, *map(str, sorted(ports)))
    return {int(port) for port in found.output.split()}


def test_tensor_parallel_over_two_nodes_with_ray() -> None:
    good(playbook("playbooks/lab_up.yml"))
    run = good(playbook("ray-tp.yml"))
    assert "acceptance: all" in run.output
    assert re.search(r"^chat +tiny-chat +chat-node1-x2 +node1, node2 ", run.output, re.MULTILINE)
    for node in NODES:
        assert faults.MEMBER in lab.containers(node)
        assert processes(node, "raylet/raylet")
    assert list(lab.containers("node2")) == [faults.MEMBER]
    with faults.Client.of_lab() as client:
        assert client.first(lambda a: a.status == 200, 60)


def test_a_second_run_changes_nothing() -> None:
    run = good(playbook("ray-tp.yml"))
    assert set(run.changed.values()) == {0}, run.changed
    print(f"second run: {run.seconds:.1f} s")


def test_only_the_nodes_themselves_reach_the_ports() -> None:
    ports = {node: listening(node) for node in NODES}
    assert {6379, 6380, 8000} <= ports["node1"]
    # The API has its place on the private address; what is open elsewhere is the host's own SSH server.
    with second_network("node1") as address:
        assert reachable(address, ports["node1"]) == {22}
    # Of this machine, which is in the private network but no node of the group.
    assert reachable("10.89.70.11", {6379, 6380, 6381, 8000}) == {8000}
    assert on("node2", "timeout", "3", "bash", "-c", "echo > /dev/tcp/10.89.70.11/6379").status == 0


def test_a_group_comes_back_as_a_whole_and_by_itself() -> None:
    before = on("node1", "cat", f"/run/tandem/groups/{faults.GROUP}.json").output
    with faults.Client.of_lab() as client:
        assert client.first(lambda a: a.status == 200, 60)
        seen = faults.outage(client, "member's container on the other node")
    print(seen)
    assert seen.told_s is not None
    assert seen.told_s <= 5
    assert seen.back_s is not None
    after = on("node1", "cat", f"/run/tandem/groups/{faults.GROUP}.json").output
    assert json.loads(before)["start_id"] != json.loads(after)["start_id"]
    told = next(a for a in client.answers if a.status == 503)
    assert json.loads(told.body)["error"]["code"] == "unavailable"


def test_a_node_that_goes_out_by_another_address_is_named_before_an_engine_starts() -> None:
    good(playbook("playbooks/stop.yml"))
    assert on("node2", "ip", "address", "add", "10.89.70.99/24", "dev", "eth0").status == 0
    assert on("node2", "ip", "route", "replace", "10.89.70.11/32", "dev", "eth0", "src", "10.89.70.99").status == 0
    try:
        # The group's firewall knows node2 by its right address, so that its Ray node cannot even join.
        run = playbook("ray-tp.yml", ray_cluster_join_timeout=45)
    finally:
        on("node2", "ip", "route", "del", "10.89.70.11/32")
        on("node2", "ip", "address", "del", "10.89.70.99/24", "dev", "eth0")
    assert run.status != 0
    assert "10.89.70.99" in run.error
    assert "node2" in run.error
    assert faults.ENGINE not in lab.containers("node1")
    assert processes("node1", "bin/vllm serve") == []


def test_pipeline_parallel_over_two_nodes_without_ray() -> None:
    run = good(playbook("ray-tp-pp.yml", tandem_executor="mp"))
    assert "acceptance: all" in run.output
    for node in NODES:
        assert list(lab.containers(node)) == [faults.ENGINE]
        assert processes(node, "raylet|gcs_server") == []


def test_stop_leaves_nothing_of_a_group() -> None:
    good(playbook("playbooks/stop.yml"))
    for node in NODES:
        assert lab.containers(node) == {}
        assert on(node, "systemctl", "is-active", f"tandem-rank-group@{faults.GROUP}").output.strip() != "active"
        assert on(node, "docker", "volume", "ls", "--quiet").output.strip() == ""
