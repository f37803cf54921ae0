# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No two purposes share a port, none is one that others are told to reach, and none of Ray's is left to chance."""

from __future__ import annotations

import re
from itertools import combinations

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.placement import DEFAULT_GATEWAY_PORT, DEFAULT_PORT
from ansible_collections.tandem.vllm.plugins.module_utils.rank_group import ports
from ansible_collections.tandem.vllm.plugins.module_utils.rank_group.ray_start import start_argv

# Every constant of the module: a number, or the first and the last one.
SINGLE = [value for name, value in vars(ports).items() if name.isupper() and isinstance(value, int)]
PURPOSES = [*((port, port) for port in SINGLE), ports.WORKERS, ports.VLLM]


def test_the_constants_are_found() -> None:
    assert {ports.GCS, ports.MASTER, ports.KEEPER} < set(SINGLE)


def test_no_two_purposes_share_a_port() -> None:
    assert [low <= high for low, high in PURPOSES] == [True] * len(PURPOSES)
    assert [(one, other) for one, other in combinations(PURPOSES, 2) if one[0] <= other[1] and other[0] <= one[1]] == []


def test_every_port_is_kept_for_the_group() -> None:
    assert [ends for ends in PURPOSES if not (ports.is_kept(ends[0]) and ports.is_kept(ends[1]))] == []


# SSH, HTTP, HTTPS, Docker, Prometheus's node exporter; Ray's own defaults of the dashboard and the client.
@pytest.mark.parametrize("port", [DEFAULT_PORT, DEFAULT_GATEWAY_PORT, 22, 80, 443, 2375, 2376, 9100, 8265, 10001])
def test_no_port_that_something_else_is_known_by(port: int) -> None:
    assert not ports.is_kept(port)


def test_no_port_that_the_system_gives_to_connections() -> None:
    # Linux: net.ipv4.ip_local_port_range is 32768 to 60999.
    assert [ends for ends in PURPOSES if not 1024 <= ends[0] <= ends[1] < 32768] == []


@pytest.mark.parametrize(
    ("port", "kept"),
    [
        (6378, False),
        (6379, True),
        (6391, True),
        (6392, False),
        (10001, False),
        (10002, True),
        (10999, True),
        (11000, True),
        (11099, True),
        (11100, False),
    ],
)
def test_is_kept(port: int, kept: bool) -> None:
    assert ports.is_kept(port) is kept


def test_firewall() -> None:
    assert ports.FIREWALL == {"tcp": ("6379:6391", "10002:10999", "11000:11099"), "udp": ("6389",)}


@pytest.mark.parametrize("address", ["10.0.0.1", "10.0.0.2"])
def test_every_port_that_ray_is_told_is_behind_the_firewall(address: str) -> None:
    argv = start_argv(address, "10.0.0.1", 4, 1)
    told = [
        int(found[1]) for found in (re.fullmatch(r"--(?:[a-z-]*port=|address=[\d.]+:)(\d+)", a) for a in argv) if found
    ]
    ranges = [tuple(map(int, text.split(":"))) for text in ports.FIREWALL["tcp"]]
    assert len(told) == len([argument for argument in argv if "port=" in argument or "--address=" in argument])
    assert [port for port in told if not any(low <= port <= high for low, high in ranges)] == []
    assert len(set(told)) == len(told)
