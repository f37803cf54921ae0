# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wrong contracts, run as a user would: each ends with one clear error before anything has changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.tandem.vllm.tests.e2e import lab
from ansible_collections.tandem.vllm.tests.e2e.lab import good, on, playbook

HOSTS = ["node1", "node2", "gateway"]
OUTSIDE = {"tandem_lab": False, "tandem_gpus": {"count": 1}}
ABSENT = "sha256:" + "0" * 64
# Of what the lab's own inventory holds, what an inventory without nodes needs too.
EMPTY = "tests/e2e/inventories/empty_group.yml"


def service(**changes: Any) -> dict[str, Any]:
    """tandem_services with one service, changed."""
    model = {"path": "/models/tandem-tiny-chat", "served_name": "tiny-chat", "revision": "main"}
    return {"tandem_services": [{"name": "chat", "model": model, **changes}]}


def model(**changes: Any) -> dict[str, Any]:
    """tandem_services with one service, its model changed."""
    return service(model={"path": "/models/tandem-tiny-chat", "served_name": "tiny-chat", **changes})


# What is wrong -> extra variables, and what the error must say: variable, value, remedy.
CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "unknown node": (
        service(replicas=[{"nodes": ["node9"]}]),
        ["tandem_services[0].replicas[0].nodes = 'node9'", "is no host of this inventory", "Correct the name"],
    ),
    "replica on a host outside the group": (
        service(replicas=[{"nodes": ["gateway"]}]),
        ["tandem_services[0].replicas[0].nodes = 'gateway'", "is not in the group tandem_nodes", "Add it to the group"],
    ),
    "duplicate port": (
        service(replicas=[{"nodes": ["node1"], "name": "a"}, {"nodes": ["node1"], "name": "b"}]),
        ["tandem_services[].port = 8000", "is used twice on node1: by replica a and by replica b", "another port"],
    ),
    "tensor parallel does not divide heads": (
        service(replicas=[{"nodes": ["node1"], "tensor_parallel": 3}]),
        [
            "node1: tensor_parallel of replica chat-node1 = 3",
            "must divide the model's 4 attention heads",
            "tandem_gpus",
        ],
    ),
    "missing model path on a node": (
        model(path="/models/elsewhere"),
        ["tandem_services[chat].model.path = '/models/elsewhere'", "no such directory on the node", "Put the model"],
    ),
    "latest image outside the lab": (
        {**OUTSIDE, **service(), "tandem_image": {"ref": "vllm/vllm-openai:latest"}},
        ["tandem_image.ref = 'vllm/vllm-openai:latest'", "'latest' is refused", "docker image inspect"],
    ),
    "no client key": (
        {"tandem_api_keys": []},
        ["tandem_api_keys = not set", "must list at least one client key", "openssl rand -hex 24"],
    ),
    "no engine key": (
        {"tandem_engine_api_key": ""},
        ["tandem_engine_api_key = not set", "is required", "openssl rand -hex 24"],
    ),
    "image absent": (
        {"tandem_image": {"ref": ABSENT}},
        [f"tandem_image.ref = '{ABSENT}'", "no such image on the node", "Set tandem_image.archive"],
    ),
    "archive absent": (
        {"tandem_image": {"ref": ABSENT, "archive": "/srv/nowhere.tar"}},
        ["tandem_image.archive = '/srv/nowhere.tar'", "must be a file on the control node", "docker save"],
    ),
    "port taken by somebody's process": (
        service(port=8055),
        ["tandem_services[chat].port = 8055", "is taken by python3 (pid", "Stop that process or choose another port"],
    ),
    "gateway's port taken by somebody's process": (
        {"tandem_gateway_port": 8055},
        ["gateway: tandem_gateway_port = 8055", "is taken by python3 (pid", "Stop that process or choose another port"],
    ),
    "negative memory": (
        service(limits={"memory": "-4g"}),
        ["tandem_services[0].limits.memory = '-4g'", "must be a size above zero", "Correct the value"],
    ),
    "misspelled key in a service": (
        service(engin={"max_model_len": 2048}),
        ["tandem_services[0].engin = {'max_model_len': 2048}", "unknown key", "Did you mean 'engine'?"],
    ),
    "misspelled engine setting": (
        service(engine={"max_modl_len": 2048}),
        ["tandem_services[0].engine.max_modl_len = 2048", "unknown key", "Did you mean 'max_model_len'?"],
    ),
    "flag that follows from the placement": (
        service(engine={"extra_args": {"tensor-parallel-size": 2}}),
        ["tandem_services[0].engine.extra_args.tensor-parallel-size", "follows from the placement", "Remove it"],
    ),
    "empty group": (
        {},
        ["group tandem_nodes = 'empty'", "must hold at least one GPU machine", "Add hosts to the inventory"],
    ),
}


def state() -> list[str]:
    """What a deployment would change on the lab's hosts."""
    look = (
        "ls -la --time-style=full-iso /etc/tandem /etc/tandem/gateway /etc/systemd/system; docker ps -aq; docker images"
    )
    return [on(host, "sh", "-c", look).output for host in HOSTS]


@pytest.fixture(scope="module")
def untouched() -> Iterator[list[str]]:
    """The lab's hosts as they are, with a process of somebody else on port 8055 of each."""
    good(playbook("playbooks/lab_up.yml"))
    for host in HOSTS:
        on(host, "systemd-run", "--unit", "somebody", "python3", "-m", "http.server", "8055")
    yield state()
    for host in HOSTS:
        on(host, "systemctl", "stop", "somebody")


@pytest.mark.parametrize("case", CASES)
def test_wrong_contract(case: str, untouched: list[str]) -> None:
    variables, words = CASES[case]
    empty = case == "empty group"
    if empty:
        found = lab.variables()
        keys = {"tandem_engine_api_key": found["engine_key"], "tandem_api_keys": [{"name": "a", "key": found["key"]}]}
        variables = {**service(), **keys, "tandem_image": found["image"]}
    run = playbook("dual-replica.yml", inventory=EMPTY if empty else lab.INVENTORY, **variables)
    assert run.status != 0
    said = run.error
    assert [word for word in words if word not in said] == [], run.output[-3000:]
    assert "(nothing was changed)" in said
    # One error, not several: a list of problems has its entries behind hyphens.
    assert "(nothing was changed):\n" not in run.output
    assert set(run.changed.values()) == {0}, run.changed
    assert state() == untouched
