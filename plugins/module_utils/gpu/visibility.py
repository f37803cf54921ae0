# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does a container see the GPUs that its launch names? The probe's command line, what it tells, and the verdict."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.containers import CDI_KIND
from ansible_collections.tandem.vllm.plugins.module_utils.smi import text as smi_text
from ansible_collections.tandem.vllm.plugins.module_utils.triage.engine import triage

# The launch's options, by the name that community.docker.docker_container has for them. What is in none of these
# tables is refused: a probe that left an option out would prove nothing of the launch.
VALUES = {
    "cgroup_parent": "--cgroup-parent",
    "cpus": "--cpus",
    "ipc_mode": "--ipc",
    "memory": "--memory",
    "memory_swap": "--memory-swap",
    "runtime": "--runtime",
    "shm_size": "--shm-size",
    "user": "--user",
    "working_dir": "--workdir",
}
SWITCHES = {"init": "--init", "read_only": "--read-only"}
LISTS = {
    "cap_drop": "--cap-drop",
    "capabilities": "--cap-add",
    "devices": "--device",
    "groups": "--group-add",
    "security_opts": "--security-opt",
    "tmpfs": "--tmpfs",
    "ulimits": "--ulimit",
}
APART = frozenset({"device_requests", "env", "image", "mounts"})
# What does not bear on GPUs, or is the probe's own: it has no network, another command, name and labels.
LEFT_ALONE = frozenset(
    {
        "address",
        "command",
        "comparisons",
        "entrypoint",
        "expect",
        "group",
        "image_label_mismatch",
        "labels",
        "leads",
        "log_driver",
        "log_options",
        "name",
        "network_mode",
        "networks",
        "pid_mode",
        "published_ports",
        "pull",
        "replica",
        "restart_policy",
        "served_name",
        "state",
        "stop_timeout",
        "task",
        "url",
    }
)
# A namespace of another container, which need not run yet and does not bear on GPUs.
OF_ANOTHER = "container:"
# What every launch has that its options do not state: roles/vllm_server/tasks/container.yml.
ALWAYS: dict[str, Any] = {"security_opts": ["no-new-privileges:true"]}
LABEL = "tandem.probe=gpu_visibility"

# Variables that decide which GPUs a process sees; never secret.
TELLING = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "LD_LIBRARY_PATH")
MARK = "=== tandem"
TOLD = "tandem-framework: "
# device_count() asks NVML, which answers where CUDA does not work: what counts is the devices that CUDA opens.
# Their properties take no memory on the GPU, so this is safe beside a running engine.
FRAMEWORK = f"""\
import json
told = {{"version": None, "cuda": None, "available": False, "devices": [], "error": None, "missing": False}}
try:
    import torch
    told.update(version=str(torch.__version__), cuda=torch.version.cuda)
    told["available"] = bool(torch.cuda.is_available())
    torch.cuda.init()
    for i in range(torch.cuda.device_count()):
        found = torch.cuda.get_device_properties(i)
        told["devices"].append([str(getattr(found, "uuid", "")), str(found.name)])
except Exception as error:
    told["missing"] = isinstance(error, ModuleNotFoundError) and error.name == "torch"
    told["error"] = "%s: %s" % (type(error).__name__, error)
print("\\n{TOLD}" + json.dumps(told))
"""
SCRIPT = "\n".join(
    [
        f"echo '{MARK} environment'",
        *(f'echo "${{{name}+{name}=${name}}}"' for name in TELLING),
        f"echo '{MARK} nvidia-smi'",
        "nvidia-smi -L 2>&1",
        f'printf "\\n{MARK} status %s\\n" "$?"',
        'if [ -n "$1" ]; then',
        f"  echo '{MARK} framework'",
        '  python3 -c "$1" 2>&1',
        f'  printf "\\n{MARK} status %s\\n" "$?"',
        "fi",
        f"echo '{MARK} end'",
        # What a part answered is told above.
        "exit 0",
    ]
)

NO_DOCKER = re.compile(r"Cannot connect to the Docker daemon|docker: No such file|command 'docker'|dial unix ")
NOT_CDI = re.compile(r"\S*gpu=\S+ is not an absolute path")

