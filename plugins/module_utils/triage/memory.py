# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does not fit: the KV cache, the GPU's memory, the machine's memory, the disk; and storage that is too slow.

Spellings are those of vLLM from 0.2 on, PyTorch, Ray, the kernel, Docker and Kubernetes. Texts are in
tests/fixtures/triage/memory, a file for each failure; a test holds that every phrase has one.
"""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.triage.gpu import others_hold_memory
from ansible_collections.tandem.vllm.plugins.module_utils.triage.signature import (
    LOW,
    MEDIUM,
    Case,
    Family,
    Kind,
    Signature,
)

GIB = r"(-?[\d.]+\d|-?\d) ?Gi?B"
OUT_OF_MEMORY = (
    r"CUDA out of memory",
    r"CUDA error: out of memory",
    r"torch\.(?:cuda\.)?OutOfMemoryError",
    r"Cuda failure (?:\d+ )?'out of memory'",
    r"CUBLAS_STATUS_ALLOC_FAILED",
)
WHILE_LOADING = (
    r"Starting to load model|in load_model|create_weights|process_weights_after_loading"
    r"|Loading (?:\w+ )?checkpoint shards"
)
WHILE_STARTING = (
    r"when warming up sampler|profile_run|determine_available_memory|determine_num_available_blocks|capture_model"
    r"|_dummy_run|cudagraph"
)
# Progress of a load, in text without white space: "3/38[02:10<27:40,47.4s/it]".
PROGRESS = re.compile(
    r"Loading\w*checkpointshards:\d+%Completed\|(?P<done>\d+)/(?P<all>\d+)\[(?P<past>[\d:]+)<(?P<left>[\d:]+),(?P<rate>[\d.]+)s/it\]",
    re.IGNORECASE,
)
LOADING_TOOK = re.compile(
    r"Loading(?:model)?weightstook([\d.]+)s|Modelloadingtook[\d.]+\w+?and([\d.]+)s", re.IGNORECASE
)
# A load of longer than this is slow for any model that fits a few machines, in seconds.
SLOW_LOAD = 15 * 60
# So is one file of a few GiB for longer than this.
SLOW_FILE = 45.0
# The engine's patience, in seconds, is 300 and more.
LONG_LOAD = 4 * 60
GAVE_UP = (
    r"Timed out waiting for engines? (?:core processes )?to (?:send initial message|start)"
    r"|Did not receive response from front-end process within"
)


def _float(text: str | None) -> float | None:
    return float(text) if text else None


def _int(text: str | None) -> int | None:
    return int(text) if text else None


def _kv_facts(case: Case) -> dict[str, Any]:
    """max_model_len, capacity_tokens, estimated_max_model_len: tokens; needed_gib, available_gib: GiB."""
    text = case.text
    needed = text.search(
        rf"max seq len \((\d+)\), \(?{GIB} KV cache is needed, which is larger than the available KV cache "
        rf"memory \({GIB}\)"
    )
    tokens = text.search(
        r"max seq len \((\d+)\) is larger than the maximum number of tokens that can be stored in KV cache \((\d+)\)"
    )
    length = needed or tokens or text.search(r"max seq len \((\d+)\)")
    available = needed.group(3) if needed else text.fact(rf"Available KV cache memory: {GIB}")
    return {
        "max_model_len": int(length.group(1)) if length else None,
        "needed_gib": _float(needed.group(2)) if needed else None,
        "available_gib": _float(available),
        "capacity_tokens": int(tokens.group(2)) if tokens else None,
        "estimated_max_model_len": _int(text.fact(r"estimated maximum model length is (\d+)")),
    }


def _gpu_facts(case: Case) -> dict[str, Any]:
    """tried, total, free: as PyTorch writes them, with their units; gpu: its number in the process."""
    amount = r"([\d.]+ (?:[KMGT]iB|bytes))"
    return {
        "gpu": case.text.fact(r"\. GPU (\d+) has a total"),
        "tried": case.text.fact(rf"Tried to allocate {amount}"),
        "total": case.text.fact(rf"total capac\w+ of {amount}"),
        "free": case.text.fact(rf"of which {amount} is free"),
    }


def _host_facts(case: Case) -> dict[str, Any]:
    """process: pid and name of what was killed; address: node; used_gb, total_gb: Ray's; limited: by a cgroup."""
    killed = case.text.search(r"Killed process (\d+) \(([^)]+)\)")
    usage = case.text.search(r"was running was ([\d.]+)GB / ([\d.]+)GB")
    return {
        "process": {"pid": int(killed.group(1)), "name": killed.group(2)} if killed else None,
        "address": case.text.fact(r"\bIP: (\d+\.[\d.]+\d)"),
        "used_gb": _float(usage.group(1)) if usage else None,
        "total_gb": _float(usage.group(2)) if usage else None,
        "limited": case.text.has(r"CONSTRAINT_MEMCG|Memory cgroup out of memory|OOMKilled") or None,
    }


