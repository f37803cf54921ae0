# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.gpu import docker_facts

TEXTS = Path(__file__).parents[4] / "fixtures" / "smi"
NO_DAEMON = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
CONTAINER = "0123456789abcdef" * 4


def fixture(name: str) -> str:
    return (TEXTS / name).read_text()


FULL: dict[str, Any] = {
    "available": True,
    "error": None,
    "engine": "docker",
    "version": "29.1.3",
    "rootless": True,
    "cgroup_driver": "systemd",
    "cgroup_version": "2",
    "runtimes": ["io.containerd.runc.v2", "nvidia", "runc"],
    "default_runtime": "runc",
    "cdi_enabled": True,
    "cdi_spec_dirs": ["/etc/cdi", "/var/run/cdi"],
    "cdi_devices": ["nvidia.com/gpu=0", "nvidia.com/gpu=all"],
    "cdi_driver_version": None,
    "root_dir": "/var/lib/docker",
    "live_restore": True,
    "running_containers": 3,
}
INFO = {
    "ServerVersion": "29.1.3",
    "SecurityOptions": ["name=seccomp,profile=builtin", "name=rootless", "name=cgroupns"],
    "CgroupDriver": "systemd",
    "CgroupVersion": "2",
    "Runtimes": {"runc": {}, "nvidia": {}, "io.containerd.runc.v2": {}},
    "DefaultRuntime": "runc",
    "CDISpecDirs": ["/etc/cdi", "/var/run/cdi"],
    "DiscoveredDevices": [
        {"Source": "cdi", "ID": "nvidia.com/gpu=0"},
        {"Source": "cdi", "ID": "nvidia.com/gpu=all"},
        {"Source": "other", "ID": "x"},
    ],
    "DockerRootDir": "/var/lib/docker",
    "LiveRestoreEnabled": True,
    "ContainersRunning": 3,
}


@pytest.mark.parametrize("text", [json.dumps(INFO), "WARNING: x\n" + json.dumps(INFO), fixture("docker_info.txt")])
def test_docker_info(text: str) -> None:
    assert docker_facts.parse_info(text) == FULL


def test_an_old_docker_has_no_cdi() -> None:
    old = {
        name: value for name, value in INFO.items() if name not in ("CDISpecDirs", "DiscoveredDevices", "CgroupVersion")
    }
    found = docker_facts.parse_info(json.dumps({**old, "SecurityOptions": None}))
    assert found == {
        **FULL,
        "rootless": False,
        "cgroup_version": None,
        "cdi_enabled": False,
        "cdi_spec_dirs": [],
        "cdi_devices": [],
    }


@pytest.mark.parametrize("name", ["docker_info_no_daemon.json", "docker_info_no_daemon.txt"])
def test_no_daemon(name: str) -> None:
    assert docker_facts.parse_info(fixture(name)) == {**docker_facts.unknown(NO_DAEMON), "engine": "docker"}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
            "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
        ),
        ("docker: No such file or directory", "docker: No such file or directory"),
        ("", "docker info said nothing"),
    ],
)
def test_no_docker(text: str, error: str) -> None:
    assert docker_facts.parse_info(text) == docker_facts.unknown(error)


PODMAN = {
    "host": {
        "cgroupManager": "systemd",
        "cgroupVersion": "v2",
        "ociRuntime": {"name": "crun"},
        "security": {"rootless": False},
    },
    "store": {"graphRoot": "/var/lib/containers/storage", "containerStore": {"running": 1}},
    "version": {"Version": "5.4.0"},
}
PODMAN_TEXT = """\
Emulate Docker CLI using podman. Create /etc/containers/nodocker to quiet msg.
host:
  cgroupManager: systemd
  cgroupVersion: v2
  security:
    rootless: false
store:
  containerStore:
    number: 2
    running: 1
  graphRoot: /var/lib/containers/storage
version:
  Version: 5.4.0
"""


@pytest.mark.parametrize(
    ("text", "runtime"),
    [("Emulate Docker CLI using podman.\n" + json.dumps(PODMAN), "crun"), (PODMAN_TEXT, None)],
)
def test_podman_in_place_of_docker(text: str, runtime: str | None) -> None:
    assert docker_facts.parse_info(text) == {
        **docker_facts.unknown(),
        "available": True,
        "engine": "podman",
        "version": "5.4.0",
        "rootless": False,
        "cgroup_driver": "systemd",
        "cgroup_version": "2",
        "runtimes": [runtime] if runtime else [],
        "default_runtime": runtime,
        "cdi_enabled": True,
        "root_dir": "/var/lib/containers/storage",
        "running_containers": 1,
    }


@pytest.mark.parametrize(
    ("cgroup", "found"),
    [
        (f"0::/system.slice/docker-{CONTAINER}.scope\n", CONTAINER),
        (f"12:devices:/docker/{CONTAINER}\n11:cpu:/docker/{CONTAINER}\n", CONTAINER),
        (f"0::/machine.slice/libpod-{CONTAINER}.scope/container\n", CONTAINER),
        (f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{CONTAINER}.scope\n", CONTAINER),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", None),
        ("0::/process_api/5691acd9560526af76c95d566b78e106\n", None),
        ("", None),
    ],
)
def test_container_of_a_control_group(cgroup: str, found: str | None) -> None:
    assert docker_facts.container_id(cgroup) == found


def test_names_of_containers() -> None:
    assert docker_facts.parse_ps("aa\ttandem-chat-a\tlab\nbb\tother\t\n\n") == {
        "aa": ("tandem-chat-a", "lab"),
        "bb": ("other", None),
    }


def test_cdi_specifications() -> None:
    as_json = json.dumps({"kind": "nvidia.com/gpu", "devices": [{"name": "1"}], "mounts": "libcuda.so.570.1.2"})
    other = "kind: example.com/nic\ndevices:\n- name: eth0\n"
    assert docker_facts.parse_specs([fixture("cdi_nvidia.txt")]) == (
        ["nvidia.com/gpu=0", "nvidia.com/gpu=all"],
        "580.159.04",
    )
    assert docker_facts.parse_specs([as_json, other, ""]) == (["nvidia.com/gpu=1"], "570.1.2")
    assert docker_facts.parse_specs([other]) == ([], None)