OPENINGS = {
    "host": "the host cannot list its GPUs",
    "launch": "the launch names GPUs that this host does not list",
    "image": "no container can be started with the launch image and arguments",
    "container": "a container with the launch image and arguments cannot see its GPUs",
    "framework": "the framework in a container with the launch image and arguments cannot use its GPUs",
    "cleanup": "the container that showed the GPUs could not be removed",
}


class LaunchOptionError(ValueError):
    """A launch option that the probe cannot take over; the text names it."""


@dataclass(frozen=True)
class Listed:
    """A line of `nvidia-smi -L`: a GPU, or a MIG device with its parent's index. index: "0", for MIG "0:1"."""

    index: str
    uuid: str
    name: str


@dataclass(frozen=True)
class Cause:
    """Why the GPUs are not seen. stage: a key of OPENINGS; the id is failure_triage_info's, or one of the module's."""

    id: str
    stage: str
    evidence: str
    advice: str
    next_command: str
    confidence: str = "high"
    checks: Sequence[str] = ()

    def to_dict(self) -> dict[str, Any]:
        """The cause as the module returns it."""
        return {**asdict(self), "checks": list(self.checks)}


@dataclass(frozen=True)
class Told:
    """What a probe's output says. smi, framework: text of the part; a status of None: the part has not ended.

    begun, ended: the container's process started, and came to its end.
    """

    begun: bool
    ended: bool
    environment: tuple[str, ...] = ()
    smi: str = ""
    smi_status: int | None = None
    framework: str = ""
    framework_status: int | None = None


@dataclass(frozen=True)
class Framework:
    """What the framework says. state: passed, failed or not_checked; uuids: of the devices that it opened."""

    state: str
    reason: str | None = None
    version: str | None = None
    cuda: str | None = None
    available: bool | None = None
    count: int | None = None
    uuids: tuple[str, ...] = ()
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The framework as the module returns it."""
        return {"name": "torch", **asdict(self), "uuids": list(self.uuids)}


@dataclass(frozen=True)
class Verdict:
    """The judgement of a probe. cause: None when all is as it should be."""

    cause: Cause | None
    container: list[Listed] = field(default_factory=list)
    framework: Framework = Framework("not_checked", "the container did not come so far")


def listed(text: str) -> list[Listed]:
    """The GPUs that `nvidia-smi -L` lists; for a GPU with MIG devices, those in its place."""
    out: list[Listed] = []
    for gpu in smi_text.parse(text).gpus:
        for mig in gpu["mig_devices"]:
            name = "{} MIG {}".format(gpu["name"], mig["profile"])
            out.append(Listed("{}:{}".format(gpu["index"], mig["index"]), mig["uuid"], name))
        # What it only complains of has no UUID.
        if gpu["uuid"] and not gpu["mig_devices"]:
            out.append(Listed(str(gpu["index"]), gpu["uuid"], str(gpu["name"])))
    return out


def named_gpus(container: Mapping[str, Any]) -> list[str] | None:
    """The GPUs that a launch asks for (indices or UUIDs; [] for none), None for all. Raises LaunchOptionError."""
    names: list[str] = []
    for request in container.get("device_requests") or ():
        ids = [str(i) for i in request.get("device_ids") or ()]
        if not ids and request.get("count") != -1:
            raise LaunchOptionError("container.device_requests: a request without device_ids does not say which GPUs")
        names += [i[len(CDI_KIND) :] if i.startswith(CDI_KIND) else i for i in ids] or ["all"]
    return None if "all" in names else names


def resolve(names: Sequence[str] | None, host: Sequence[Listed]) -> tuple[list[str], list[str]]:
    """UUIDs of the GPUs that are named, and the names that the host does not have. None: all that the host has.

    The index of a GPU in MIG mode means all its MIG devices, as the container toolkit takes it.
    """
    if names is None:
        return [gpu.uuid for gpu in host], []
    uuids: list[str] = []
    unknown = []
    for name in names:
        found = [gpu.uuid for gpu in host if name in (gpu.uuid, gpu.index) or gpu.index.startswith(f"{name}:")]
        uuids += [uuid for uuid in found if uuid not in uuids]
        if not found:
            unknown.append(name)
    return uuids, unknown


def bind_sources(container: Mapping[str, Any]) -> list[str]:
    """Paths on the host that a launch mounts."""
    return [mount["source"] for mount in container.get("mounts") or () if mount.get("type") == "bind"]


def csv_fields(fields: Iterable[str]) -> str:
    """One line of CSV, as Docker reads --mount and --gpus."""
    return ",".join('"%s"' % f.replace('"', '""') if re.search(r'[,"\n]', f) else f for f in fields)


def mount_argument(mount: Mapping[str, Any]) -> str:
    """The argument of --mount. Raises LaunchOptionError."""
    other = sorted(key for key in mount if key not in ("type", "source", "target", "read_only"))
    if other or mount.get("type") not in ("bind", "tmpfs"):
        what = ", ".join(other) or "type = {}".format(mount.get("type"))
        raise LaunchOptionError(f"container.mounts: {what} is not known")
    fields = [f"{key}={mount[key]}" for key in ("type", "source", "target") if mount.get(key)]
    return csv_fields(fields + (["readonly"] if mount.get("read_only") else []))


def request_arguments(request: Mapping[str, Any]) -> list[str]:
    """The arguments that make Docker's command line send this device request. Raises LaunchOptionError."""
    if request.get("options"):
        raise LaunchOptionError("container.device_requests: options is not known")
    ids = [str(i) for i in request.get("device_ids") or ()]
    driver = request.get("driver") or ""
    if driver == "cdi":
        return [argument for i in ids for argument in ("--device", i)]
    alternatives = request.get("capabilities") or [["gpu"]]
    if len(alternatives) != 1 or "gpu" not in alternatives[0]:
        raise LaunchOptionError("container.device_requests: capabilities must be one list that has gpu in it")
    fields = [f"driver={driver}"] if driver else []
    fields.append("device=" + ",".join(ids) if ids else "count={}".format(request.get("count")))
    # The command line adds "gpu" itself.
    more = [capability for capability in alternatives[0] if capability != "gpu"]
    return ["--gpus", csv_fields(fields + (["capabilities=" + ",".join(more)] if more else []))]


