# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of a launched container, and what the answers are: its settings, and what runs in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

ENVIRONMENT = ("VLLM_HOST_IP", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
VERSIONS = ("python", "ray", "vllm", "torch", "nccl")
# Before the probe's answer, as what it imports may write to the same stream.
MARK = "tandem-identity "
# Longest wait for the head's port.
CONNECT_SECONDS = 5
KILL_AFTER = 2

# Prints one line of JSON. Arguments: address and port to try, or none.
# - torch's version and kind are read from its file: to import it takes seconds, and only NCCL needs that.
# - The address that a Ray node advertises is an argument of its raylet. The file in Ray's session folder may be of a
#   node that ran before, and the GCS lists nodes without telling which of them is in this container.
PROBE = """
import glob, importlib.util, json, os, platform, runpy, socket, sys
from importlib import metadata
if sys.path and sys.path[0] in ("", os.getcwd()):
    del sys.path[0]
out = {"python": platform.python_version(), "errors": {}, "ray_addresses": [], "connected": None}
def ask(names, get):
    try:
        found = get()
    except Exception as error:
        found = [None] * len(names)
        for name in names:
            out["errors"][name] = "%s: %s" % (type(error).__name__, error)
    out.update(zip(names, found))
def torch_and_cuda():
    spec = importlib.util.find_spec("torch")
    if spec is None:
        raise ImportError("torch is not installed")
    told = runpy.run_path(os.path.join(spec.submodule_search_locations[0], "version.py"))
    return told["__version__"], told.get("cuda") or told.get("hip")
def nccl():
    if "torch" in out["errors"]:
        raise LookupError("torch is not known")
    if not out["cuda"]:
        return [None]
    import torch
    return [".".join(str(part) for part in torch.cuda.nccl.version())]
ask(["ray"], lambda: [metadata.version("ray")])
ask(["vllm"], lambda: [metadata.version("vllm")])
ask(["torch", "cuda"], torch_and_cuda)
ask(["nccl"], nccl)
for path in glob.glob("/proc/[0-9]*/cmdline"):
    try:
        with open(path, "rb") as stream:
            words = stream.read().decode("utf-8", "replace").split("\\0")
    except OSError:
        continue
    if os.path.basename(words[0]) == "raylet":
        out["ray_addresses"] += [word.partition("=")[2] for word in words if word.startswith("--node_ip_address=")]
if len(sys.argv) == 3:
    try:
        socket.create_connection((sys.argv[1], int(sys.argv[2])), SECONDS).close()
        out["connected"] = ""
    except Exception as error:
        out["connected"] = str(error) or type(error).__name__
print("MARK" + json.dumps(out), flush=True)
os._exit(0)
""".replace("MARK", MARK).replace("SECONDS", str(CONNECT_SECONDS))


def inspect_argv(name: str) -> list[str]:
    """Asks Docker for a container; the answer is read by `inspected`."""
    return ["docker", "container", "inspect", name]


def probe_argv(name: str, seconds: int, arguments: Sequence[str]) -> list[str]:
    """Asks the container's Python what runs there; the answer is read by `probed`."""
    return _inside(name, seconds, ["python3", "-c", PROBE, *arguments])


def gpus_argv(name: str, seconds: int) -> list[str]:
    """Lists the GPUs that the container sees."""
    return _inside(name, seconds, ["nvidia-smi", "-L"])


def _inside(name: str, seconds: int, argv: Sequence[str]) -> list[str]:
    # The limit is inside: killing `docker exec` leaves the command running in the container.
    return ["docker", "exec", name, "timeout", "-k", str(KILL_AFTER), str(seconds), *argv]


def nothing(name: str, exists: bool | None, error: str | None) -> dict[str, Any]:
    """The facts of a container of which no more is known. error: why."""
    return {
        "name": name,
        "exists": exists,
        "running": False if exists is False else None,
        "status": None,
        "error": error,
        "network_mode": None,
        "environment": dict.fromkeys(ENVIRONMENT),
        "image_id": None,
        "base_image_id": None,
        "wheelhouse": None,
        "image_error": None,
        "versions": dict.fromkeys(VERSIONS),
        "version_errors": {},
        "ray_address": None,
        "ray_address_error": None,
    }


def inspected(name: str, text: str) -> dict[str, Any]:
    """The facts of a container that Docker shows."""
    found: dict[str, Any] = json.loads(text)[0]
    pairs = (entry.partition("=") for entry in found["Config"].get("Env") or ())
    environment = {key: value for key, _equals, value in pairs}
    return {
        **nothing(name, True, None),
        "running": found["State"]["Status"] == "running",
        "status": found["State"]["Status"],
        "network_mode": found["HostConfig"]["NetworkMode"],
        # Only these: others may be secret.
        "environment": {key: environment.get(key) for key in ENVIRONMENT},
        "image_id": found["Image"],
    }


def probed(output: str) -> dict[str, Any] | None:
    """The answer of the probe; None where it printed none."""
    for line in reversed(output.splitlines()):
        if line.startswith(MARK):
            answer: dict[str, Any] = json.loads(line[len(MARK) :])
            return answer
    return None


def software(answer: dict[str, Any]) -> dict[str, Any]:
    """The facts that the probe's answer tells of the container."""
    addresses = answer["ray_addresses"]
    problem = None
    if len(addresses) != 1:
        problem = "no Ray node runs in it" if not addresses else "Ray nodes run in it: " + ", ".join(sorted(addresses))
    return {
        "versions": {name: answer[name] for name in VERSIONS},
        "version_errors": {name: why for name, why in answer["errors"].items() if name in VERSIONS},
        "ray_address": None if problem else addresses[0],
        "ray_address_error": problem,
    }


def silent(reason: str) -> dict[str, Any]:
    """The same where the probe gave no answer."""
    return {"version_errors": dict.fromkeys(VERSIONS, reason), "ray_address_error": reason}
