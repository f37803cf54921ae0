# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.identity import network
from ansible_collections.tandem.vllm.plugins.module_utils.identity.network import Route

FIXTURES = Path(__file__).parents[4] / "fixtures/identity"
INTERFACES = {"lo": ["127.0.0.1"], "docker0": ["172.17.0.1"], "eth0": ["10.89.70.11"]}
WAY = Route("eth0", "10.89.70.11")


def text(name: str) -> str:
    return (FIXTURES / name).read_text()


def test_addresses() -> None:
    assert network.addresses(text("address.json.txt")) == INTERFACES
    assert network.addresses_plain(text("address.txt")) == INTERFACES


def test_several_addresses_of_one_interface() -> None:
    lines = "2: eth0    inet 10.0.0.1/24 scope global eth0\n2: eth0    inet 10.0.0.2/24 scope global secondary eth0\n"
    assert network.addresses_plain(lines + "3: eth1@if4    inet 10.1.0.1/24\n") == {
        "eth0": ["10.0.0.1", "10.0.0.2"],
        "eth1": ["10.1.0.1"],
    }


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("", None),
        ('Option "-j" is unknown, try "ip -help".', None),
        ("{}", None),
        # What `ip -j -4` of iproute2 4.18 prints for an interface with IPv6 only.
        ('[{},{"ifname":"eth0","addr_info":[{"family":"inet","local":"10.0.0.1"},{}]}]', {"eth0": ["10.0.0.1"]}),
        ('[{"ifname":"eth1","addr_info":[]}]', {}),
    ],
)
def test_what_is_no_list_of_addresses(said: str, found: dict[str, list[str]] | None) -> None:
    assert network.addresses(said) == found


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (text("route.json.txt"), WAY),
        ('[{"type":"local","dst":"10.0.0.1","dev":"lo","prefsrc":"10.0.0.1"}]', Route("lo", "10.0.0.1")),
        ('[{"type":"unreachable","dst":"10.0.0.2"}]', Route(None, None)),
        ("[]", None),
        (text("route.txt"), None),
    ],
)
def test_route(said: str, found: Route | None) -> None:
    assert network.route(said) == found


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (text("route.txt"), WAY),
        ("10.9.0.2 via 10.0.0.254 dev bond0.100 src 10.0.0.1 uid 0 \n    cache \n", Route("bond0.100", "10.0.0.1")),
        (text("route-unreachable.txt"), Route(None, None)),
    ],
)
def test_route_of_text(said: str, found: Route) -> None:
    assert network.route_plain(said) == found


def test_carrier() -> None:
    assert network.carrier(INTERFACES, "10.89.70.11") == "eth0"
    assert network.carrier(INTERFACES, "10.89.70.1") is None