def launch_arguments(container: Mapping[str, Any], missing: Collection[str] = ()) -> list[str]:
    """The launch's options for `docker run`. missing: bind sources that are not there. Raises LaunchOptionError.

    Volumes are left out: Docker would make those that are not there, and a probe changes nothing.
    """
    options = {**ALWAYS, **container}
    known = {*VALUES, *SWITCHES, *LISTS, *APART, *LEFT_ALONE}
    strange = sorted(key for key, value in options.items() if key not in known and value)
    if strange:
        raise LaunchOptionError(
            f"container.{strange[0]}: this launch option is not known; without it nothing of the launch would be proven"
        )
    out: list[str] = []
    for key, flag in VALUES.items():
        if options.get(key) is not None and not str(options[key]).startswith(OF_ANOTHER):
            out += [flag, str(options[key])]
    out += [flag for key, flag in SWITCHES.items() if options.get(key)]
    for key, flag in LISTS.items():
        for value in options.get(key) or ():
            # docker_container writes name:soft:hard, the command line name=soft:hard.
            out += [flag, str(value).replace(":", "=", 1) if key == "ulimits" else str(value)]
    for name, value in sorted((options.get("env") or {}).items()):
        out += ["--env", f"{name}={value}"]
    for mount in options.get("mounts") or ():
        if mount.get("source") not in missing and mount.get("type") != "volume":
            out += ["--mount", mount_argument(mount)]
    for request in options.get("device_requests") or ():
        out += request_arguments(request)
    return out


def probe_argv(container: Mapping[str, Any], name: str, missing: Collection[str], framework: bool) -> list[str]:
    """The command line of a probe: the launch with another command and no network. Raises LaunchOptionError."""
    own = ["docker", "run", "--rm", "--pull", "never", "--network", "none", "--name", name, "--label", LABEL]
    image = str(container["image"])
    command = ["--entrypoint", "/bin/sh", image, "-c", SCRIPT, "sh", FRAMEWORK if framework else ""]
    return own + launch_arguments(container, missing) + command


