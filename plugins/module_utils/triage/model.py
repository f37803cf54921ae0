# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures of the model: where it is looked for, its files, and what vLLM or the GPU cannot do with it.

Spellings are those of vLLM from 0.2 on, transformers, huggingface_hub, safetensors and PyTorch. Texts are in
tests/fixtures/triage/model, a file for each failure; a test holds that every phrase has one.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.triage.signature import (
    MEDIUM,
    Case,
    Family,
    Kind,
    Signature,
)

GATED = (
    r"(?:Cannot access|trying to access a) gated repo",
    r"GatedRepoError",
    r"Access to model .{1,120} is restricted",
    r"You must (?:be authenticated|have access to it and be authenticated) to access it",
    r"is not a local folder and is not a valid model identifier",
    r"Repository Not Found for url",
    r"HTTPError: 40[13] Client Error.{0,60}huggingface\.co",
)
# Signs that the hub is not meant to be asked: the files are local, or there is no way out.
OFFLINE = (
    r"--download[-_]dir|HF_HUB_OFFLINE|TRANSFORMERS_OFFLINE|/snapshots/|air-?gap|no internet|offline"
    r"|Name or service not known|name resolution|Failed to resolve|LocalEntryNotFound"
)
NO_HUB = (
    r"We couldn't connect to '?https://huggingface\.co",
    r"Cannot reach https://huggingface\.co\S* offline mode is enabled",
    r"OfflineModeIsEnabled",
    r"LocalEntryNotFoundError",
    r"(?:Failed to resolve|host=)'huggingface\.co'.{0,300}"
    r"(?:Max retries|Failed to resolve|NewConnectionError|ProxyError)",
    r"Cannot find an appropriate cached snapshot folder",
)
NO_VOCABULARY = (
    r"failed to download or load vocab file",
    r"openaipublic\.blob\.core\.windows\.net.{0,200}(?:Max retries|Failed to resolve|NewConnectionError)",
)
STARTED = r"Application startup complete"


def _hub_facts(case: Case) -> dict[str, Any]:
    """model: as it was asked for."""
    return {
        "model": case.text.fact(r"https://huggingface\.co/(?:api/models/)?([\w.-]+/[\w.-]*\w)")
        or case.text.fact(r"Access to model ([\w./-]+) is restricted")
        or case.text.fact(r"it looks like ([\w./-]+) is not the path"),
    }


def _path_facts(case: Case) -> dict[str, Any]:
    return {
        "path": case.text.fact(
            r"(?:specified: |namespace/repo_name': |model weights with |configuration of )'?(/[^\s'\"]+?)['.]* "
        ),
    }


def _length_facts(case: Case) -> dict[str, Any]:
    asked = case.text.fact(r"max_model_len \((\d+)\) is greater")
    derived = case.text.fact(r"derived max_model_len \([^)]*?=(\d+)")
    return {
        "max_model_len": int(asked) if asked else None,
        "derived_max_model_len": int(derived) if derived else None,
    }


def _architecture_facts(case: Case) -> dict[str, Any]:
    return {
        "architecture": case.text.fact(r"Model architectures \['([\w-]+)'")
        or case.text.fact(r"has model type '([\w.-]+)' but Transformers"),
    }


def _gpu_facts(case: Case) -> dict[str, Any]:
    return {
        "gpu": case.text.fact(r"Your (.{3,60}?) GPU has compute capability")
        or case.text.fact(r"((?:NVIDIA|Tesla) [\w -]{2,40}?) with CUDA capability"),
        "capability": case.text.fact(r"GPU has compute capability (\d+\.\d)")
        or case.text.fact(r"with CUDA capability (sm_\d+)")
        or case.text.fact(r"Current capability: (\d+)"),
        "needed": case.text.fact(r"compute capability of at least (\d+\.\d)")
        or case.text.fact(r"Minimum capability: (\d+)"),
    }


def _division_facts(case: Case) -> dict[str, Any]:
    match = case.text.search(
        r"Total number of attention heads \((\d+)\) must be divisible by tensor parallel size \((\d+)\)"
    )
    return {"heads": int(match.group(1)), "tensor_parallel": int(match.group(2))} if match else {}


