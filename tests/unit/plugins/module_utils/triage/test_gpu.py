# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.triage.engine import triage
from ansible_collections.tandem.vllm.plugins.module_utils.triage.gpu import FAMILY, KINDS, SIGNATURES
from ansible_collections.tandem.vllm.plugins.module_utils.triage.signature import Family, Kind, Signature
from ansible_collections.tandem.vllm.plugins.module_utils.triage.text import Text

FIXTURES = Path(__file__).resolve().parents[4] / "fixtures" / "triage" / "gpu"
HEADER = re.compile(r"^=== (.+?)(?: \[(medium|low)\])?\n", re.MULTILINE)


class Sample(NamedTuple):
    """One text. id: the failure that has to come first, None where none may be told."""

    id: str | None
    name: str
    confidence: str
    text: str


def samples() -> list[Sample]:
    """A file is named after the id; "=== name [confidence]" starts each text in it, high where none is written."""
    found = []
    for path in sorted(FIXTURES.glob("*.txt")):
        start, *parts = HEADER.split(path.read_text(encoding="utf-8"))
        assert not start
        cause = None if path.stem == "none" else path.stem
        for at in range(0, len(parts), 3):
            name, confidence, text = parts[at : at + 3]
            found.append(Sample(cause, name, confidence or "high", text))
    return found


SAMPLES = samples()
TEXTS = {sample: Text(sample.text) for sample in SAMPLES}
BY_NAME = {(sample.id, sample.name): sample.text for sample in SAMPLES}


def causes(text: str, **versions: str) -> list[tuple[str, str]]:
    return [(cause.id, cause.confidence) for cause in triage(text, versions)]


@pytest.mark.parametrize("sample", SAMPLES, ids=[f"{sample.id}: {sample.name}" for sample in SAMPLES])
def test_first_cause(sample: Sample) -> None:
    found = causes(sample.text)
    if sample.id is None:
        assert found == []
    else:
        assert found[0] == (sample.id, sample.confidence)
    assert len({cause for cause, _confidence in found}) == len(found)


def test_every_kind_has_texts() -> None:
    known = [kind.id for kind in KINDS]
    assert len(known) == len(set(known))
    assert {sample.id for sample in SAMPLES} == {*known, None}
    assert {signature.id for signature in SIGNATURES} == set(known)
    for kind in known:
        assert len([sample for sample in SAMPLES if sample.id == kind]) >= 2
    for kind in KINDS:
        assert set(kind.because_of) <= set(known) - {kind.id}


def alternatives(phrase: str) -> list[str]:
    """The parts of a phrase whose alternatives are whole spellings: those not in brackets."""
    depth, parts = 0, [""]
    for character in re.findall(r"\\.|\[[^\]]*\]|.", phrase):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts


@pytest.mark.parametrize(
    ("cause", "phrase"),
    sorted({(s.id, part) for s in SIGNATURES for phrase in s.phrases for part in alternatives(phrase)}),
)
def test_every_phrase_has_a_text(cause: str, phrase: str) -> None:
    assert any(text.has(phrase) for sample, text in TEXTS.items() if sample.id == cause)


@pytest.mark.parametrize("number", range(len(SIGNATURES)))
def test_every_signature_decides_a_text(number: int) -> None:
    ours = [sample.text for sample in SAMPLES if sample.id == SIGNATURES[number].id]
    without = Family(FAMILY.name, KINDS, SIGNATURES[:number] + SIGNATURES[number + 1 :])
    assert any(triage(text, families=[without])[:1] != triage(text)[:1] for text in ours), SIGNATURES[number]


@pytest.mark.parametrize("kind", KINDS, ids=[kind.id for kind in KINDS])
def test_advice_and_commands_can_be_read_and_copied(kind: Kind) -> None:
    signatures = [signature for signature in SIGNATURES if signature.id == kind.id]
    for words in filter(None, [kind.advice, *[signature.advice for signature in signatures]]):
        assert words == " ".join(words.split())
        assert words.endswith(".")
    commands = [kind.next_command, *[signature.next_command or "-" for signature in signatures]]
    for command in [*commands, *[check for signature in signatures for check in signature.checks]]:
        assert command == command.strip()
        assert "\n" not in command


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda signature: f"{signature.id}: {signature.phrases[0]}")
def test_what_is_not_sure_says_what_decides(signature: Signature) -> None:
    assert bool(signature.checks) or signature.confidence != "low"
    assert not signature.last_resort or signature.confidence == "low"


