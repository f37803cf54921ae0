# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No way out: lab hosts and the control process can reach the lab's network only, and each attempt at more is counted.

Every place gets a default route, so that an attempt becomes a packet, and a chain that counts and rejects what is
for elsewhere. Questions to a name server are counted wherever it is, Docker's own (127.0.0.11) included. The control
process runs in a network namespace of its own whose one device is on the lab's bridge; that takes root.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

NAMESPACE = "tandem-e2e"
NETWORK = "tandem-lab"
SUBNET = "10.89.70.0/24"
CONTROL = "10.89.70.200/24"
CHAIN = "TANDEM-EGRESS"
# Device of each place that leads to the lab's network.
LAB_DEVICE, CONTROL_DEVICE = "eth0", "tandem-e2e"
COUNTED = re.compile(r"^\s*(\d+)\s+\d+\s+REJECT", re.MULTILINE)

Shell = Callable[[str], str]


def _command(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout


def place(host: str) -> Shell:
    """Runs shell commands on a lab host; the control process's namespace is the host `control`."""
    enter = ["ip", "netns", "exec", NAMESPACE] if host == "control" else ["docker", "exec", f"tandem-lab-{host}"]
    return lambda command: _command(*enter, "sh", "-ec", command)


def _deny(shell: Shell, device: str) -> None:
    shell(
        f"ip route replace default dev {device}; iptables -N {CHAIN}; "
        # Docker's resolver listens on a port that its own NAT rules have put in place of 53 when this chain is asked.
        f"iptables -A {CHAIN} -d 127.0.0.11 -j REJECT; "
        f"iptables -A {CHAIN} -p udp --dport 53 -j REJECT; iptables -A {CHAIN} -p tcp --dport 53 -j REJECT; "
        # A port that a container publishes is asked for through lo or docker0.
        f"iptables -A {CHAIN} -o lo -j RETURN; iptables -A {CHAIN} -o docker0 -j RETURN; "
        f"iptables -A {CHAIN} -d {SUBNET} -j RETURN; iptables -A {CHAIN} -j REJECT; iptables -I OUTPUT -j {CHAIN}; "
        # What containers send, where they have a network of their own.
        f"iptables -I FORWARD -o {device} -j {CHAIN}"
    )


def _allow(shell: Shell, device: str) -> None:
    shell(
        f"ip route del default dev {device}; iptables -D OUTPUT -j {CHAIN}; "
        f"iptables -D FORWARD -o {device} -j {CHAIN}; iptables -F {CHAIN}; iptables -X {CHAIN}"
    )


def attempts(host: str) -> int:
    """Packets for elsewhere that the place has sent since it was denied, questions to name servers included."""
    return sum(int(count) for count in COUNTED.findall(place(host)(f"iptables -vxnL {CHAIN}")))


def try_out(host: str) -> tuple[int, int]:
    """(attempts counted for one connection, for one name) that the place is made to try; then counts from 0 again."""
    shell = place(host)
    shell("timeout 5 python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80))' 2>/dev/null || true")
    connection = attempts(host)
    shell("timeout 20 getent ahostsv4 nowhere.example.org || true")
    name = attempts(host) - connection
    shell(f"iptables -Z {CHAIN}")
    return connection, name


@contextmanager
def denied(hosts: Sequence[str], sockets: str) -> Iterator[list[str]]:
    """Nothing gets out of these lab hosts and the control process; yields how a command line for the latter begins.

    sockets: a folder for those of ssh. Connections that Ansible keeps open are inside or outside, never shared.
    """
    network = json.loads(_command("docker", "network", "inspect", NETWORK))[0]["Id"]
    outside = f"{CONTROL_DEVICE}-br"
    _command("ip", "netns", "add", NAMESPACE)
    try:
        _command("ip", "link", "add", outside, "type", "veth", "peer", "name", CONTROL_DEVICE, "netns", NAMESPACE)
        _command("ip", "link", "set", outside, "master", f"br-{network[:12]}", "up")
        control = place("control")
        control(f"ip link set lo up; ip address add {CONTROL} dev {CONTROL_DEVICE}; ip link set {CONTROL_DEVICE} up")
        _deny(control, CONTROL_DEVICE)
        for host in hosts:
            _deny(place(host), LAB_DEVICE)
        yield ["ip", "netns", "exec", NAMESPACE, "env", f"ANSIBLE_SSH_CONTROL_PATH_DIR={sockets}"]
        for host in hosts:
            _allow(place(host), LAB_DEVICE)
    finally:
        for pid in _command("ip", "netns", "pids", NAMESPACE).split():
            os.kill(int(pid), signal.SIGKILL)
        _command("ip", "netns", "delete", NAMESPACE)
        subprocess.run(["ip", "link", "delete", outside], check=False, capture_output=True)
