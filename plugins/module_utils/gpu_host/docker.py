# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether Docker on a host can give GPUs to containers, and keeps on doing so. One function a check."""

from __future__ import annotations

from ansible_collections.tandem.vllm.plugins.module_utils.containers import CDI_KIND
from ansible_collections.tandem.vllm.plugins.module_utils.gpu.cuda_requirement import version_numbers
from ansible_collections.tandem.vllm.plugins.module_utils.gpu_host.check import (
    Finding,
    Host,
    failed,
    listing,
    not_checked,
    not_needed,
    passed,
    same_version,
)

# Device requests came with the API of 19.03; 20.10 is the first release with cgroup v2. CDI came with 25.0.
OLDEST_DOCKER = (20, 10)
OLDEST_DOCKER_WITH_CDI = (25,)
GENERATE = "'nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml' on the node"
CONFIGURE = "gpu_host_configure_docker: true"


def docker(host: Host) -> Finding:
    """Docker's engine answers and is new enough."""
    facts = host.section("docker")
    if not facts:
        return not_checked("gpu_info told nothing of Docker")
    if facts.get("engine") == "podman":
        remedy = "Install Docker Engine on the node in place of podman-docker"
        return failed("podman under Docker's name", remedy)
    if not facts.get("available"):
        remedy = "Install Docker Engine on the node, or 'systemctl start docker' there"
        return failed("no answer", remedy, str(facts.get("error") or ""))
    version = str(facts.get("version") or "")
    numbers = version_numbers(version)
    if numbers and numbers[:2] < OLDEST_DOCKER:
        return failed(version, "Install a newer Docker Engine on the node")
    return passed((version or "of unknown version") + (", rootless" if facts.get("rootless") else ""))


def container_toolkit(host: Host) -> Finding:
    """The hook that Docker calls to give GPUs to a container is installed."""
    if host.cdi:
        return not_needed("containers get their GPUs by CDI")
    facts = host.section("toolkit")
    hook, version = facts.get("runtime_hook"), facts.get("version")
    if hook is None:
        return not_checked("whether it is installed was not read")
    if hook:
        return passed(str(version or "of unknown version"))
    remedy = f"Install the package nvidia-container-toolkit on the node, then run with {CONFIGURE}"
    value = f"nvidia-ctk {version} without the hook" if facts.get("installed") else "not installed"
    return failed(value, remedy)


def docker_gpu_access(host: Host) -> Finding:
    """The running Docker daemon is set up to give the GPUs to containers."""
    facts = host.section("docker")
    if docker(host).state != "passed":
        return not_checked("Docker does not answer as it must")
    variable = "~/.config/docker/daemon.json" if facts.get("rootless") else ""
    finding = _cdi_access(host) if host.cdi else _runtime_access(host)
    return Finding(**{**vars(finding), "variable": variable})


def _runtime_access(host: Host) -> Finding:
    runtimes = [str(name) for name in host.section("docker").get("runtimes") or ()]
    if not host.section("toolkit").get("runtime_hook"):
        return not_checked("the NVIDIA container toolkit was not found")
    if "nvidia" in runtimes:
        return passed("runtimes " + listing(runtimes))
    remedy = f"Run with {CONFIGURE}, or 'nvidia-ctk runtime configure --runtime=docker' on the node and restart Docker"
    wanted = "the running daemon must know the runtime nvidia"
    return failed("runtimes " + (listing(runtimes) or "none"), remedy, wanted=wanted)