def _seconds(clock: str) -> int:
    """ "1:02:03" or "02:03" in seconds."""
    total = 0
    for part in clock.split(":"):
        total = total * 60 + int(part or 0)
    return total


def _load(case: Case) -> dict[str, Any] | None:
    """The load as far as the text shows it: files done and all, seconds for the whole, seconds a file."""
    shown = list(PROGRESS.finditer(case.text.squeezed))
    took = [float(first or second) for first, second in LOADING_TOOK.findall(case.text.squeezed)]
    if shown:
        last = shown[-1]
        past, left = _seconds(last["past"]), _seconds(last["left"])
        return {
            "files_loaded": int(last["done"]),
            "files": int(last["all"]),
            "seconds": max([past + left, *map(int, took)]),
            "past": past,
            "seconds_per_file": float(last["rate"]),
        }
    return {"seconds": int(max(took)), "past": int(max(took))} if took else None


def _slow_load(case: Case) -> bool:
    load = _load(case) or {}
    return bool(load.get("seconds", 0) >= SLOW_LOAD or load.get("seconds_per_file", 0) >= SLOW_FILE)


def _long_load(case: Case) -> bool:
    return bool((_load(case) or {}).get("past", 0) >= LONG_LOAD)


def _load_facts(case: Case) -> dict[str, Any]:
    """files_loaded, files; seconds: for the whole load; seconds_per_file; server: that does not answer."""
    load = _load(case) or {}
    load.pop("past", None)
    return {**load, "server": case.text.fact(r"nfs: server ([\w.:-]+) not responding")}


def _own_memory(case: Case) -> bool:
    return not others_hold_memory(case)


KINDS = (
    Kind(
        "kv_cache_too_small",
        "What is left of the GPU's memory does not hold the KV cache of one request of max_model_len: lower "
        "max_model_len (the message may name what fits), raise gpu_memory_utilization, use an fp8 KV cache, or more "
        "GPUs.",
        "docker logs CONTAINER 2>&1 | grep -E 'Available KV cache memory|KV cache size|model weights|took'",
        because_of=("gpu_memory_in_use",),
        facts=_kv_facts,
    ),
    Kind(
        "gpu_out_of_memory",
        "The GPU's memory does not hold what the engine wants: lower max_num_seqs, max_num_batched_tokens or "
        "max_model_len, and gpu_memory_utilization where it fails while serving; more GPUs, or a quantised model.",
        "nvidia-smi --query-gpu=index,memory.used,memory.total --format=csv; docker logs CONTAINER 2>&1 | grep -iE "
        "'model weights|KV cache'",
        because_of=("gpu_memory_in_use", "gpu_requires_reset"),
        facts=_gpu_facts,
    ),
    Kind(
        "host_ram_oom",
        "The machine, or the container's limit, ran out of memory (not the GPU), and a process was killed for it: "
        "raise the limit, lower swap_space and cpu_offload_gb and Ray's object store, load with fewer copies at once "
        "(fewer parallel loaders), or add memory.",
        "journalctl --dmesg --since -2h | grep -iE 'oom|killed process'; docker inspect --format "
        "'{{.State.OOMKilled}} {{.HostConfig.Memory}}' CONTAINER; free -g",
        facts=_host_facts,
    ),
    Kind(
        "disk_full",
        "A file system is full: the model's, Docker's (images, logs) or /tmp (Ray's session).",
        "df -h; df -i; docker system df",
        because_of=("shm_too_small",),
    ),
    Kind(
        "slow_model_storage",
        "The weights come slowly from their storage: copy them to a local disk on each node, or read whole files "
        "(--safetensors-load-strategy eager or prefetch) from a network file system; VLLM_ENGINE_READY_TIMEOUT_S "
        "gives the engine more time.",
        "findmnt --target MODEL_PATH; dd if=MODEL_FILE of=/dev/null bs=16M iflag=direct count=64",
        facts=_load_facts,
    ),
)