def by_hand(container: Mapping[str, Any], missing: Collection[str]) -> str:
    """A command for a person: the launch's container, listing its GPUs."""
    own = ["docker", "run", "--rm", "--pull", "never", "--network", "none"]
    command = ["--entrypoint", "nvidia-smi", str(container["image"]), "-L"]
    return shlex.join(own + launch_arguments(container, missing) + command)


def read(output: str) -> Told:
    """What a probe wrote to stdout, whole or cut off."""
    texts: dict[str, list[str]] = {}
    statuses: dict[str, int] = {}
    section = ""
    for line in output.splitlines():
        if line.startswith(MARK + " "):
            word, _space, value = line[len(MARK) + 1 :].partition(" ")
            if word == "status":
                statuses[section] = int(value)
            else:
                section = word
                texts[section] = []
        elif section and line.strip():
            texts[section].append(line.rstrip())
    return Told(
        begun=bool(texts),
        ended="end" in texts,
        environment=tuple(texts.get("environment", ())),
        smi="\n".join(texts.get("nvidia-smi", ())),
        smi_status=statuses.get("nvidia-smi"),
        framework="\n".join(texts.get("framework", ())),
        framework_status=statuses.get("framework"),
    )


def last_lines(text: str, count: int = 3) -> str:
    """The last lines that say something, in one line."""
    said = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("See 'docker")]
    return " | ".join(said[-count:]) or "(no output)"


def classified(text: str, stage: str) -> Cause | None:
    """The likeliest known cause that a text tells of."""
    for found in triage(text)[:1]:
        return Cause(
            id=found.id,
            stage=stage,
            evidence=found.evidence,
            advice=found.advice,
            next_command=found.next_command,
            confidence=found.confidence,
            checks=tuple(found.checks),
        )
    return None


def unknown(text: str, stage: str, command: str) -> Cause:
    """No known cause: the lines to look at."""
    advice = "No known cause is in these lines: read them, and run the next command on the node."
    return Cause("unknown", stage, last_lines(text), advice, command, confidence="low")


def judge_host(status: int, text: str) -> Cause | None:
    """Why the host's own `nvidia-smi -L` is no list of GPUs; None when it is one."""
    if listed(text):
        return None
    if status == 127:
        return Cause(
            id="nvidia_smi_missing",
            stage="host",
            evidence="nvidia-smi was not found",
            advice="Install the NVIDIA driver with its tools on this host.",
            next_command="cat /proc/driver/nvidia/version",
        )
    return classified(text, "host") or unknown(f"exit status {status}\n{text}", "host", "nvidia-smi")


def judge_named(names: Sequence[str], host: Sequence[Listed]) -> Cause:
    """The host does not have these GPUs."""
    return Cause(
        id="gpu_not_on_host",
        stage="launch",
        evidence="named: {}; on the host: {}".format(
            ", ".join(names), ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in host)
        ),
        advice="Name GPUs that are there in tandem_gpus of this host, or find out why it no longer lists them.",
        next_command="nvidia-smi -L",
    )


def judge_image(ref: str, error: str) -> Cause:
    """Docker does not show the launch image."""
    if "no such image" in error.lower():
        return Cause(
            id="image_missing",
            stage="image",
            evidence=last_lines(error, 1),
            advice="Load the launch image on this host first; the role vllm_server does it from tandem_image.archive.",
            next_command="docker image ls --digests",
        )
    if NO_DOCKER.search(error):
        return Cause(
            id="docker_not_answering",
            stage="image",
            evidence=last_lines(error, 1),
            advice="Install Docker Engine on this host, or start it.",
            next_command="systemctl status docker.service",
        )
    return classified(error, "image") or unknown(error, "image", shlex.join(["docker", "image", "inspect", ref]))