def _cdi_access(host: Host) -> Finding:
    facts = host.section("docker")
    version, devices = str(facts.get("version") or ""), set(map(str, facts.get("cdi_devices") or ()))
    missing = [CDI_KIND + name for name in host.node.gpus if CDI_KIND + name not in devices]
    if version_numbers(version) and version_numbers(version) < OLDEST_DOCKER_WITH_CDI:
        remedy = "Install Docker 25 or newer on the node, or set tandem_gpus.access: nvidia"
        return failed(f"Docker {version}", remedy, wanted="CDI, which tandem_gpus.access asks for, needs Docker 25")
    if facts.get("cdi_enabled") is False:
        remedy = f"Run with {CONFIGURE}, or set features.cdi to true and restart Docker"
        return failed("features.cdi is off", remedy, wanted="CDI must be on, as tandem_gpus.access asks for it")
    if facts.get("cdi_enabled") is None:
        return not_checked("whether Docker's CDI is on was not read")
    if not missing:
        return passed("CDI devices " + listing([CDI_KIND + name for name in host.node.gpus]))
    # The specification itself, which is not this file's matter.
    value = "CDI devices " + (listing(sorted(devices)) or "none")
    return failed(value, f"Run {GENERATE}", wanted="Docker must find " + listing(missing))


def cdi_spec(host: Host) -> Finding:
    """The CDI specification was made for the driver that is loaded; otherwise the next container does not start."""
    if not host.cdi:
        return not_needed("containers get their GPUs from Docker's device driver nvidia")
    version = host.section("docker").get("cdi_driver_version")
    if host.mismatch:
        return not_checked("kernel module and library have different versions")
    if not version or not host.driver:
        return not_checked("the driver version in it was not read")
    if same_version(version, host.driver):
        return passed(version)
    return failed(version, f"Run {GENERATE}", wanted=f"must be made for the loaded driver {host.driver}")


def daemon_reload(host: Host) -> Finding:
    """A `systemctl daemon-reload` does not take the GPUs from running containers.

    systemd then writes the containers' device rules again from what it finds under /dev/char. What the hook added is
    lost unless there are links to the NVIDIA devices; CDI devices are part of the container and stay.
    """
    if host.cdi:
        return not_needed("CDI devices outlast a daemon-reload")
    if docker(host).state != "passed":
        return not_checked("Docker does not answer as it must")
    driver = host.section("docker").get("cgroup_driver")
    if not driver:
        return not_checked("Docker's cgroup driver was not read")
    if driver != "systemd":
        return passed(str(driver))
    toolkit = host.section("toolkit")
    if toolkit.get("runtime_hook") is False:
        return not_checked("the NVIDIA container toolkit was not found")
    if toolkit.get("dev_char_links") is None:
        return not_checked("the links under /dev/char were not read")
    if toolkit["dev_char_links"]:
        return passed("systemd, with links to the NVIDIA devices under /dev/char")
    remedy = (
        "Set tandem_gpus.access: cdi (best), or run 'nvidia-ctk system create-dev-char-symlinks --create-all' at each "
        "boot of the node, or set native.cgroupdriver=cgroupfs in Docker"
    )
    return failed("systemd, without links to the NVIDIA devices under /dev/char", remedy)


def container_gpus(host: Host) -> Finding:
    """Containers started as the replicas would be see their GPUs."""
    if not host.seen:
        loaded = host.image.get("source") == "docker"
        return not_checked("no container was started" if loaded else "the image is not on the host yet")
    for name, told in host.seen.items():
        if told.get("state") not in ("passed", "not_checked"):
            cause = told.get("cause") or {"id": "unknown", "advice": told.get("msg")}
            remedy = str(cause.get("advice")).rstrip(".")
            if cause.get("next_command"):
                remedy += ". Next: '{next_command}'".format(**cause)
            return failed(f"{name}: {cause['id']}", remedy, str(cause.get("evidence") or ""))
    unseen = {name: told.get("reason") for name, told in host.seen.items() if told.get("state") != "passed"}
    if unseen:
        return not_checked(listing(f"{name}: {reason}" for name, reason in unseen.items()))
    words = []
    for name, told in host.seen.items():
        framework = told["framework"]
        said = framework.get("state") == "passed"
        words.append("%s: %d of %d GPUs" % (name, len(told["container_gpus"]), len(told["expected"])))
        words[-1] += "" if said else ", PyTorch not checked: %s" % framework.get("reason")
    return passed(listing(words))
