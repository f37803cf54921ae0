# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures of starting and keeping a server: ports, addresses, arguments, and engines that end without a known cause.

Spellings are those of uvicorn, vLLM, Ray, PyTorch, ZeroMQ, gRPC, Docker and nginx. Texts are in
tests/fixtures/triage/server, a file for each failure; a test holds that every phrase has one.
"""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.triage.signature import (
    LOW,
    MEDIUM,
    Case,
    Family,
    Kind,
    Signature,
)

# "Any free port" was asked for.
BIND_ANY = r"bind\(\(.{0,20}, ?0\)\)"
IN_USE = r"address already in use"
PORTS = (
    r"attempting to bind on address \('[^']*', ?(\d+)",
    r"(?:Bind for|bind host port for|listen tcp\d?|bind\(\) to|[Ff]ailed to bind to) \[?[\w.:*]*?\]?:(\d+)",
    r"socket has failed to (?:bind|listen) .{0,60}?(?:port: |\]:)(\d+)",
    r"addr='?tcp://[^']*?:(\d+)",
    r"Ray is trying to start at [\w.-]+:(\d+)",
    r"trying to use a port number (\d+)",
    r"ipv4:[\d.]+:(\d+)",
    r"[Pp]ort (\d+) is already (?:in use|allocated|occupied)",
)
# An exception that was raised only because another process had failed, or that tells nothing by itself.
FOLLOWS = re.compile(
    r"Engine core initialization failed|WorkerProc initialization failed|Engine process failed|EngineDead"
    r"|See (?:root cause|stack trace)|^(?:SystemExit|KeyboardInterrupt|RayTaskError)"
    r"|Engine loop (?:has|is)|cancelled|CancelledError"
)
EXCEPTION = re.compile(r"^((?:\w+\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt)): (.{3,300})")


def _port_facts(case: Case) -> dict[str, Any]:
    """port: the one that is taken."""
    for pattern in PORTS:
        found = case.text.fact(pattern)
        if found and int(found):
            return {"port": int(found)}
    return {}


def _address_facts(case: Case) -> dict[str, Any]:
    match = case.text.search(r"bind on address \('([^']+)', ?(\d+)\)") or case.text.search(
        r"addr='?tcp://([\w.]+):(\d+)"
    )
    return {"address": match.group(1), "port": int(match.group(2))} if match else {}


def _argument_facts(case: Case) -> dict[str, Any]:
    return {"arguments": case.text.fact(r"unrecognized arguments: (--?[\w-]+(?: --?[\w-]+)*)")}


def _exception_facts(case: Case) -> dict[str, Any]:
    """exception: the last one that does not follow from another."""
    for line in reversed(case.text.lines):
        match = EXCEPTION.match(line.clean)
        if match and not FOLLOWS.search(line.clean):
            return {"exception": match.group(0)}
    return {}


def _port_named(case: Case) -> bool:
    return bool(_port_facts(case))


KINDS = (
    Kind(
        "port_conflict",
        "Something else listens on the port, often the process of before: stop it, or choose another port. Look before "
        "the model is loaded: the server takes its port only after minutes.",
        "ss -ltnp 'sport = :PORT'; docker ps --filter publish=PORT",
        facts=_port_facts,
    ),
    Kind(
        "ephemeral_ports_exhausted",
        "The system has no free port to give for a connection or a temporary listener: many connections in TIME_WAIT, "
        "a narrow net.ipv4.ip_local_port_range, or a sandbox that forbids it. Another --port changes nothing; keep "
        "connections alive, and widen the range.",
        "ss -s; sysctl net.ipv4.ip_local_port_range; ss -Htan state time-wait | wc -l",
    ),
    Kind(
        "bind_address_not_on_host",
        "The address to listen on is on no interface of this machine, or of this container: correct VLLM_HOST_IP, "
        "--host or --node-ip-address, and use host networking where a rank group spans machines.",
        "ip -brief address; docker inspect --format '{{.HostConfig.NetworkMode}}' CONTAINER",
        facts=_address_facts,
    ),
    Kind(
        "argument_unknown",
        "This version of vLLM does not know the argument: correct it, or see what the image's version takes.",
        "docker run --rm --entrypoint vllm IMAGE serve --help=all",
        facts=_argument_facts,
    ),
    Kind(
        "cuda_kernel_error",
        "A kernel failed on the GPU: a defect of the engine or of a kernel more often than of the hardware. Look for "
        "Xid lines; try --enforce-eager and another attention backend, upgrade, and report it with "
        "CUDA_LAUNCH_BLOCKING=1.",
        "journalctl --dmesg --since -1h | grep Xid; docker logs CONTAINER 2>&1 | grep -m 3 'CUDA error'",
        because_of=("gpu_fell_off_bus", "gpu_requires_reset"),
    ),
    Kind(
        "engine_died_unknown",
        "The engine ended, and these lines only say that it did: the first error above them, in the log of the process "
        "or node that failed first, is the cause.",
        "docker logs CONTAINER 2>&1 | grep -nE 'Error|Exception|ERROR' | head -n 20",
        facts=_exception_facts,
    ),
)

SIGNATURES = (
    Signature(
        "ephemeral_ports_exhausted",
        (IN_USE,),
        MEDIUM,
        needs=(BIND_ANY,),
        unless=(r"attempting to bind on address",),
        checks=("ss -s", "sysctl net.ipv4.ip_local_port_range", "ulimit -n"),
    ),
    Signature(
        "ephemeral_ports_exhausted",
        (r"connect\(\) to .{0,60}failed \(99: Cannot assign requested address\)",),
        advice="The gateway has no free port left for connections to the engine: keep connections alive (keepalive in "
        "the upstream, HTTP/1.1), and widen net.ipv4.ip_local_port_range.",
    ),
    Signature(
        "port_conflict",
        (
            IN_USE,
            r"EADDRINUSE",
            r"port is already allocated",
            r"Ray is trying to start at .{0,60}but is already running at",
            r"is trying to use a port number \d+ that is used by other components",
            r"because it's already occupied",
        ),
        when=_port_named,
    ),
    Signature(
        "port_conflict",
        (IN_USE, r"Address in use"),
        MEDIUM,
        unless=(BIND_ANY,),
        checks=("ss -ltnp", "docker logs CONTAINER 2>&1 | grep -B 12 'already in use'"),
    ),
    Signature(
        "bind_address_not_on_host",
        (
            r"attempting to bind on address .{0,60}cannot assign requested address",
            r"ZMQError: Cannot assign requested address",
            r"socket has failed to (?:bind|listen) .{0,160}Cannot assign requested address",
        ),
    ),
    Signature(
        "argument_unknown",
        (
            r"error: unrecognized arguments: -",
            r"error: argument --?[\w/-]+: invalid choice",
            r"unexpected keyword argument '\w+'",
        ),
        needs=(r"vllm|api_server|EngineArgs",),
    ),
    Signature(
        "cuda_kernel_error",
        (
            r"CUDA error: an illegal memory access was encountered",
            r"CUDA error: device-side assert triggered",
            r"CUDA error: unspecified launch failure",
            r"CUBLAS_STATUS_EXECUTION_FAILED",
        ),
        MEDIUM,
        checks=("journalctl --dmesg --since -1h | grep Xid", "nvidia-smi -q | grep -i 'recovery action'"),
    ),
    Signature(
        "engine_died_unknown",
        (
            r"EngineCore failed to start",
            r"Engine core initialization failed",
            r"EngineDeadError",
            r"EngineCore encountered (?:an issue|a fatal error)",
            r"Background loop has errored already",
            r"Engine process failed to start",
            r"WorkerProc initialization failed due to an exception",
            r"Engine (?:loop|core proc\w* \S+) (?:has )?died",
            r"Failed to check the \"should dump\" flag on TCPStore",
            r"Failed to recv, got 0 bytes\. Connection was likely closed",
        ),
        LOW,
        checks=(
            "docker logs CONTAINER 2>&1 | grep -nE 'Error|Exception|ERROR' | head -n 20",
            "docker logs --tail 50 OTHER_CONTAINER",
        ),
        last_resort=True,
    ),
)

FAMILY = Family("server", KINDS, SIGNATURES)
