# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what makes a host the node of a rank group that it should be. Changes nothing, never fails on what it finds."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Callable

from ansible_collections.tandem.vllm.plugins.module_utils.bundle import derived
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.node_wheels import BASE_LABEL, WHEELS_LABEL
from ansible_collections.tandem.vllm.plugins.module_utils.gpu import visibility
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import TIMED_OUT, Runner, limited
from ansible_collections.tandem.vllm.plugins.module_utils.identity import container, network
from ansible_collections.tandem.vllm.plugins.module_utils.smi import text as smi_text

# ip and `docker inspect` answer at once, or hang.
SHORT_SECONDS = 15
NO_GPUS = "the contract gives the node no GPUs"
NO_CONTAINER = "no container was named"


@dataclass(frozen=True)
class Wanted:
    """What is asked about. address: the node's own; gpus: ids of the contract; head: {address, port} to connect to."""

    address: str
    peers: Sequence[str] = ()
    container: str | None = None
    gpus: Sequence[str] = field(default_factory=tuple)
    head: Mapping[str, Any] | None = None


class NodeIdentity:
    """One host, read through commands. seconds: longest time of a command within the container."""

    def __init__(self, run: Runner, seconds: int, connect: Callable[..., Any] = socket.create_connection) -> None:
        self._run, self._seconds, self._connect = run, seconds, connect

    def facts(self, wanted: Wanted) -> dict[str, Any]:
        """The result of the module node_identity_info."""
        interfaces, error = self._interfaces()
        found, connected = self._container(wanted)
        return {
            "address": wanted.address,
            "interfaces": interfaces,
            "interfaces_error": error,
            "interface": network.carrier(interfaces, wanted.address),
            "routes": [self._route(peer) for peer in wanted.peers],
            "container": found,
            **self._gpus(wanted.gpus, found),
            **self._head(wanted.head, found, connected),
        }

    def _interfaces(self) -> tuple[dict[str, list[str]], str | None]:
        """Interface -> its addresses, and why they are not known."""
        status, out, _err = self._run(limited(SHORT_SECONDS, network.ADDRESSES))
        found = network.addresses(out) if status == 0 else None
        if found is not None:
            return found, None
        status, out, err = self._run(limited(SHORT_SECONDS, network.ADDRESSES_PLAIN))
        return (network.addresses_plain(out), None) if status == 0 else ({}, said(status, out, err))

    def _route(self, peer: str) -> dict[str, Any]:
        status, out, _err = self._run(limited(SHORT_SECONDS, network.route_to(peer)))
        found, error = network.route(out) if status == 0 else None, None
        if found is None:
            status, out, err = self._run(limited(SHORT_SECONDS, network.route_to_plain(peer)))
            found = network.route_plain(out)
            error = said(status, out, err) if status else None
        return {"peer": peer, "source": found.source, "interface": found.interface, "error": error}

    def _container(self, wanted: Wanted) -> tuple[dict[str, Any] | None, str | None]:
        """Facts of the container, and what came of the connection from within: "", or the error; None: not tried."""
        name = wanted.container
        if not name:
            return None, None
        status, out, err = self._run(limited(SHORT_SECONDS, container.inspect_argv(name)))
        if status:
            missing = "no such container" in err.lower()
            return container.nothing(name, False if missing else None, said(status, "", err)), None
        found = container.inspected(name, out)
        found.update(self._image(found["image_id"]))
        if not found["running"]:
            return {**found, **container.silent(_stopped(found))}, None
        head = [wanted.head["address"], str(wanted.head["port"])] if wanted.head else []
        status, out, err = self._run(self._limited(container.probe_argv(name, self._seconds, head)))
        answer = container.probed(out)
        if answer is None:
            return {**found, **container.silent(said(status, out, err))}, None
        return {**found, **container.software(answer)}, answer["connected"]

    def _image(self, image_id: str) -> dict[str, Any]:
        """What the image was made of, by the labels of a derived one."""
        status, out, err = self._run(limited(SHORT_SECONDS, ["docker", "image", "inspect", image_id]))
        if status:
            return {"image_error": said(status, "", err)}
        labels = derived.of_inspect(out)[0].labels
        return {"base_image_id": labels.get(BASE_LABEL), "wheelhouse": labels.get(WHEELS_LABEL)}

    def _gpus(self, ids: Sequence[str], found: Mapping[str, Any] | None) -> dict[str, Any]:
        """The GPUs of the host that the contract names, and those that the container sees."""
        host, host_reason = ([], NO_GPUS) if not ids else self._listed(limited(self._seconds, ["nvidia-smi", "-L"]))
        uuids, unknown = visibility.resolve(list(ids), host)
        inside: list[visibility.Listed] = []
        if found is None:
            reason: str | None = NO_CONTAINER
        elif not found["running"]:
            reason = found["error"] or _stopped(found)
        else:
            inside, reason = self._listed(self._limited(container.gpus_argv(found["name"], self._seconds)))
        return {
            "gpus": list(ids),
            "gpus_host": uuids,
            "gpus_host_reason": host_reason,
            "gpus_unknown": [] if host_reason else unknown,
            "gpus_container": [gpu.uuid for gpu in inside],
            "gpus_container_reason": reason,
        }

    def _listed(self, argv: Sequence[str]) -> tuple[list[visibility.Listed], str | None]:
        """The GPUs that `nvidia-smi -L` lists, and why there are none."""
        status, out, err = self._run(argv)
        text = out + "\n" + err
        found = visibility.listed(text)
        if status == 127 or "executable file not found" in text:
            return [], smi_text.NOT_INSTALLED
        if status in TIMED_OUT:
            return [], f"nvidia-smi did not end within {self._seconds} s"
        if status or not found:
            errors = smi_text.parse(text).errors
            return [], errors[0] if errors else said(status, out, err)
        return found, None

    def _head(
        self, head: Mapping[str, Any] | None, found: Mapping[str, Any] | None, connected: str | None
    ) -> dict[str, Any]:
        """Whether the head's port answers the container; the host, where there is none that runs, and it would share
        the host's network.
        """
        result = {"head": dict(head) if head else None, "head_reachable": None, "head_error": None, "head_from": None}
        if head is None:
            return result
        if connected is not None:
            return {
                **result,
                "head_reachable": not connected,
                "head_error": connected or None,
                "head_from": "container",
            }
        if found and found["running"]:
            return {**result, "head_error": found["version_errors"].get("python")}
        if found and found["network_mode"] not in (None, "host"):
            return {**result, "head_error": _stopped(found) + ", and has a network of its own"}
        try:
            self._connect((head["address"], head["port"]), container.CONNECT_SECONDS).close()
        except OSError as error:
            return {**result, "head_reachable": False, "head_error": str(error), "head_from": "host"}
        return {**result, "head_reachable": True, "head_from": "host"}

    def _limited(self, argv: Sequence[str]) -> list[str]:
        # Docker itself may hang; the command within has its own, shorter limit.
        return limited(self._seconds + SHORT_SECONDS, argv)


def said(status: int, out: str, err: str) -> str:
    """Why a command gave no answer: its last line, or its exit status."""
    if status in TIMED_OUT:
        return "it did not end in time"
    lines = (err.strip() or out.strip()).splitlines()
    return lines[-1].strip() if lines else f"exit status {status}, and not a word"


def _stopped(found: Mapping[str, Any]) -> str:
    return f"the container does not run, it is {found['status']}"
