# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.tandem.vllm.plugins.module_utils.ray import nodes, values, yaml_text

FIXTURES = Path(__file__).parents[4] / "fixtures/ray"
LOST = "health check failed due to missing too many heartbeats"
HEADINGS = (
    "",
    "NODE_ID",
    "NODE_IP",
    "IS_HEAD_NODE",
    "STATE",
    "STATE_MESSAGE",
    "NODE_NAME",
    "RESOURCES_TOTAL",
    "LABELS",
)
LARGE = 10_000


def text(name: str) -> str:
    return (FIXTURES / name).read_text()


def parse(given: str) -> dict[str, Any]:
    found = nodes.parse(given)
    assert found is not None
    assert found["node_list"] is not None
    return found


def numbers(found: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(found[name] for name in ("alive", "dead", "heads", "unique_alive_ips", "gpu_total", "complete"))


def node(number: int, **more: Any) -> dict[str, Any]:
    """A node as the state API tells it; the first is the head, each tenth is dead."""
    ip, node_id, dead = (
        f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
        f"{number * 7919:056x}",
        number % 10 == 9,
    )
    resources = {"CPU": 64.0, "GPU": 8.0, "accelerator_type:A100": 1.0, "memory": "40.000 GiB", f"node:{ip}": 1.0}
    return {
        "node_id": node_id,
        "node_ip": ip,
        "is_head_node": number == 0,
        "state": "DEAD" if dead else "ALIVE",
        "state_message": f"Unexpected termination: {LOST}" if dead else None,
        "node_name": ip,
        "resources_total": resources,
        "labels": {"ray.io/node-id": node_id},
        **more,
    }


def table(listed: list[dict[str, Any]], headings: tuple[str, ...] = HEADINGS) -> str:
    """The table that `ray list nodes` prints of these nodes, with only those columns."""
    rows = []
    for number, entry in enumerate(listed):
        cells = {"": [f" {number}"]}
        for title in HEADINGS[1:]:
            value = entry[title.lower()]
            lines = [f"{k}: {v}" for k, v in sorted(value.items())] if isinstance(value, dict) else [str(value)]
            cells[title] = [""] if value is None else lines
        rows.append([cells[title] for title in headings])
    widths = [max(len(title), *(len(x) for row in rows for x in row[n])) for n, title in enumerate(headings)]

    def line(cells: list[str]) -> str:
        # Python 3.9 has no strict zip.
        return "  ".join(cell.ljust(widths[n]) for n, cell in enumerate(cells)).rstrip()

    body = [
        line([cell[n] if n < len(cell) else "" for cell in row])
        for row in rows
        for n in range(max(len(cell) for cell in row))
    ]
    head = ["", "======== List: 2026-12-01 04:33:28.486951 ========", "Stats:", "-" * 30, f"Total: {len(listed)}", ""]
    return "\n".join([*head, "Table:", "-" * 30, line(list(headings)), *body, "", ""])


def python(listed: list[dict[str, Any]]) -> str:
    return repr(listed)


def as_yaml(listed: list[dict[str, Any]]) -> str:
    return yaml.safe_dump(listed, indent=4, explicit_start=True, sort_keys=False, explicit_end=True)


FORMATS = {"table": table, "json": json.dumps, "python": python, "yaml": as_yaml}
# Without the message and without heads, as in 2022.
OLD = ("", "NODE_ID", "NODE_IP", "STATE", "NODE_NAME", "RESOURCES_TOTAL")


@pytest.mark.parametrize(
    ("name", "expected", "resources"),
    [
        ("list-nodes.txt", (1, 1, 1, 1, 2.0, True), 5),
        ("list-nodes-detail-table.txt", (1, 1, 1, 1, 2.0, True), 5),
        ("list-nodes-detail.yaml.txt", (1, 1, 1, 1, 2.0, True), 5),
        ("list-nodes.json.txt", (1, 1, 1, 1, 2.0, True), 5),
        ("api-v0-nodes.txt", (1, 1, 1, 1, 2.0, True), 5),
        ("get-nodes.txt", (0, 1, 0, 0, 0.0, True), 5),
        # The GCS keeps no resources of the dead.
        ("node-table.txt", (1, 1, 1, 1, 2.0, True), 0),
        ("ray-nodes.txt", (1, 1, 1, 1, 2.0, True), 0),
        ("nodes-summary.txt", (1, 1, 1, 1, 2.0, True), 0),
    ],
)
def test_real_lists(name: str, expected: tuple[Any, ...], resources: int) -> None:
    found = parse(text(name))
    assert numbers(found) == expected
    dead = next(entry for entry in found["node_list"] if not entry["alive"])
    assert (dead["state"], len(dead["resources"])) == ("DEAD", resources)
    assert dead["state_message"].removeprefix("Unexpected termination: ") == LOST
    assert dead["node_id"].startswith(("2743d8cc", "8cfdb407"))
    for entry in found["node_list"]:
        if entry["alive"]:
            assert (entry["ip"], entry["head"], entry["CPU"], entry["end_time"]) == ("127.0.0.1", True, 2.0, None)
            assert entry["memory_bytes"] > 2**33


@pytest.mark.parametrize("shape", FORMATS)
def test_the_same_in_each_format(shape: str) -> None:
    found = parse(FORMATS[shape]([node(0), node(1), node(9)]))
    assert numbers(found) == (2, 1, 1, 2, 16.0, True)
    head, _second, dead = found["node_list"]
    assert head == {
        "node_id": "0" * 56,
        "ip": "10.0.0.0",
        "name": "10.0.0.0",
        "host": None,
        "state_message": None,
        "state": "ALIVE",
        "alive": True,
        "head": True,
        "resources": {
            "CPU": 64.0,
            "GPU": 8.0,
            "accelerator_type:A100": 1.0,
            "memory": 40.0 * 2**30,
            "node:10.0.0.0": 1.0,
        },
        "CPU": 64.0,
        "GPU": 8.0,
        "memory_bytes": 40.0 * 2**30,
        "accelerator": "A100",
        "labels": {"ray.io/node-id": "0" * 56},
        "start_time": None,
        "end_time": None,
    }
    assert (dead["head"], dead["state_message"]) == (False, f"Unexpected termination: {LOST}")


@pytest.mark.parametrize("shape", FORMATS)
def test_ten_thousand_nodes(shape: str) -> None:
    listed = [node(number) for number in range(LARGE)]
    if shape == "yaml":
        # PyYAML takes half a minute to write it.
        given = as_yaml(listed[:1]).removesuffix("...\n") + "".join(
            f"-   node_id: {n['node_id']}\n    node_ip: {n['node_ip']}\n    state: {n['state']}\n"
            f"    is_head_node: false\n    resources_total:\n        GPU: 8.0\n"
            for n in listed[1:]
        )
    else:
        given = FORMATS[shape](listed)
    found = parse(given)
    assert numbers(found) == (9000, 1000, 1, 9000, 72000.0, True)
    assert [found["node_list"][n]["ip"] for n in (0, 4321, 9999)] == ["10.0.0.0", "10.0.16.225", "10.0.39.15"]


def test_columns_of_old_releases() -> None:
    found = parse(table([node(1), node(9)], OLD))
    assert numbers(found) == (1, 1, None, 1, 8.0, True)
    assert [entry["name"] for entry in found["node_list"]] == ["10.0.0.1", "10.0.0.9"]


def folded(given: str, width: int) -> str:
    """As a terminal of that width shows it."""
    return "\n".join(line[n : n + width] for line in given.split("\n") for n in range(0, max(len(line), 1), width))


@pytest.mark.parametrize("width", [60, 70, 80, 100, 117, 118, 120, 160, 200])
@pytest.mark.parametrize("name", ["list-nodes.txt", "list-nodes-detail-table.txt"])
def test_narrow_terminals(name: str, width: int) -> None:
    found = parse(folded(text(name), width))
    assert numbers(found) == (1, 1, 1, 1, 2.0, True)
    told = [(entry["name"], entry["state_message"], len(entry["resources"])) for entry in found["node_list"]]
    assert told == [("127.0.0.2", f"Unexpected termination: {LOST}", 5), ("127.0.0.1", None, 6)]


@pytest.mark.parametrize(
    "given",
    [
        table([node(0), node(1)]),
        "$ ray list nodes\n" + table([node(0), node(1)]) + "$",
        "".join(f"0: {line}\n" for line in table([node(0), node(1)]).split("\n")),
        table([node(0), node(1)]).replace("\n", "\r\n"),
        table([node(5), node(6), node(7)]) + table([node(0), node(1)]),
        folded(table([node(0), node(1)]), 80),
        folded(table([node(0), node(1)]), 120),
        # Blanks of the beginning are lost, as in a page.
        "\n".join(line.strip() for line in table([node(0), node(1)]).split("\n")),
        # The blank before each row's number is lost, within an indented block of a document.
        "".join(
            f"    {line}\n"
            for line in table([node(0), node(1)]).replace("\n 0", "\n0").replace("\n 1", "\n1").split("\n")
        ),
        # Behind a report, and before one.
        text("status-v1-verbose.txt") + table([node(0), node(1)]),
        table([node(0), node(1)]) + text("status-v1-verbose.txt"),
        # Addresses that somebody exchanged for longer ones shift the columns.
        table([node(0), node(1)]).replace("10.0.0.0 ", "192.168.100.100 "),
        '2025-01-01 INFO x\n[2025-01-01 04:22:23,195 W 46 46] a.cc:330: {"x": 1}\n'
        + json.dumps([node(0), node(1)], indent=2),
        "\n".join(line.rstrip() for line in folded(table([node(0), node(1)]), 100).split("\n")),
        "In [1]: ray.nodes()\nOut[1]: " + repr([node(0), node(1, node_name="it's")]),
        "Warning: added 'x'.\n" + as_yaml([node(0), node(1)]) + "Shared connection to x closed.\n",
        json.dumps({"result": True, "data": {"result": {"total": 2, "result": [node(0), node(1)]}}}),
        as_yaml([node(0), node(1)]).replace("8.0\n", "8.0\nlog: a line of others\n", 1),
    ],
)
def test_noise(given: str) -> None:
    found = parse(given)
    assert numbers(found)[:2] + numbers(found)[3:5] == (2, 0, 2, 16.0)
    assert [entry["node_id"] for entry in found["node_list"]] == [node(0)["node_id"], node(1)["node_id"]]


@pytest.mark.parametrize(
    ("given", "rows", "total"),
    [
        (table([node(n) for n in range(3)]).partition(f" 2  {node(2)['node_id']}")[0], 2, 3),
        (json.dumps([node(n) for n in range(3)])[:-200], 2, None),
        (repr([node(n) for n in range(3)])[:-200], 2, None),
        (json.dumps({"data": {"result": {"total": 5, "result": [node(0), node(1)]}}}), 2, 5),
    ],
)
def test_cut_off(given: str, rows: int, total: int | None) -> None:
    found = parse(given)
    assert (found["rows_in_text"], found["total"], found["complete"]) == (rows, total, False)


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        # A head's restart: the old one is not given up yet; then it is dead and is no head.
        ([node(0), node(1, is_head_node=True)], (2, 0, 2, 2, 16.0, True)),
        ([node(0, state="DEAD"), node(1, is_head_node=True)], (1, 1, 1, 1, 8.0, True)),
        # Two nodes under one address.
        ([node(0), node(1, node_ip="10.0.0.0")], (2, 0, 1, 1, 16.0, True)),
        ([node(0, resources_total={"CPU": 1.0, "TPU": 1.0})], (1, 0, 1, 1, 0.0, True)),
        ([node(0, is_head_node=None, resources_total={"CPU": 1.0})], (1, 0, None, 1, 0.0, True)),
    ],
)
def test_numbers(listed: list[dict[str, Any]], expected: tuple[Any, ...]) -> None:
    assert numbers(parse(json.dumps(listed))) == expected