def judge_timeout(told: Told, seconds: int, command: str) -> Cause:
    """The probe was given up after so many seconds: what it was at."""
    if not told.begun:
        at, advice = (
            "Docker had not started the container",
            ("The container runtime's hook hangs, mostly on a GPU that no longer answers: look into the kernel log."),
        )
    elif told.smi_status is None:
        at, advice = (
            "nvidia-smi -L had not answered",
            ("A GPU no longer answers, or another process holds the driver's lock: look into the kernel log."),
        )
    else:
        at, advice = (
            "torch had not answered",
            (
                "Import of torch, or CUDA, takes too long: try again (a first read of a large image is slow), with a"
                " longer timeout; if it stays so, look into the kernel log."
            ),
        )
    log = "journalctl --dmesg --boot --no-pager | grep -E 'NVRM|nvidia'"
    return Cause(
        id="probe_timed_out",
        stage="framework" if told.smi_status is not None else "container",
        evidence=f"{at} after {seconds} s. " + last_lines(told.framework or told.smi, 1),
        advice=advice,
        next_command=log if told.smi_status is None else command,
        confidence="medium",
    )


def judge_left(name: str, error: str, cause: Cause | None) -> Cause:
    """The probe's container could not be removed. cause: what was found besides, which stays the cause."""
    command = f"docker rm --force {name}"
    advice = f"The container {name} may still be there: remove it with {command} as soon as Docker lets it go"
    if cause:
        return replace(cause, advice=f"{cause.advice.rstrip('.')}. {advice}.")
    return Cause("probe_left_behind", "cleanup", last_lines(error, 1), advice, command)


def judge_set(told: Told, expected: Sequence[str], command: str) -> Cause | None:
    """What is wrong with the GPUs that the container lists. expected: UUIDs."""
    seen = [gpu.uuid for gpu in listed(told.smi)]
    if set(seen) == set(expected):
        return None
    if not seen and told.smi_status == 127:
        return Cause(
            id="gpu_tools_not_in_container",
            stage="container",
            evidence=last_lines(told.smi, 1),
            advice="The container runtime put no nvidia-smi into the container: NVIDIA_DRIVER_CAPABILITIES must have"
            " utility and compute in it, and a CDI specification must list the tools.",
            next_command=command,
        )
    found = classified(told.smi, "container")
    if found:
        return found
    if told.smi_status != 0:
        return unknown(f"nvidia-smi -L: exit status {told.smi_status}\n{told.smi}", "container", command)
    fewer = [uuid for uuid in expected if uuid not in seen]
    more = [uuid for uuid in seen if uuid not in expected]
    parts = ["the launch names " + ", ".join(expected), "the container lists " + (", ".join(seen) or "none")]
    parts += ["missing: " + ", ".join(fewer)] if fewer else []
    parts += ["not named: " + ", ".join(more)] if more else []
    advice = (
        "The container gets other GPUs than the launch names. A variable NVIDIA_VISIBLE_DEVICES of the image or of the"
        " service's environment, or nvidia as Docker's default runtime beside CDI, can do this; so can a CDI"
        " specification from before GPUs were exchanged (nvidia-ctk cdi generate makes it anew)."
        if more
        else "GPUs that the host lists do not reach the container: a CDI specification from before they were there"
        " (nvidia-ctk cdi generate makes it anew), or device files that are missing under /dev."
    )
    return Cause("gpu_set_differs", "container", "; ".join(parts + list(told.environment)), advice, command)


def read_framework(told: Told, listed_uuids: Sequence[str]) -> Framework:
    """What the framework's part says, before it is judged: state is passed, or not_checked where nothing was there.

    listed_uuids: as nvidia-smi has them; the framework leaves out what is before the first hyphen.
    """
    line = next((text for text in told.framework.splitlines() if text.startswith(TOLD)), None)
    if line is None:
        if told.framework_status == 127:
            return Framework("not_checked", "no python3 in the image")
        if not told.framework and told.framework_status is None:
            return Framework("not_checked", "the framework was not asked")
        said = f"exit status {told.framework_status}: {last_lines(told.framework)}"
        return Framework("passed", available=False, count=0, error=said)
    answer = json.loads(line[len(TOLD) :])
    if answer["missing"]:
        return Framework("not_checked", "no torch in the image", error=answer["error"])
    whole = {uuid[len("GPU-") :]: uuid for uuid in listed_uuids}
    uuids = [whole.get(uuid, "GPU-" + uuid) for uuid, _name in answer["devices"] if uuid]
    return Framework(
        state="passed",
        version=answer["version"],
        cuda=answer["cuda"],
        available=answer["available"],
        count=len(answer["devices"]),
        uuids=tuple(uuids),
        error=answer["error"],
    )