SIGNATURES = (
    Signature(
        "kv_cache_too_small",
        (
            r"is larger than the maximum number of tokens that can be stored in KV cache",
            r"KV cache is needed, which is larger than the available KV cache memory",
        ),
    ),
    Signature(
        "kv_cache_too_small",
        (r"No available memory for the cache blocks", r"not enough GPU memory available to serve even a single token"),
        advice="Nothing is left for the KV cache beside the weights and what a step takes: raise "
        "gpu_memory_utilization, lower max_num_batched_tokens or max_num_seqs, or use more GPUs or a quantised model.",
    ),
    Signature(
        "gpu_out_of_memory",
        OUT_OF_MEMORY,
        needs=(WHILE_STARTING,),
        when=_own_memory,
        advice="The weights fit, but not what a step takes beside them: lower max_num_seqs and "
        "max_num_batched_tokens, or gpu_memory_utilization (it leaves more for the steps and graphs), or try "
        "--enforce-eager.",
    ),
    Signature(
        "gpu_out_of_memory",
        OUT_OF_MEMORY,
        needs=(WHILE_LOADING,),
        when=_own_memory,
        advice="The weights do not fit the GPU: more GPUs (tensor or pipeline parallelism), a quantised model, or a "
        "smaller one. gpu_memory_utilization does not change that.",
    ),
    Signature("gpu_out_of_memory", OUT_OF_MEMORY, when=_own_memory),
    Signature(
        "host_ram_oom",
        (
            r"[1-9]\d* Workers \(tasks / actors\) killed due to memory pressure",
            r"was killed due to the node running low on memory",
            r"exceeds the memory usage threshold of",
            r"Worker exit type: NODE_OUT_OF_MEMORY",
            r"Out of memory: Kill(?:ed)? process",
            r"Memory cgroup out of memory",
            r"oom-kill:constraint=",
            r"\"?OOMKilled\"?: ?true",
            r"Reason: OOMKilled",
        ),
    ),
    Signature(
        "host_ram_oom",
        (
            r"DefaultCPUAllocator: (?:can't allocate|not enough) memory",
            r"\[Errno 12\] Cannot allocate memory",
            r"Too large swap space\. .{0,20}out of the .{0,20}total CPU memory",
        ),
    ),
    Signature(
        "host_ram_oom",
        (
            r"Failed core proc\(s\): \{'[\w-]+': -9",
            r"died, exit code: -9",
            r"exited with code 137",
            r"\(exit(?:ed)? ?(?:code|status)?:? ?137\)",
        ),
        MEDIUM,
        checks=(
            "journalctl --dmesg --since -2h | grep -iE 'oom|killed process'",
            "docker inspect --format '{{.State.OOMKilled}}' CONTAINER",
        ),
        advice="A process was killed by SIGKILL: most often by the kernel for want of memory, else by docker stop or "
        "by hand. The kernel log decides.",
    ),
    Signature(
        "disk_full",
        (r"No space left on device", r"Disk quota exceeded"),
        unless=(r"(?:/dev/shm)|posix_fallocate|/psm_|</torch_",),
    ),
    Signature(
        "slow_model_storage",
        (r"nfs: server .{1,80}not responding", r"Stale file handle", r"\[Errno 116\]"),
        advice="The network file system with the model does not answer: look at its server and the network to it, and "
        "mount again.",
        next_command="findmnt --types nfs,nfs4,ceph; journalctl --dmesg --since -1h | grep -iE 'nfs|ceph|lustre'",
    ),
    Signature("slow_model_storage", (GAVE_UP,), when=_long_load),
    Signature(
        "slow_model_storage",
        (r"Loading (?:\w+ )?checkpoint shards:", r"(?:Loading (?:model )?weights|Model loading) took"),
        MEDIUM,
        when=_slow_load,
        checks=("findmnt --target MODEL_PATH", "dd if=MODEL_FILE of=/dev/null bs=16M iflag=direct count=64", "free -g"),
    ),
    Signature(
        "slow_model_storage",
        (GAVE_UP,),
        LOW,
        checks=(
            "docker logs CONTAINER 2>&1 | grep -E 'checkpoint shards|weights took|Capturing|compile'",
            "df -h MODEL_PATH",
        ),
        advice="The engine was not ready in time: the weights load slowly, kernels are compiled for the first time, or "
        "a rank on another node did not come. VLLM_ENGINE_READY_TIMEOUT_S gives it more time.",
        last_resort=True,
    ),
)

FAMILY = Family("memory", KINDS, SIGNATURES)