def test_head_by_its_resource() -> None:
    mine = {"NodeID": "a", "Alive": True, "alive": True, "NodeManagerAddress": "10.0.0.1"}
    listed = [
        {**mine, "Resources": {"CPU": 1.0, "node:__internal_head__": 1.0}},
        {**mine, "Resources": {"CPU": 1.0}},
        {**mine, "Alive": False, "alive": False, "Resources": {}},
    ]
    assert [entry["head"] for entry in parse(repr(listed))["node_list"]] == [True, False, None]


@pytest.mark.parametrize(
    "given", ["No resource in the cluster\n", "[]", '{"data": {"result": {"total": 0, "result": []}}}']
)
def test_no_node(given: str) -> None:
    found = nodes.parse(given)
    assert found is None or found["alive"] == 0


def test_no_dashboard() -> None:
    found = nodes.parse(text("list-nodes-no-dashboard.txt"))
    assert found is not None
    assert (found["node_list"], found["reachable"], found["root_cause"]) == (None, None, None)
    assert "dashboard" in found["remedy"]


@pytest.mark.parametrize("given", ["", "nothing", "[1, 2]", '{"state": "ALIVE"}', "state: good\n", "NODE_ID only\n"])
def test_nothing_of_ray(given: str) -> None:
    assert nodes.parse(given) is None


