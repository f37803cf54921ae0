# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what tells of Docker, or Podman in its place: `docker info` and `ps`, control groups, CDI specifications."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.gpu import driver_files
from ansible_collections.tandem.vllm.plugins.module_utils.smi.values import plain

DOCKER_ERROR = re.compile(
    r"(?:Cannot connect to the Docker daemon|permission denied while trying to connect|Cannot connect to Podman|"
    r"error during connect|docker: (?:command )?not found|command not found: docker|Error response from daemon).*"
)
CONTAINER = re.compile(r"(?:docker|libpod|cri-containerd|crio|kubepods|containerd)[^\n]*?([0-9a-f]{64})")
SPEC_KIND = re.compile(r"^\s*['\"]?kind['\"]?:\s*['\"]?([\w./-]+)", re.MULTILINE)
SPEC_DEVICE = re.compile(r"^\s*-\s+name:\s*['\"]?([^'\"\s]+)", re.MULTILINE)


def unknown(error: str | None = None) -> dict[str, Any]:
    """The docker part of the result when nothing is known. error: why."""
    return {
        "available": False,
        "error": error,
        "engine": None,
        "version": None,
        "rootless": None,
        "cgroup_driver": None,
        "cgroup_version": None,
        "runtimes": [],
        "default_runtime": None,
        "cdi_enabled": None,
        "cdi_spec_dirs": [],
        "cdi_devices": [],
        "cdi_driver_version": None,
        "root_dir": None,
        "live_restore": None,
        "running_containers": None,
    }


def _first_line(text: str) -> str | None:
    """The first line that says something."""
    return next((line.strip() for line in text.splitlines() if line.strip()), None)


def _json(text: str) -> dict[str, Any] | None:
    """The JSON object in a text; None when there is none."""
    at = text.find("{")
    if at < 0:
        return None
    try:
        found, _end = json.JSONDecoder().raw_decode(text[at:])
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    """A value that should be a mapping; an empty one where it is not."""
    return value if isinstance(value, Mapping) else {}


def _docker_json(info: Mapping[str, Any]) -> dict[str, Any]:
    """Of `docker info --format {{json .}}`."""
    errors = info.get("ServerErrors") or []
    version = info.get("ServerVersion") or None
    found = unknown(str(errors[0]) if errors else None)
    found["engine"] = "docker"
    if errors or not version:
        found["error"] = found["error"] or "the Docker daemon tells no version"
        return found
    security = [str(option) for option in info.get("SecurityOptions") or []]
    spec_dirs = info.get("CDISpecDirs")
    found.update(
        available=True,
        version=version,
        rootless=any("rootless" in option for option in security),
        cgroup_driver=info.get("CgroupDriver") or None,
        cgroup_version=str(info["CgroupVersion"]) if info.get("CgroupVersion") else None,
        runtimes=sorted(_mapping(info.get("Runtimes"))),
        default_runtime=info.get("DefaultRuntime") or None,
        # Before Docker 25 there is no such key, and no CDI.
        cdi_enabled=bool(spec_dirs),
        cdi_spec_dirs=list(spec_dirs or []),
        cdi_devices=[
            str(device["ID"])
            for device in info.get("DiscoveredDevices") or []
            if isinstance(device, Mapping) and device.get("Source") == "cdi" and device.get("ID")
        ],
        root_dir=info.get("DockerRootDir") or None,
        live_restore=info.get("LiveRestoreEnabled"),
        running_containers=info.get("ContainersRunning"),
    )
    return found


def _podman_json(info: Mapping[str, Any]) -> dict[str, Any]:
    """Of `podman info --format json`."""
    host = _mapping(info.get("host"))
    store = _mapping(info.get("store"))
    found = unknown()
    runtime = _mapping(host.get("ociRuntime")).get("name")
    found.update(
        available=True,
        engine="podman",
        version=_mapping(info.get("version")).get("Version"),
        rootless=_mapping(host.get("security")).get("rootless"),
        cgroup_driver=host.get("cgroupManager"),
        cgroup_version=str(host["cgroupVersion"]).lstrip("v") if host.get("cgroupVersion") else None,
        runtimes=[runtime] if runtime else [],
        default_runtime=runtime,
        cdi_enabled=True,  # Podman has no switch for it
        root_dir=store.get("graphRoot"),
        running_containers=_mapping(store.get("containerStore")).get("running"),
    )
    return found