@pytest.mark.parametrize(
    ("cause", "name", "details"),
    [
        (
            "kernel_module_not_loaded",
            "modprobe, kernel without the module",
            {"kernel": "6.8.0-87-generic"},
        ),
        ("driver_library_mismatch", "nvidia-smi, two-part version (gpu-docker-11)", {"nvml_library": "580.173"}),
        (
            "driver_library_mismatch",
            "with the kernel's version beside it",
            {"nvml_library": "580.178", "kernel_module": "580.173.02"},
        ),
        ("driver_library_mismatch", "kernel log", {"client": "470.129.06", "kernel_module": "470.103.01"}),
        ("driver_library_mismatch", "kernel log, new", {"client": "595.84", "kernel_module": "595.71.05"}),
        ("driver_too_old_for_image", "nested escapes (gpu-docker-08)", {"required": "cuda>=9.0"}),
        (
            "driver_too_old_for_image",
            "with a Windows table (gpu-docker-19)",
            {"required": "cuda>=12.8", "driver": "551.78", "cuda": "12.4", "driver_wanted": "570.26"},
        ),
        ("driver_too_old_for_image", "only an alternative is named", {"required": "cuda>=10.0"}),
        ("driver_too_old_for_image", "the driver's branch is named", {"required": "driver<385"}),
        ("driver_too_old_for_image", "Go's JSON log", {"required": "cuda>=12.9", "driver_wanted": "575.51.03"}),
        ("driver_too_old_for_image", "wrapped by a terminal", {"required": "cuda>=12.8", "driver_wanted": "570.26"}),
        ("driver_too_old_for_image", "PyTorch", {"cuda": "11.4"}),
        ("driver_too_old_for_image", "NVIDIA's own image", {"driver": "430.26"}),
        (
            "driver_too_old_for_image",
            "before the start: image and driver beside each other",
            {"required": "cuda>=12.8", "driver": "535.161.08", "cuda": "12.2", "driver_wanted": "570.26"},
        ),
        (
            "fabric_manager_missing",
            "version of the driver and of the manager",
            {"driver": "550.120", "fabric_manager": "550.127.05"},
        ),
        (
            "gpu_fell_off_bus",
            "three spellings of nvidia-smi (gpu-docker-14)",
            {"bus_ids": ["0000:0B:00.0", "0000:07:00.0", "0000:02:00.0"]},
        ),
        (
            "gpu_fell_off_bus",
            "kernel log without Xid (gpu-docker-15)",
            {"bus_ids": ["0000:b3:00.0"], "driver": "570.158.01"},
        ),
        ("gpu_fell_off_bus", "Xid 79", {"bus_ids": ["0000:44:00"]}),
        ("gpu_fell_off_bus", "kernel log, the GPU named in four lines", {"bus_ids": ["0000:81:00.0"]}),
        ("gpu_fell_off_bus", "nvidia-smi with the index", {"bus_ids": ["0000:CA:00.0"]}),
        ("gpu_fell_off_bus", "lspci", {"bus_ids": ["0a:00.0"]}),
        ("gpu_requires_reset", "GSP timeout", {"bus_ids": ["0000:4f:00"], "xid": [119]}),
        (
            "gpu_memory_in_use",
            "vLLM 0.16, prefixed, with the device, and the holders",
            {
                "free_gib": 3.77,
                "total_gib": 22.05,
                "wanted_gib": 19.84,
                "gpu_memory_utilization": 0.9,
                "holders": ["240187 C VLLM::EngineCore 18114MiB"],
            },
        ),
        ("gpu_memory_in_use", "out of memory, held by another process", {"holder_pids": [2684311]}),
        (
            "nvidia_container_toolkit_missing",
            "compose names the driver (gpu-docker-03)",
            {"engine": "docker", "driver_name": "nvidia", "capabilities": ["[[gpu]]", "[[compute utility]]"]},
        ),
        (
            "nvidia_container_toolkit_missing",
            "runtime by path",
            {"missing": ["/usr/bin/nvidia-container-runtime"]},
        ),
        (
            "docker_daemon_without_nvidia_runtime",
            "with docker info",
            {"engine": "docker", "runtimes": "io.containerd.runc.v2 runc"},
        ),
        (
            "cdi_spec_missing",
            "docker is podman (gpu-docker-06)",
            {"engine": "podman", "devices": ["nvidia.com/gpu=all"]},
        ),
        (
            "cdi_spec_missing",
            "specification of the driver before, crun",
            {"stale_library": "/lib64/libEGL_nvidia.so.550.54.14"},
        ),
        (
            "cdi_spec_generation_failed",
            "wrapped, vendor runtime.nvidia.com (gpu-docker-05)",
            {"engine": "docker", "devices": ["runtime.nvidia.com/gpu=all"]},
        ),
        ("container_lost_gpu_cgroup", "container and host (gpu-docker-09)", {"host_gpus": 4}),
        (
            "cuda_visible_devices_mig_uuid",
            "name of drivers before 470",
            {"uuids": ["MIG-GPU-52a3a85d-3c55-ca3a-a955-82c69ed360fc/7/0"]},
        ),
    ],
)
def test_details(cause: str, name: str, details: dict[str, Any]) -> None:
    assert triage(BY_NAME[cause, name])[0].details == details


