# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.nginx.settings import problems_of

ALICE, BOB = "alice-key-0123456789", "bob-key-0123456789.~+/="
GOOD: dict[str, Any] = {
    "upstreams": [
        {
            "name": "tandem_chat",
            "service": "chat",
            "served_name": "m",
            "task": "generate",
            "servers": [
                {"replica": "chat-0", "node": "node1", "address": "10.0.0.1", "port": 8000},
                {"replica": "chat-1", "node": "node2", "address": "node2.example.org", "port": 8000},
            ],
        }
    ],
    "api_keys": [{"name": "alice", "key": ALICE}, {"name": "bob", "key": BOB}],
    "engine_key": "engine-key-0123456789",
    "listen_address": "10.0.0.3",
    "port": 8080,
    "drained_replicas": [],
    "request_timeout": 3600,
    "connect_timeout": 2,
    "max_fails": 3,
    "fail_timeout": 5,
    "tries": 3,
    "upstream_keepalive": 128,
    "upstream_keepalive_timeout": 3,
    "client_keepalive_timeout": 0,
    "max_body_size": "64m",
    "body_buffer_size": "1m",
    "worker_processes": "auto",
    "worker_connections": 8192,
    "stop_timeout": 30,
    "keep_logs_days": 14,
}


def told(**changes: Any) -> list[str]:
    return [str(p) for p in problems_of({**copy.deepcopy(GOOD), **changes}).found]


def test_good_settings() -> None:
    assert told() == []
    assert told(engine_key="", worker_processes=4, listen_address="10.0.0.255", drained_replicas=["chat-1"]) == []
    assert told(max_body_size=1048576, client_keepalive_timeout=75) == []


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"upstreams": []}, ["nginx_gateway_upstreams = not set", "exactly one service"]),
        ({"upstreams": GOOD["upstreams"] * 2}, ["nginx_gateway_upstreams = 'chat, chat'", "does not route by model"]),
        ({"upstreams": [{**GOOD["upstreams"][0], "servers": []}]}, ["upstreams[0].servers", "at least one replica"]),
        ({"upstreams": [{**GOOD["upstreams"][0], "name": "a; b"}]}, ["upstreams[0].name = 'a; b'"]),
        ({"drained_replicas": ["chat-9"]}, ["drained_replicas = 'chat-9'", "known are chat-0, chat-1"]),
        ({"drained_replicas": ["chat-0", "chat-1"]}, ["drained_replicas", "without a replica that takes requests"]),
        ({"api_keys": []}, ["nginx_gateway_api_keys = not set", "at least one"]),
        ({"api_keys": [{"name": "a b", "key": ALICE}]}, ["api_keys[0].name = 'a b'"]),
        (
            {"api_keys": [*GOOD["api_keys"], {"name": "alice", "key": "x" * 20}]},
            ["api_keys[2].name = 'alice'", "earlier"],
        ),
        ({"api_keys": [{"name": "eve", "key": "short"}]}, ["api_keys[0].key (of eve) = (hidden)", "16 to", "it has 5"]),
        ({"api_keys": [{"name": "eve", "key": 'quote";in-the-key'}]}, ["(of eve)", "characters"]),
        ({"api_keys": [{"name": "eve", "key": ALICE + "\n"}]}, ["(of eve)"]),
        ({"api_keys": [*GOOD["api_keys"], {"name": "eve", "key": ALICE}]}, ["(of eve) = (hidden)", "the key of alice"]),
        ({"engine_key": "with space in the key"}, ["engine_key = (hidden)"]),
        ({"listen_address": "gateway"}, ["listen_address = 'gateway'", "IPv4"]),
        ({"listen_address": "10.0.0.256"}, ["listen_address"]),
        ({"listen_address": "10.0.0"}, ["listen_address"]),
        ({"listen_address": "10.0.0.1."}, ["listen_address"]),
        ({"port": 70000}, ["nginx_gateway_port = 70000"]),
        ({"port": "8080"}, ["nginx_gateway_port = '8080'"]),
        ({"request_timeout": 0}, ["request_timeout = 0", "above zero"]),
        ({"worker_connections": "8192"}, ["worker_connections = '8192'", "whole number"]),
        ({"client_keepalive_timeout": -1}, ["client_keepalive_timeout = -1"]),
        ({"max_body_size": "0"}, ["max_body_size = '0'", "64m"]),
        ({"max_body_size": "64 MiB"}, ["max_body_size"]),
        ({"worker_processes": "many"}, ["worker_processes = 'many'"]),
    ],
)
def test_one_clear_problem(changes: dict[str, Any], parts: list[str]) -> None:
    found = told(**changes)
    assert len(found) == 1, found
    for part in parts:
        assert part in found[0]
    for secret in (ALICE, BOB, "quote", "short", "with space"):
        assert secret not in found[0]


def test_all_problems_at_once() -> None:
    assert len(told(port=0, tries=-1, max_body_size="")) == 3
