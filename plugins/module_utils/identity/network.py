# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command lines of iproute2 that tell a host's IPv4 addresses and routes, and what their answers are.

iproute2 tells them as JSON since 4.16 of 2018; an older one, or another program named ip, as text only.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

ADDRESSES = ("ip", "-j", "-4", "address", "show")
ADDRESSES_PLAIN = ("ip", "-4", "-o", "address", "show")
# 17: eth0    inet 10.89.70.11/24 brd 10.89.70.255 scope global eth0
ADDRESS_LINE = re.compile(r"^\d+:\s+(?P<interface>[^\s@]+)\S*\s+inet\s+(?P<address>[\d.]+)", re.MULTILINE)
# 10.89.70.12 dev eth0 src 10.89.70.11 uid 0
DEVICE = re.compile(r"\bdev (\S+)")
SOURCE = re.compile(r"\bsrc ([\d.]+)")


@dataclass(frozen=True)
class Route:
    """How packets to a peer leave the host. interface, source: None where they are not told."""

    interface: str | None
    source: str | None


def route_to(peer: str) -> list[str]:
    """Asks for the route to a peer."""
    return ["ip", "-j", "-4", "route", "get", peer]


def route_to_plain(peer: str) -> list[str]:
    """The same for an ip without JSON."""
    return ["ip", "-4", "route", "get", peer]


def _objects(text: str) -> list[dict[str, Any]] | None:
    """The list of objects that the text is in JSON; None where it is not."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    # `ip -j` of some releases prints empty objects for what it filtered out.
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else None


def addresses(text: str) -> dict[str, list[str]] | None:
    """Interface -> its addresses, of JSON; None where the text is none."""
    links = _objects(text)
    if links is None:
        return None
    found = {link.get("ifname", ""): [a["local"] for a in link.get("addr_info", []) if "local" in a] for link in links}
    return {name: own for name, own in found.items() if name and own}


def addresses_plain(text: str) -> dict[str, list[str]]:
    """Interface -> its addresses, of text."""
    found: dict[str, list[str]] = {}
    for line in ADDRESS_LINE.finditer(text):
        found.setdefault(line["interface"], []).append(line["address"])
    return found


def route(text: str) -> Route | None:
    """A route, of JSON; None where the text is none."""
    routes = _objects(text)
    return Route(routes[0].get("dev"), routes[0].get("prefsrc")) if routes else None


def route_plain(text: str) -> Route:
    """A route, of text."""
    device, source = DEVICE.search(text), SOURCE.search(text)
    return Route(device[1] if device else None, source[1] if source else None)


def carrier(interfaces: dict[str, list[str]], address: str) -> str | None:
    """The interface that an address is on; None where it is on none."""
    return next((name for name, own in interfaces.items() if address in own), None)