@pytest.mark.parametrize(
    ("cause", "name", "evidence"),
    [
        (
            "driver_too_old_for_image",
            "nested escapes (gpu-docker-08)",
            "nvidia-container-cli: requirement error: unsatisfied condition: cuda >= 9.0",
        ),
        (
            "gpu_fell_off_bus",
            "kernel log without Xid (gpu-docker-15)",
            "NVRM: fallen off the bus and is not responding to commands.",
        ),
        (
            "gpu_memory_in_use",
            "wrapped within a word, prefixed on each line",
            "chat-1  | (EngineCore_DP0 pid=40) ValueError: Free memory on dev\n"
            "chat-1  | ice (3.77/22.05 GiB) on startup is less than desired GPU memory utilization (0.9, 19.84 GiB).",
        ),
        (
            "nvidia_container_toolkit_missing",
            "docker run --gpus all",
            'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
        ),
        (
            "cuda_visible_devices_uuid",
            "quoted by JSON",
            '{"log":"ValueError: invalid literal for int() with base 10: \'GPU-52a3a85d-3c55-ca3a-a955-82c69ed360fc\'',
        ),
    ],
)
def test_evidence(cause: str, name: str, evidence: str) -> None:
    assert triage(BY_NAME[cause, name])[0].evidence == evidence


@pytest.mark.parametrize(
    ("cause", "name", "ids"),
    [
        # The kernel's reason comes before what nvidia-smi and the loader say because of it.
        ("driver_needs_open_kernel_module", "command and kernel line (gpu-docker-13)", []),
        (
            "driver_needs_open_kernel_module",
            "journal, the sentence broken at other places",
            ["kernel_module_not_loaded"],
        ),
        ("driver_library_mismatch", "CDI names what the mismatch caused", ["cdi_spec_generation_failed"]),
        ("driver_library_mismatch", "CUDA error 803, versions differ", ["cuda_compat_library_conflict"]),
        ("gpu_fell_off_bus", "Xid 79", ["gpu_requires_reset"]),
        ("gpu_fell_off_bus", "nvidia-smi with the index", []),
        ("gpu_requires_reset", "handle", []),
    ],
)
def test_consequences_come_after_their_root(cause: str, name: str, ids: list[str]) -> None:
    assert [found.id for found in triage(BY_NAME[cause, name])] == [cause, *ids]


@pytest.mark.parametrize(
    ("texts", "ids"),
    [
        # Whatever stands first in the text: the cause stands first in the answer.
        (
            [("cdi_spec_generation_failed", "one GPU"), ("gpu_fell_off_bus", "Xid 79, old")],
            ["gpu_fell_off_bus", "cdi_spec_generation_failed"],
        ),
        (
            [
                ("cdi_spec_missing", "docker"),
                ("cdi_spec_generation_failed", "refresh at boot"),
                ("kernel_module_not_loaded", "proc"),
            ],
            ["kernel_module_not_loaded", "cdi_spec_generation_failed", "cdi_spec_missing"],
        ),
        (
            [
                ("docker_daemon_without_nvidia_runtime", "Docker before 23"),
                ("nvidia_container_toolkit_missing", "the configuration tool"),
            ],
            ["nvidia_container_toolkit_missing", "docker_daemon_without_nvidia_runtime"],
        ),
        (
            [("container_lost_gpu_cgroup", "alone"), ("driver_library_mismatch", "kernel log")],
            ["driver_library_mismatch", "container_lost_gpu_cgroup"],
        ),
        (
            [
                ("driver_too_old_for_image", "CUDA error 804 (logs-39)"),
                ("driver_library_mismatch", "container toolkit"),
            ],
            ["driver_library_mismatch", "driver_too_old_for_image"],
        ),
        (
            [("gpu_memory_in_use", "busy"), ("gpu_requires_reset", "Xid 154")],
            ["gpu_requires_reset", "gpu_memory_in_use"],
        ),
        # What is only guessed is no root, and not told beside what is known.
        (
            [("driver_needs_open_kernel_module", "alone"), ("kernel_module_not_loaded", "nvidia-smi")],
            ["kernel_module_not_loaded"],
        ),
    ],
)
def test_several_causes(texts: list[tuple[str, str]], ids: list[str]) -> None:
    parts = [BY_NAME[key] for key in texts]
    for text in ("\n".join(parts), "\n".join(reversed(parts))):
        assert [cause.id for cause in triage(text)] == ids


