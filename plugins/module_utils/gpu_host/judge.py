# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a host can run what the placement wants of it: every fact judged, one check a fact.

A check never fails for what another check already tells: where the driver does not answer, the facts of its GPUs are
not checked. In CPU lab mode nothing about GPUs is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.gpu_host import docker as gpu_host_docker
from ansible_collections.tandem.vllm.plugins.module_utils.gpu_host import driver as gpu_host_driver
from ansible_collections.tandem.vllm.plugins.module_utils.gpu_host import gpus as gpu_host_gpus
from ansible_collections.tandem.vllm.plugins.module_utils.gpu_host import system as gpu_host_system
from ansible_collections.tandem.vllm.plugins.module_utils.gpu_host.check import (
    ACCEPTED,
    FAILED,
    NOT_CHECKED,
    NOT_NEEDED,
    PASSED,
    STATES,
    Check,
    Finding,
    Host,
    Settings,
    not_checked,
)
from ansible_collections.tandem.vllm.plugins.module_utils.placement import Placement

LAB = "CPU lab mode"


@dataclass(frozen=True)
class Rule:
    """One check. variable and wanted: as told unless the finding has its own.

    gpu: it is about GPUs, and so is not checked in CPU lab mode. each_gpu: it can only be judged where the driver
    answers and has GPUs of the contract.
    """

    id: str
    variable: str
    wanted: str
    judge: Callable[[Host], Finding]
    gpu: bool = True
    each_gpu: bool = False


RULES: tuple[Rule, ...] = (
    Rule("driver_loaded", "NVIDIA driver", "must be loaded and answer nvidia-smi", gpu_host_driver.driver_loaded),
    Rule(
        "driver_matches_library",
        "NVIDIA user-space library",
        "must have the version of the loaded kernel module",
        gpu_host_driver.driver_matches_library,
    ),
    Rule("gpu_count", "tandem_gpus", "every GPU that it names must be there", gpu_host_gpus.gpu_count),
    Rule("gpu_on_bus", "NVIDIA GPUs on the PCI bus", "must all answer the driver", gpu_host_driver.gpu_on_bus),
    Rule("gpu_reset", "reset of GPUs", "no GPU of tandem_gpus may need one", gpu_host_driver.gpu_reset, each_gpu=True),
    Rule(
        "gpu_model",
        "tandem_gpus.model",
        "must be in the name of each GPU of tandem_gpus",
        gpu_host_gpus.gpu_model,
        each_gpu=True,
    ),
    Rule(
        "gpu_memory",
        "tandem_gpus.memory_gib",
        "must be the memory of each GPU of tandem_gpus",
        gpu_host_gpus.gpu_memory,
        each_gpu=True,
    ),
    Rule(
        "gpu_memory_in_use",
        "GPU memory in use",
        "only this environment's replicas may hold memory of the GPUs",
        gpu_host_gpus.gpu_memory_in_use,
        each_gpu=True,
    ),
    Rule(
        "mig",
        "MIG mode",
        "must be off on GPUs that tandem_gpus names as a whole",
        gpu_host_gpus.mig,
    ),
    Rule(
        "compute_mode",
        "compute mode",
        "must be Default or Exclusive_Process on each GPU of tandem_gpus",
        gpu_host_gpus.compute_mode,
        each_gpu=True,
    ),
    Rule(
        "fabric_manager",
        "nvidia-fabricmanager.service",
        "must run in the driver's version and have set up the fabric, as the GPUs are joined by NVSwitch",
        gpu_host_driver.fabric_manager,
    ),
    Rule("image_cuda", "NVIDIA driver", "must satisfy what the image requires of it", gpu_host_driver.image_cuda),
    Rule("docker", "docker", "Docker Engine 20.10 or newer must answer", gpu_host_docker.docker, gpu=False),
    Rule(
        "container_toolkit",
        "NVIDIA container toolkit",
        "nvidia-container-runtime-hook must be installed, as Docker calls it to give GPUs to a container",
        gpu_host_docker.container_toolkit,
    ),
    Rule(
        "docker_gpu_access",
        "/etc/docker/daemon.json",
        "the running daemon must be set up to give GPUs to containers",
        gpu_host_docker.docker_gpu_access,
    ),
    Rule(
        "cdi_spec",
        "CDI specification",
        "must be made for the driver that is loaded",
        gpu_host_docker.cdi_spec,
    ),
    Rule(
        "daemon_reload",
        "Docker's cgroup driver",
        "'systemctl daemon-reload' must not take the GPUs from running containers",
        gpu_host_docker.daemon_reload,
    ),
    Rule(
        "driver_packages",
        "NVIDIA driver packages",
        "must be held where unattended upgrades are on, which would stop the next container from starting",
        gpu_host_system.driver_packages,
    ),
    Rule("disk_image", "disk for the image", "there must be room to load it", gpu_host_system.disk_image, gpu=False),
    Rule("disk_model", "disk for the model", "the model must be there", gpu_host_system.disk_model, gpu=False),
    Rule(
        "nofile",
        "open files of a container",
        "must be at least gpu_host_nofile",
        gpu_host_system.nofile,
        gpu=False,
    ),
    Rule(
        "memlock",
        "locked memory of a container",
        "must be unlimited for a replica over several nodes",
        gpu_host_system.memlock,
        gpu=False,
    ),
    Rule("clock", "clock", "must agree with the other hosts'", gpu_host_system.clock, gpu=False),
    Rule(
        "container_gpus",
        "GPUs in a container started as a replica",
        "must be exactly the replica's, and usable",
        gpu_host_docker.container_gpus,
    ),
)
IDS = tuple(rule.id for rule in RULES)