def judge_framework(told: Told, found: Framework, expected: Sequence[str], command: str) -> Cause | None:
    """What is wrong with what the framework counts. expected: UUIDs that the container is known to list."""
    if found.state == "not_checked":
        return None
    # A process sees one MIG device at most, however many its container has.
    mig = any(uuid.startswith("MIG-") for uuid in expected)
    wanted = 1 if mig else len(expected)
    count = found.count or 0
    said = "\n".join(line for line in told.framework.splitlines() if not line.startswith(TOLD))
    said += "\n" + (found.error or "")
    numbers = f"torch {found.version} (CUDA {found.cuda}) counts {count} of {wanted} GPUs"
    if found.error or not found.available or not count:
        known = classified(said, "framework")
        if known:
            return known
        advice = (
            "nvidia-smi works in the container, CUDA does not: compare the CUDA version of the image with the driver's."
            if found.cuda or not found.version
            else "The torch in the image is built without CUDA: take an image for NVIDIA GPUs."
        )
        evidence = found.error or numbers + ", and cuda.is_available() is False"
        return Cause("framework_cannot_use_gpus", "framework", evidence, advice, command, confidence="medium")
    evidence = "; ".join([numbers, *told.environment])
    if count < wanted:
        advice = "CUDA sees fewer GPUs than nvidia-smi: a CUDA_VISIBLE_DEVICES of the image or of the service's"
        advice += " environment hides some, or one of them does not work."
        return classified(said, "framework") or Cause(
            "framework_sees_fewer_gpus", "framework", evidence, advice, command
        )
    if not mig and (count > wanted or not set(found.uuids) <= set(expected)):
        evidence = "; ".join(["the launch names " + ", ".join(expected), "torch sees " + ", ".join(found.uuids)])
        return Cause("gpu_set_differs", "framework", evidence, "CUDA sees other GPUs than nvidia-smi lists.", command)
    return None


def judge(status: int, out: str, err: str, expected: Sequence[str], command: str) -> Verdict:
    """The verdict on a probe that ended by itself.

    status, out, err: of `docker run`. expected: UUIDs. command: what a person can run to see for themselves.
    """
    told = read(out)
    if not told.begun:
        if NOT_CDI.search(err):
            return Verdict(
                Cause(
                    id="docker_too_old_for_cdi",
                    stage="container",
                    evidence=last_lines(err, 1),
                    advice="This Docker knows no CDI: it needs version 25 or newer, or gpu access by the NVIDIA runtime"
                    " (tandem_gpus.access: nvidia).",
                    next_command="docker version",
                )
            )
        return Verdict(classified(err, "container") or unknown(f"exit status {status}\n{err}", "container", command))
    if told.smi_status is None:
        text = f"the container ended with exit status {status} at nvidia-smi -L\n{told.smi}\n{err}"
        return Verdict(classified(text, "container") or unknown(text, "container", command))
    container = listed(told.smi)
    cause = judge_set(told, expected, command)
    if cause:
        return Verdict(cause, container)
    framework = read_framework(told, [gpu.uuid for gpu in container])
    if not told.ended and told.framework_status is None:
        why = ": it was killed, as it is when limits.memory is too small" if status == 137 else ""
        error = f"the container ended with exit status {status} while torch was asked{why}"
        framework = Framework("passed", available=False, count=0, error=f"{error}. {last_lines(err)}")
    cause = judge_framework(told, framework, expected, command)
    if cause:
        framework = Framework(**{**asdict(framework), "state": "failed", "reason": cause.id})
    return Verdict(cause, container, framework)


def message(node: str, cause: Cause) -> str:
    """The one message of a failure."""
    parts = [
        f"{node}: {OPENINGS[cause.stage]}: {cause.id}: {cause.advice.rstrip('.')}.",
        "Evidence: {}.".format(" ".join(cause.evidence.split()).rstrip(".")),
        f"Next: {cause.next_command}",
    ]
    return " ".join(parts)