KINDS = (
    Kind(
        "hf_auth_missing",
        "The model is gated or private on Hugging Face, and the container has no token that may read it: accept the "
        "model's terms, and give the token as HF_TOKEN in the container. On machines without internet, copy the files "
        "and serve their path instead.",
        "docker inspect --format '{{range .Config.Env}}{{println .}}{{end}}' CONTAINER | grep -c HF_TOKEN",
        facts=_hub_facts,
    ),
    Kind(
        "hub_lookup_while_offline",
        "The engine asks Hugging Face although the files should be local: serve the path of the directory (of the "
        "snapshot, within a cache), with HF_HUB_OFFLINE=1 in the container. A token is the wrong remedy on a machine "
        "without internet.",
        "docker exec CONTAINER sh -c 'env | grep -E \"HF_|TRANSFORMERS\"; ls MODEL_PATH'",
        facts=_hub_facts,
    ),
    Kind(
        "model_path_missing",
        "The model's directory is not there, as the container sees it: correct the path or the mount (same path on "
        "every node). A path that does not exist is taken for a name on Hugging Face.",
        "docker exec CONTAINER ls -l MODEL_PATH; docker inspect --format '{{json .Mounts}}' CONTAINER",
        facts=_path_facts,
    ),
    Kind(
        "model_files_damaged",
        "A file of the model is not whole (a copy that was cut off, a pointer of Git LFS in its place): compare the "
        "files with the manifest, and copy them again.",
        "ls -l MODEL_PATH; head -c 120 MODEL_PATH/*.safetensors | strings | head; sha256sum MODEL_PATH/*",
        because_of=("disk_full", "slow_model_storage"),
    ),
    Kind(
        "model_architecture_unsupported",
        "This vLLM (or its transformers) does not know the model's architecture: use a newer image, or another model.",
        "grep -A 3 architectures MODEL_PATH/config.json; docker run --rm --entrypoint python3 IMAGE -c 'import vllm, "
        "transformers; print(vllm.__version__, transformers.__version__)'",
        facts=_architecture_facts,
    ),
    Kind(
        "model_code_not_trusted",
        "The model brings its own Python code: read it, and allow it with --trust-remote-code, or use a model that "
        "vLLM knows by itself.",
        "grep -A 8 auto_map MODEL_PATH/config.json; ls MODEL_PATH/*.py",
    ),
    Kind(
        "tokenizer_missing",
        "The tokenizer cannot be loaded: its files are missing beside the model, need another package, or are of a "
        "newer version of tokenizers. Copy all files of the model, or name the tokenizer with --tokenizer.",
        "ls -l MODEL_PATH | grep -iE 'token|vocab|merges|spiece|tekken'",
        because_of=("hub_lookup_while_offline", "hf_auth_missing", "model_path_missing"),
    ),
    Kind(
        "chat_template_missing",
        "The model has no chat template: give one with --chat-template, or ask it by /v1/completions.",
        "grep -c chat_template MODEL_PATH/tokenizer_config.json; ls MODEL_PATH/chat_template*",
    ),
    Kind(
        "max_model_len_too_long",
        "max_model_len is longer than the model was made for: lower it, or configure the model's rope scaling.",
        "grep -E 'max_position_embeddings|rope_scaling|sliding_window|model_max_length' MODEL_PATH/*.json",
        facts=_length_facts,
    ),
    Kind(
        "tensor_parallel_does_not_divide",
        "The model's heads or layers do not divide by the size of the parallelism: choose a size that divides them, "
        "or use pipeline parallelism for the rest.",
        "grep -E 'num_attention_heads|num_key_value_heads|intermediate_size|num_hidden_layers' MODEL_PATH/config.json",
        facts=_division_facts,
    ),
    Kind(
        "gpu_architecture_unsupported",
        "The GPU is too old for what is asked of it, or too new for the image: use --dtype half, another quantisation "
        "or attention backend for an old GPU; an image with a newer CUDA for a new one.",
        "nvidia-smi --query-gpu=name,compute_cap --format=csv; docker run --rm --entrypoint python3 IMAGE -c 'import "
        "torch; print(torch.version.cuda, torch.cuda.get_arch_list())'",
        facts=_gpu_facts,
    ),
)