def host_of(
    placement: Placement,
    name: str,
    measured: Mapping[str, Any],
    settings: Settings | None = None,
    offsets: Sequence[float] = (),
) -> Host:
    """What is judged of one node of a placement.

    measured: `gpus`, `host` and `image` as gpu_info, host_info and image_requirement_info returned them, `containers`
    as gpu_visibility did for each; one that is missing was not read. offsets: see Host.
    """
    replicas = placement.on_node(name)
    return Host(
        name=name,
        node=placement.nodes[name],
        environment=placement.environment,
        gpus=measured.get("gpus") or {},
        system=measured.get("host") or {},
        image=measured.get("image") or {},
        seen=measured.get("containers") or {},
        models=tuple(dict.fromkeys(service.model.path for service, _replica in replicas)),
        rank_group=any(len(replica.nodes) > 1 for _service, replica in replicas),
        offsets=tuple(offsets),
        settings=settings or Settings(),
    )


def judge(host: Host, lab: bool = False) -> list[Check]:
    """Every check of a host, in the order of RULES. lab: replicas run on CPU."""
    return [_check(rule, host, lab) for rule in RULES]


def _check(rule: Rule, host: Host, lab: bool) -> Check:
    finding = _finding(rule, host, lab)
    accepted = finding.state == FAILED and rule.id in host.settings.accept
    variable = finding.variable or rule.variable
    if rule.id == "gpu_count":
        # As the inventory states it.
        counted = host.node.gpus == tuple(map(str, range(len(host.node.gpus))))
        variable += ".count" if counted else ".ids"
    return Check(
        id=rule.id,
        state=ACCEPTED if accepted else finding.state,
        variable=f"{host.name}: {variable}",
        value=finding.value,
        wanted=finding.wanted or rule.wanted,
        remedy=finding.remedy,
        evidence=finding.evidence,
    )


def _finding(rule: Rule, host: Host, lab: bool) -> Finding:
    if lab and rule.gpu:
        return not_checked(LAB)
    if rule.id in ("gpu_count", "mig") or rule.each_gpu:
        if host.silent:
            return not_checked(host.silent)
        if rule.each_gpu and not host.used:
            return not_checked("no GPU of tandem_gpus answers")
    return rule.judge(host)


def failures(checks: Sequence[Mapping[str, Any]], headline: str) -> str:
    """The failed checks (as Check.to_dict made them) as one message; "" where none failed."""
    lines = [str(check["message"]) for check in checks if check["state"] == FAILED]
    if len(lines) < 2:
        return "".join(f"{headline}: {line}" for line in lines)
    return "\n- ".join([headline + ":", *lines])


def rows(checks: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """A row a check for a table: check, state, found, and where it failed wanted and remedy."""
    out = []
    for check in checks:
        wrong = check["state"] in (FAILED, ACCEPTED)
        out.append(
            {
                "check": str(check["id"]),
                "state": str(check["state"]).replace("_", " "),
                "found": str(check["value"]),
                "wanted": str(check["wanted"]) if wrong else "",
                "remedy": str(check["remedy"]) if wrong else "",
            }
        )
    return out


def summary(checks: Sequence[Mapping[str, Any]]) -> list[str]:
    """How many checks are in each state, and by name what failed, was accepted or was not checked, with the reason."""
    counts = {state: [c for c in checks if c["state"] == state] for state in STATES}
    lines = [", ".join("%d %s" % (len(found), s.replace("_", " ")) for s, found in counts.items() if found)]
    lines += ["failed: " + str(check["message"]) for check in counts[FAILED]]
    lines += ["accepted, though it failed: " + str(check["message"]) for check in counts[ACCEPTED]]
    reasons: dict[str, list[str]] = {}
    for check in counts[NOT_CHECKED]:
        reasons.setdefault(str(check["value"]), []).append(str(check["id"]))
    lines += [f"not checked ({reason}): {', '.join(ids)}" for reason, ids in reasons.items()]
    return [line for line in lines if line]


__all__ = [
    "ACCEPTED",
    "FAILED",
    "IDS",
    "NOT_CHECKED",
    "NOT_NEEDED",
    "PASSED",
    "RULES",
    "Check",
    "Host",
    "Settings",
    "failures",
    "host_of",
    "judge",
    "rows",
    "summary",
]