@pytest.mark.parametrize(
    "message",
    [
        "it's dead",
        "a: colon",
        "# none",
        "- dash",
        " blanks ",
        "null",
        "true",
        "1.5",
        "1e3",
        "'single'",
        '"double"',
        "{map}",
        "[list]",
        "tab\tstop",
        "é",
        "",
        "back\\slash " * 20,
        "it's " * 40,
        'a "word" ' * 30,
        "a: b " * 40,
        "word " * 60,
        "x" * 200,
        None,
    ],
)
def test_yaml_as_pyyaml_reads_it(message: str | None) -> None:
    listed = [node(0, state_message=message), node(1, labels={"key": message}), node(2, labels={}, node_id="5e12")]
    for given in (listed, listed[0]):
        lines = as_yaml(given).splitlines()  # type: ignore[arg-type]
        assert yaml_text.mappings(lines) == (given if isinstance(given, list) else [given])


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        (2, 2.0),
        ("2.0", 2.0),
        ("1e-3", 0.001),
        ("40.000 GiB", 40.0 * 2**30),
        ("95.367 MiB", 99999547.0),
        ("12.000 B", 12.0),
        (True, None),
        (None, None),
        ("ALIVE", None),
    ],
)
def test_quantities(value: object, amount: float | None) -> None:
    assert values.quantity(value) == amount
