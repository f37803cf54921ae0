# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One address all the way: on an interface, in the environment, in Ray, and on the way to the peers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.identity.group import Finding, Group, not_known
from ansible_collections.tandem.vllm.plugins.module_utils.identity.network import carrier

IP_REMEDY = "Run 'ip address' and 'ip route' there, and install iproute2 if it is not there"


def findings(group: Group, name: str) -> list[Finding]:
    """What is wrong with the addresses of one node."""
    found = [*_interface(group, name), *_routes(group, name)]
    container = group.running().get(name)
    if container is None:
        return found
    interface = carrier(group.nodes[name]["interfaces"], group.addresses[name])
    found += [*_network(name, container), *_host_ip(group, name, container)]
    if group.cluster is not None:
        found += _advertised(group, name, container)
    return found + (_interface_names(group.nodes[name], name, interface) if interface else [])


def _interface(group: Group, name: str) -> list[Finding]:
    facts, own = group.nodes[name], group.addresses[name]
    if facts["interfaces_error"]:
        return [not_known(name, "addresses of the host", facts["interfaces_error"], IP_REMEDY)]
    if carrier(facts["interfaces"], own):
        return []
    there = ", ".join(f"{address} on {each}" for each, own_ones in facts["interfaces"].items() for address in own_ones)
    remedy = "Correct tandem_address of the node, or bring up the interface that should have the address"
    return [Finding(name, "addresses of the host", there or "none", f"must have {own} among them", remedy)]


def _routes(group: Group, name: str) -> list[Finding]:
    own, found = group.addresses[name], []
    routes = {route["peer"]: route for route in group.nodes[name]["routes"]}
    for peer in group.peers(name):
        what, route = f"source of the route to {peer}", routes.get(peer)
        if route is None or (route["error"] is None and route["source"] is None):
            reason = "the route was not looked up" if route is None else "ip names no source"
            found.append(not_known(name, what, reason, f"Run 'ip route get {peer}' there"))
        elif route["error"]:
            remedy = f"Run 'ip route get {peer}' there: the node needs a route to that address"
            found.append(not_known(name, what, route["error"], remedy))
        elif route["source"] != own:
            said = f"{route['source']} on {route['interface']}"
            remedy = (
                f"Set tandem_address of the nodes to addresses of the network that they share, or give the route its"
                f" source with 'ip route replace {peer} dev INTERFACE src {own}' and in the host's network settings"
            )
            found.append(Finding(name, what, said, f"must be {own}", remedy))
    return found


def _network(name: str, container: Mapping[str, Any]) -> list[Finding]:
    if container["network_mode"] == "host":
        return []
    remedy = "Start the container with --network host: ranks on several nodes reach each other by the hosts' addresses"
    return [Finding(name, "network of the container", str(container["network_mode"]), "must be host", remedy)]


def _host_ip(group: Group, name: str, container: Mapping[str, Any]) -> list[Finding]:
    own, value = group.addresses[name], container["environment"]["VLLM_HOST_IP"]
    same = [
        other
        for other, another in group.running().items()
        if other != name and value and another["environment"]["VLLM_HOST_IP"] == value
    ]
    shared = f", as on {', '.join(same)}" if same else ""
    if value != own:
        remedy = f"Start the container with VLLM_HOST_IP={own}, and set it in nothing that all nodes share"
        return [Finding(name, "VLLM_HOST_IP", f"{value or 'not set'}{shared}", f"must be {own}", remedy)]
    # Where each node has the value that it should have, the others are told as such.
    if any(group.addresses[other] == own for other in same):
        remedy = "Give each node a tandem_address of its own"
        return [Finding(name, "VLLM_HOST_IP", value + shared, "must be another on each node", remedy)]
    return []


def _advertised(group: Group, name: str, container: Mapping[str, Any]) -> list[Finding]:
    own, what = group.addresses[name], "address that Ray advertises"
    if container["ray_address"] is None:
        remedy = f"Run 'docker logs {container['name']}' there"
        return [not_known(name, what, container["ray_address_error"], remedy)]
    if container["ray_address"] == own:
        return []
    remedy = f"Start Ray there with --node-ip-address={own}: by itself it takes the address of the route to the outside"
    return [Finding(name, what, container["ray_address"], f"must be {own}", remedy)]


def _interface_names(facts: Mapping[str, Any], name: str, interface: str) -> list[Finding]:
    """NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME name the interface of this host and no other."""
    environment, versions = facts["container"]["environment"], facts["container"]["versions"]
    found = []
    # NCCL takes each interface whose name begins so, unless the value begins with "=". gloo knows whole names only.
    longer = sorted(other for other in facts["interfaces"] if other.startswith(interface) and other != interface)
    wanted, why = "=" + interface, f": without '=' NCCL takes {', '.join(longer)} as well" if longer else ""
    allowed = {wanted} if longer else {wanted, interface}
    value = environment["NCCL_SOCKET_IFNAME"]
    # A torch without CUDA has no NCCL that could read it.
    needless = value is None and versions["torch"] and not versions["nccl"] and "nccl" not in _errors(facts)
    if value not in allowed and not needless:
        found.append(_variable(name, "NCCL_SOCKET_IFNAME", value, wanted, why))
    if environment["GLOO_SOCKET_IFNAME"] != interface:
        found.append(_variable(name, "GLOO_SOCKET_IFNAME", environment["GLOO_SOCKET_IFNAME"], interface, ""))
    return found


def _errors(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    errors: Mapping[str, Any] = facts["container"]["version_errors"]
    return errors


def _variable(name: str, variable: str, value: str | None, wanted: str, why: str) -> Finding:
    remedy = f"Start the container on this node with {variable}={wanted}"
    return Finding(name, variable, value or "not set", f"must be {wanted}{why}", remedy)