def _below(text: str, heading: str) -> list[str]:
    """The lines that are indented below a heading."""
    found = re.search(r"^([ \t]*)" + heading + r":[ \t]*\n((?:\1[ \t]+\S.*(?:\n|$))+)", text, re.MULTILINE)
    return [line.strip() for line in found.group(2).splitlines()] if found else []


def _value(text: str, label: str) -> str | None:
    """The value of a line "label: value"."""
    found = re.search(r"^\s*" + label + r":[ \t]*(\S.*?)\s*$", text, re.MULTILINE)
    return found.group(1).strip("\"'") if found else None


def _docker_text(text: str) -> dict[str, Any]:
    """Of plain `docker info`."""
    found = unknown()
    running = _value(text, "Running")
    restore = _value(text, "Live Restore Enabled")
    spec_dirs = _below(text, "CDI spec directories")
    found.update(
        available=True,
        engine="docker",
        version=_value(text, "Server Version"),
        rootless="rootless" in _below(text, "Security Options"),
        cgroup_driver=_value(text, "Cgroup Driver"),
        cgroup_version=_value(text, "Cgroup Version"),
        runtimes=sorted((_value(text, "Runtimes") or "").split()),
        default_runtime=_value(text, "Default Runtime"),
        cdi_enabled=bool(spec_dirs),
        cdi_spec_dirs=spec_dirs,
        cdi_devices=[line[4:].strip() for line in _below(text, "Discovered Devices") if line.startswith("cdi:")],
        root_dir=_value(text, "Docker Root Dir"),
        live_restore=None if restore is None else restore == "true",
        running_containers=int(running) if running and running.isdigit() else None,
    )
    return found


def _podman_text(text: str) -> dict[str, Any]:
    """Of plain `podman info`, which is YAML."""
    found = unknown()
    rootless = _value(text, "rootless")
    running = _value(text, "running")
    found.update(
        available=True,
        engine="podman",
        version=_value(text, "Version"),
        rootless=None if rootless is None else rootless == "true",
        cgroup_driver=_value(text, "cgroupManager"),
        cgroup_version=(_value(text, "cgroupVersion") or "").lstrip("v") or None,
        cdi_enabled=True,
        root_dir=_value(text, "graphRoot"),
        running_containers=int(running) if running and running.isdigit() else None,
    )
    return found


def parse_info(text: str) -> dict[str, Any]:
    """The docker part of the result, of what `docker info` prints: JSON or text, of Docker or of Podman."""
    text = plain(text)
    info = _json(text)
    if info is not None:
        return _podman_json(info) if "host" in info and "ServerVersion" not in info else _docker_json(info)
    if _value(text, "Server Version"):
        return _docker_text(text)
    if _value(text, "cgroupManager"):
        return _podman_text(text)
    error = DOCKER_ERROR.search(text)
    found = unknown(error.group().strip() if error else _first_line(text) or "docker info said nothing")
    if "Client:" in text:
        found["engine"] = "docker"
    return found


def container_id(cgroup: str) -> str | None:
    """The id of the container that a process runs in, of its /proc/<pid>/cgroup; None when it is in none."""
    found = CONTAINER.search(cgroup)
    return found.group(1) if found else None


def parse_ps(text: str) -> dict[str, tuple[str, str | None]]:
    """Id -> name and environment, of lines "id, tab, name, tab, environment"."""
    found = {}
    for line in text.splitlines():
        identity, _tab, rest = line.partition("\t")
        name, _tab, environment = rest.partition("\t")
        if identity.strip() and name.strip():
            found[identity.strip()] = (name.strip(), environment.strip() or None)
    return found


def parse_specs(specs: Iterable[str]) -> tuple[list[str], str | None]:
    """Devices and driver version that CDI specifications for NVIDIA GPUs name.

    The version is in the paths of the libraries that a specification mounts: of the driver it was made for.
    """
    devices: list[str] = []
    versions: list[str] = []
    for spec in specs:
        kind = SPEC_KIND.search(spec)
        if _json(spec) and spec.lstrip().startswith("{"):
            content = _json(spec) or {}
            name = str(content.get("kind", ""))
            listed = content.get("devices")
            names = [str(d.get("name")) for d in listed if isinstance(d, dict)] if isinstance(listed, list) else []
        else:
            name = kind.group(1) if kind else ""
            names = SPEC_DEVICE.findall(spec)
        if not name.startswith(("nvidia.com/", "runtime.nvidia.com/")):
            continue
        devices += [f"{name}={device}" for device in names]
        versions += re.findall(r"lib(?:nvidia-ml|cuda)\.so\.(\d+\.\d[\d.]*\d)", spec)
    return devices, driver_files.newest(versions)