SIGNATURES = (
    Signature(
        "hf_auth_missing",
        GATED,
        unless=(OFFLINE,),
    ),
    Signature(
        "hub_lookup_while_offline",
        GATED,
        needs=(OFFLINE,),
    ),
    Signature("hub_lookup_while_offline", NO_HUB, unless=(STARTED,)),
    Signature(
        "hub_lookup_while_offline",
        NO_VOCABULARY,
        unless=(STARTED,),
        advice="The model's vocabulary (tiktoken's) is fetched from the internet when the engine starts: put the file "
        "into the image or a mount, and set TIKTOKEN_ENCODINGS_BASE (harmony) or TIKTOKEN_CACHE_DIR to it.",
        next_command="docker exec CONTAINER sh -c 'env | grep TIKTOKEN; ls $TIKTOKEN_ENCODINGS_BASE'",
    ),
    Signature(
        "hub_lookup_while_offline",
        (
            r"thrown while requesting (?:HEAD|GET) https://huggingface\.co",
            r"(?:Failed to resolve|host=)'?(?:www\.)?modelscope\.cn",
        ),
        MEDIUM,
        unless=(STARTED,),
        checks=(
            "docker exec CONTAINER env | grep -E 'HF_|TRANSFORMERS|MODELSCOPE'",
            "docker exec CONTAINER ls MODEL_PATH",
        ),
    ),
    Signature(
        "model_path_missing",
        (
            r"Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/",
            r"Invalid repository ID or local directory specified",
            r"load it from 'https://huggingface\.co/models', make sure you don't have a local directory",
            r"Cannot find any model weights with",
            r"does not appear to have a file named config\.json",
        ),
        unless=(r"couldn't connect to", r"Can't load tokenizer for"),
    ),
    Signature(
        "model_files_damaged",
        (
            r"Error while deserializing header",
            r"SafetensorError: ",
            r"PytorchStreamReader failed",
            r"version https://git-lfs\.github\.com/spec",
            r"invalid load key, '[v<]'",
        ),
    ),
    Signature(
        "model_architecture_unsupported",
        (
            r"Model architectures \[.{1,90}are not supported for now",
            r"but Transformers does not recognize this architecture",
            r"has no vLLM implementation and the Transformers implementation is not compatible",
        ),
    ),
    Signature(
        "model_code_not_trusted",
        (
            r"requires you to execute the (?:configuration|modeling|tokenizer) file in that repo",
            r"contains custom code which must be executed to correctly load",
            r"trust_remote_code=True' (?:to remove this error|in LLM)",
        ),
    ),
    Signature(
        "tokenizer_missing",
        (
            r"Can't load tokenizer for",
            r"Couldn't instantiate the backend tokenizer",
            r"data did not match any variant of untagged enum \w+",
            r"Tokenizer class \w+ does not exist or is not currently imported",
        ),
    ),
    Signature(
        "chat_template_missing",
        (
            r"default chat template is no longer allowed",
            r"tokenizer\.chat_template is not set and no template argument was passed",
        ),
    ),
    Signature(
        "max_model_len_too_long", (r"User-specified max_model_len .{0,20}is greater than the derived max_model_len",)
    ),
    Signature(
        "tensor_parallel_does_not_divide",
        (
            r"must be divisible by (?:the )?tensor_?parallel_?size",
            r"AssertionError: \d+ is not divisible by \d+",
            r"(?:input|output)_size_per_partition ?= ?\d+ is not divisible by",
        ),
    ),
    Signature(
        "gpu_architecture_unsupported",
        (
            r"no kernel image is available for execution on the device",
            r"with CUDA capability sm_\d+ is not compatible with the current PyTorch",
            r"only supported on GPUs with compute capability of at least",
            r"is not supported for the current GPU\. Minimum capability",
            r"only supports Ampere GPUs or newer",
            r"ptxas fatal ?: ?Value 'sm_\w+' is not defined",
        ),
    ),
)

FAMILY = Family("model", KINDS, SIGNATURES)
