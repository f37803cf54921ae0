# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a host: its addresses, listeners, model directories and Docker. Changes nothing."""

from __future__ import annotations

import glob
import hashlib
import importlib.util
import json
import os
import re
import socket
import struct
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils import vocabulary
from ansible_collections.tandem.vllm.plugins.module_utils.containers import LABEL_ENVIRONMENT
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import Docker, Runner
from ansible_collections.tandem.vllm.plugins.module_utils.host.image_python import run_python
from ansible_collections.tandem.vllm.plugins.module_utils.host_contract import HostFacts, Listener

REQUESTS_REMEDY = "Install python3-requests there: Ansible's Docker modules need it"
# To load a vocabulary takes a second; on a busy machine the container's start takes longer.
PROBE_SECONDS = 120
SYSTEMD_REMEDY = "Tandem needs a host that runs systemd"


class Machine:
    """One host, read through files under `root` and commands through `run`."""

    def __init__(self, run: Runner, root: str = "/") -> None:
        self._run = run
        self._docker = Docker(run)
        self._root = root

    def _path(self, path: str) -> str:
        return os.path.join(self._root, path.lstrip("/"))

    def node_facts(
        self, image: str, models: Iterable[str], ports: Mapping[int, str], environment: str = ""
    ) -> HostFacts:
        """What judge_node needs. ports: per port the name of Tandem's container that should have it."""
        missing, models = self._missing_systemd(), list(models)
        if importlib.util.find_spec("requests") is None:
            missing["Python package requests"] = REQUESTS_REMEDY
        error, published = self._published_ports()
        # Any of this environment's: where it is not the one that the placement wants there, it makes room for that.
        ours = self._docker.labelled(f"{LABEL_ENVIRONMENT}={environment}") if environment else {}
        listeners = {}
        for port, container in ports.items():
            owner = published.get(port)
            # On the host's network nothing is published.
            found = (
                Listener("container " + owner, None, owner == container or owner in ours)
                if owner
                else self._listener(port, ours.values())
            )
            if found:
                listeners[port] = found
        return HostFacts(
            addresses=self._addresses(),
            missing=missing,
            docker_error=error,
            image_present=not error and self._docker.image_id(image) is not None,
            models={path: self._model_config(path) for path in models},
            listeners=listeners,
            vocabularies={path: self._vocabulary(path) for path in models},
            rdma_devices=bool(glob.glob(self._path("/dev/infiniband/uverbs*"))),
        )

    def builds_in(self, image: str, wanted: vocabulary.Vocabulary) -> bool:
        """Whether an image that is there loads a vocabulary by itself, tried in a container without a network."""
        return run_python(self._docker, image, ["-c", wanted.probe], PROBE_SECONDS).status == 0

    def gateway_facts(self, port: int, unit: str) -> HostFacts:
        """What judge_gateway needs. unit: the systemd unit whose processes may hold the port."""
        listener = self._listener(port, ["/" + unit])
        return HostFacts(
            addresses=self._addresses(),
            missing=self._missing_systemd(),
            listeners={port: listener} if listener else {},
        )

    def _missing_systemd(self) -> dict[str, str]:
        return {} if os.path.isdir(self._path("/run/systemd/system")) else {"systemd": SYSTEMD_REMEDY}

    def _published_ports(self) -> tuple[str | None, dict[int, str]]:
        """Why Docker does not answer (None when it does), and host port -> container name."""
        error, lines = self._docker.published_ports()
        published = {}
        for line in lines.splitlines():
            name, _tab, ports = line.partition("\t")
            for address, first, last in re.findall(r"(\S+):(\d+)(?:-(\d+))?->[\d-]+/tcp", ports):
                if address.startswith("127.") or address in ("[::1]", "::1"):
                    continue
                for port in range(int(first), int(last or first) + 1):
                    published[port] = name
        return error, published

    def _addresses(self) -> dict[str, str]:
        """Per address of this host the interface that has it."""
        _status, out, _err = self._run(["ip", "-json", "address", "show"])
        try:
            links: list[dict[str, Any]] = json.loads(out or "[]")
        except ValueError:
            links = []
        return {a["local"]: link["ifname"] for link in links for a in link.get("addr_info", []) if "local" in a}

    def _model_config(self, path: str) -> Any:
        """The parsed config.json of a model directory, or a text saying why there is none."""
        if not os.path.isdir(self._path(path)):
            return "no such directory on the node"
        config = os.path.join(self._path(path), "config.json")
        try:
            with open(config, encoding="utf-8") as stream:
                parsed = json.load(stream)
        except OSError as error:
            return f"its config.json cannot be read: {error.strerror}"
        except ValueError as error:
            return f"its config.json is not valid JSON: {error}"
        return parsed if isinstance(parsed, dict) else "its config.json is not a JSON object"

    def _vocabulary(self, path: str) -> dict[str, str]:
        """The known vocabulary files of a model directory with their SHA-256, or with why they cannot be read."""
        found = {name: _sha256(os.path.join(self._path(path), name)) for name in vocabulary.known_paths()}
        return {name: sha256 for name, sha256 in found.items() if sha256 is not None}

    def _listener(self, port: int, ours: Collection[str]) -> Listener | None:
        """The process that listens on a TCP port on any address but loopback; None when the port is free.

        ours: what the name of our own processes' control group holds, one of it: a systemd unit, ids of containers.
        """
        inodes = self._listening_inodes(port)
        if not inodes:
            return None
        for pid in sorted(int(os.path.basename(p)) for p in glob.glob(self._path("/proc/[0-9]*"))):
            if inodes & self._socket_inodes(pid):
                group = self._read("/proc/%d/cgroup" % pid)
                is_ours = any(name in group for name in ours)
                return Listener(self._read("/proc/%d/comm" % pid).strip() or "a process", pid, is_ours)
        return Listener("a process that could not be identified")

    def _listening_inodes(self, port: int) -> set[str]:
        inodes = set()
        for table in ("tcp", "tcp6"):
            for line in self._read("/proc/net/" + table).splitlines()[1:]:
                columns = line.split()
                address, _colon, hex_port = columns[1].partition(":")
                if columns[3] == "0A" and int(hex_port, 16) == port and not _is_loopback(address):
                    inodes.add(columns[9])
        return inodes

    def _socket_inodes(self, pid: int) -> set[str]:
        inodes = set()
        for link in glob.glob(self._path("/proc/%d/fd/*" % pid)):
            try:
                target = os.readlink(link)
            except OSError:  # the process or the descriptor went away meanwhile
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
        return inodes

    def _read(self, path: str) -> str:
        try:
            with open(self._path(path), encoding="utf-8", errors="replace") as stream:
                return stream.read()
        except OSError:  # not there, or gone meanwhile: the same as empty for every caller
            return ""


def _sha256(path: str) -> str | None:
    """The SHA-256 of a small file, or why it cannot be read; None where there is none."""
    try:
        with open(path, "rb") as stream:
            return hashlib.sha256(stream.read()).hexdigest()
    except FileNotFoundError:
        return None
    except OSError as error:
        return str(error.strerror)


def _is_loopback(hex_address: str) -> bool:
    """Whether an address of /proc/net/tcp (little-endian words) is a loopback one."""
    if len(hex_address) == 8:
        return socket.inet_ntoa(struct.pack("<I", int(hex_address, 16))).startswith("127.")
    # ::1, and 127.0.0.0/8 as an IPv4-mapped address
    return hex_address == "00000000000000000000000001000000" or (
        hex_address.startswith("0000000000000000FFFF0000") and hex_address.endswith("7F")
    )
