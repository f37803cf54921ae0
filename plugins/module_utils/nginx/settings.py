# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the inputs of the role nginx_gateway are fit to be written into an nginx configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.api_keys import API_KEY, KEY_REMEDY, KEY_WANTED
from ansible_collections.tandem.vllm.plugins.module_utils.problems import HIDDEN, Problems

ROLE = "nginx_gateway_"
POSITIVE = [
    "request_timeout",
    "connect_timeout",
    "max_fails",
    "fail_timeout",
    "tries",
    "upstream_keepalive",
    "upstream_keepalive_timeout",
    "worker_connections",
    "stop_timeout",
    "keep_logs_days",
]

_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_KEY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SIZE = re.compile(r"[1-9]\d*[kKmMgG]?")
_IPV4 = re.compile(r"(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}")


def problems_of(settings: Mapping[str, Any]) -> Problems:
    """What is wrong with the role's variables. settings: variable name without `nginx_gateway_` -> value.

    Values of keys are never told, only whose they are.
    """
    problems = Problems()
    _upstreams(problems, settings["upstreams"], settings["drained_replicas"])
    _keys(problems, settings["api_keys"])
    if settings["engine_key"] and not API_KEY.fullmatch(str(settings["engine_key"])):
        problems.add(ROLE + "engine_key", HIDDEN, KEY_WANTED, KEY_REMEDY)
    if not _IPV4.fullmatch(str(settings["listen_address"])):
        wanted = "must be an IPv4 address of the gateway host, or 0.0.0.0 for all"
        problems.add(ROLE + "listen_address", settings["listen_address"], wanted, "Give it the host's tandem_address")
    problems.kind(ROLE + "port", settings["port"], "port")
    for name in POSITIVE:
        problems.kind(ROLE + name, settings[name], "positive integer")
    for name in ("max_body_size", "body_buffer_size"):
        if not _SIZE.fullmatch(str(settings[name])):
            problems.add(
                ROLE + name, settings[name], "must be an nginx size above zero, such as 512k or 64m", "Correct it"
            )
    idle = settings["client_keepalive_timeout"]
    if isinstance(idle, bool) or not isinstance(idle, int) or idle < 0:
        problems.add(
            ROLE + "client_keepalive_timeout", idle, "must be a number of seconds, or 0 for none", "Correct it"
        )
    workers = settings["worker_processes"]
    if not re.fullmatch(r"auto|[1-9]\d{0,3}", str(workers)):
        problems.add(ROLE + "worker_processes", workers, "must be auto or a whole number above zero", "Correct it")
    return problems


def _upstreams(problems: Problems, upstreams: Sequence[Mapping[str, Any]], drained: Sequence[str]) -> None:
    if len(upstreams) != 1:
        names = ", ".join(str(u["service"]) for u in upstreams)
        wanted = "must be exactly one service: this gateway does not route by model yet"
        remedy = "Deploy one service, or each with a gateway of its own"
        problems.add(ROLE + "upstreams", names or None, wanted, remedy)
    known: list[str] = []
    for i, upstream in enumerate(upstreams):
        path = "%supstreams[%d]" % (ROLE, i)
        _word(problems, path + ".name", upstream["name"])
        if not upstream["servers"]:
            problems.add(path + ".servers", [], "must name at least one replica", "Add a node to tandem_nodes")
        for j, server in enumerate(upstream["servers"]):
            _word(problems, "%s.servers[%d].replica" % (path, j), server["replica"])
            _word(problems, "%s.servers[%d].address" % (path, j), server["address"])
            problems.kind("%s.servers[%d].port" % (path, j), server["port"], "port")
        known += [str(server["replica"]) for server in upstream["servers"]]
        if upstream["servers"] and all(server["replica"] in drained for server in upstream["servers"]):
            wanted = "would leave %s without a replica that takes requests" % upstream["service"]
            problems.add(ROLE + "drained_replicas", list(drained), wanted, "Leave at least one replica active")
    for replica in drained:
        if replica not in known:
            wanted = "is no replica; known are " + (", ".join(known) or "none")
            problems.add(ROLE + "drained_replicas", replica, wanted, "Correct the name, or remove it")


def _word(problems: Problems, variable: str, value: Any) -> None:
    if not _WORD.fullmatch(str(value)):
        problems.add(variable, value, "must have only letters, digits and . _ -", "Correct it")


def _keys(problems: Problems, entries: Sequence[Mapping[str, Any]]) -> None:
    variable = ROLE + "api_keys"
    if not entries:
        problems.add(variable, None, "must list at least one client key {name, key}", KEY_REMEDY)
    owner: dict[str, str] = {}
    names: set[str] = set()
    for i, entry in enumerate(entries):
        name, key = str(entry["name"]), str(entry["key"])
        if not _KEY_NAME.fullmatch(name):
            wanted = "must be 1 to 64 letters, digits and . _ -, starting with a letter or digit"
            problems.add("%s[%d].name" % (variable, i), name, wanted, "Rename it")
        elif name in names:
            wanted = "is the name of an earlier key too"
            problems.add("%s[%d].name" % (variable, i), name, wanted, "Give each client a name of its own")
        names.add(name)
        path = "%s[%d].key (of %s)" % (variable, i, name)
        if not API_KEY.fullmatch(key):
            problems.add(path, HIDDEN, "%s (it has %d)" % (KEY_WANTED, len(key)), KEY_REMEDY)
        elif key in owner:
            problems.add(path, HIDDEN, "is the same as the key of %s" % owner[key], "Give each client a key of its own")
        owner.setdefault(key, name)