HIGH_803 = BY_NAME["cuda_compat_library_conflict", "alone (logs-38)"]
HIGH_804 = BY_NAME["driver_too_old_for_image", "CUDA error 804 (logs-39)"]


@pytest.mark.parametrize(
    ("text", "versions", "found"),
    [
        (HIGH_803, {}, ("cuda_compat_library_conflict", "medium")),
        (HIGH_803, {"vllm": "0.15.1"}, ("cuda_compat_library_conflict", "high")),
        (HIGH_803, {"vllm": "0.9.2"}, ("cuda_compat_library_conflict", "medium")),
        (HIGH_804, {"cuda": "12.2"}, ("driver_too_old_for_image", "high")),
        ("NVIDIA_REQUIRE_CUDA=cuda>=12.4\n" + HIGH_804, {"cuda": "12.2"}, ("driver_too_old_for_image", "high")),
        ("NVIDIA_REQUIRE_CUDA=cuda>=12.4\n" + HIGH_804, {"cuda": "13.0"}, ("cuda_compat_library_conflict", "high")),
        ("NVIDIA_REQUIRE_CUDA=cuda>=12.4", {"cuda": "12.2"}, ("driver_too_old_for_image", "medium")),
    ],
)
def test_versions_decide(text: str, versions: dict[str, str], found: tuple[str, str]) -> None:
    assert causes(text, **versions)[0] == found


def decorations() -> dict[str, Any]:
    """Ways in which a log reaches a reader."""

    def lines(change: Any) -> Any:
        return lambda text: "\n".join(change(line) for line in text.splitlines())

    return {
        "compose": lines(lambda line: "chat-node-a-1  | " + line),
        "vLLM": lines(lambda line: "(EngineCore_DP0 pid=12) ERROR 11-02 17:50:01 [core.py:700] " + line),
        "vLLM in compose": lines(
            lambda line: "chat-1  | (APIServer pid=1) (EngineCore pid=68) ERROR 02-06 16:34:06 [core.py:936] " + line
        ),
        "journal": lines(lambda line: "Dec 01 10:00:00 node-a kernel: " + line),
        "ISO journal": lines(lambda line: "2025-06-02T12:32:53.230422+00:00 node-a kernel: " + line),
        "dmesg": lines(lambda line: "[ 1843.308145] " + line),
        "dmesg -T": lines(lambda line: "[Mon Jun  2 13:13:04 2025] " + line),
        "json-file": lines(
            lambda line: json.dumps({"log": line + "\n", "stream": "stderr", "time": "2025-12-01T10:00:00Z"})
        ),
        "one JSON string": json.dumps,
        "twice JSON": lambda text: json.dumps(json.dumps(text)),
        "containerd": lines(lambda line: "2025-12-01T10:00:00.123456789Z stderr F " + line),
        "colours": lines(lambda line: "\x1b[0;36m(EngineCore_DP0 pid=406)\x1b[0;0m \x1b[31m" + line + "\x1b[0m"),
        "colours without escape characters": lines(lambda line: "[0;36m(EngineCore_DP0 pid=406)[0;0m " + line),
        "wide blanks": lambda text: text.replace(" ", "\u00a0  "),
        "carriage returns": lambda text: text.replace("\n", "\r\n"),
        "HTML": lambda text: (
            text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
        ),
        "quotation": lines(lambda line: "> " + line),
        "box": lines(lambda line: "\u2502 " + line),
        "typographic quotes": lambda text: text.replace("'", "\u2019"),
        "terminal of 80 columns": lambda text: "\n".join(
            re.sub(r"(.{80})", "\\1\n", line) for line in text.splitlines()
        ),
        "terminal of 47 columns": lambda text: "\n".join(
            re.sub(r"(.{47})", "\\1\n", line) for line in text.splitlines()
        ),
    }


PLAIN = [
    sample
    for sample in SAMPLES
    if sample.id and sample.confidence == "high" and not re.search(r"\\|\[.*\w+ [\d:]+|^\w{3} \d\d|\|", sample.text)
]


@pytest.mark.parametrize("name", list(decorations()))
def test_no_decoration_hides_a_cause(name: str) -> None:
    decorate = decorations()[name]
    assert len(PLAIN) > 60
    for sample in PLAIN:
        if "versions differ" in sample.name and name.startswith("terminal"):
            continue  # a number that a terminal broke is not put together
        found = triage(decorate(sample.text))
        assert [cause.id for cause in found][:1] == [sample.id], (sample.name, decorate(sample.text))
    for sample in SAMPLES:
        if not sample.id and not (sample.name.startswith("a command") and name.startswith("terminal")):
            assert triage(decorate(sample.text)) == [], sample.name
