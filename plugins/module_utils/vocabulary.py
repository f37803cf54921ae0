# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Vocabulary files that vLLM would fetch from the internet for a model, and how its container is given them instead.

They lie in the model's own directory, in the folder `vocabulary`: so its manifest, verification and mount cover them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Below the model's directory. Not beside the tokenizer: there a loader might take the file for one.
FOLDER = "vocabulary"
URL = "https://openaipublic.blob.core.windows.net/encodings/"


@dataclass(frozen=True)
class Vocabulary:
    """What the models of a family need. variable: the environment variable that names the folder to take it from.

    files: name -> SHA-256. probe: Python that loads the vocabulary the way vLLM does, and fails where it cannot.
    """

    variable: str
    files: Mapping[str, str]
    probe: str


# By `model_type` of config.json. For gpt_oss vLLM uses openai_harmony, whose encoding HARMONY_GPT_OSS is made from
# o200k_base alone (src/registry.rs; the hash is from src/tiktoken_ext/public_encodings.rs). It reads the variable first
# and asks the internet otherwise (openai/harmony#101, vllm#22525). openai-harmony 0.0.2 to 0.0.8 and oss-harmony up to
# 0.0.10 fetch; oss-harmony 0.0.11 has the vocabulary built in, and still takes it from the folder.
FAMILIES: Mapping[str, Vocabulary] = {
    "gpt_oss": Vocabulary(
        variable="TIKTOKEN_ENCODINGS_BASE",
        files={"o200k_base.tiktoken": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"},
        probe=(
            "from openai_harmony import HarmonyEncodingName, load_harmony_encoding; "
            "load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)"
        ),
    ),
}


def family(config: Any) -> Vocabulary | None:
    """What a model of this parsed config.json needs; None where it needs nothing, or where it is no config."""
    return FAMILIES.get(str(config.get("model_type"))) if isinstance(config, Mapping) else None


def known_paths() -> list[str]:
    """Where vocabulary files of any family lie, below the model's directory."""
    return sorted({f"{FOLDER}/{name}" for vocabulary in FAMILIES.values() for name in vocabulary.files})


def needs(config: Any) -> list[dict[str, Any]]:
    """What a model of this config.json would fetch at start-up, and how it is given instead.

    Each {variable: name of the environment variable; folder: below the model's directory; files: what it must hold,
    each {name, sha256, url}}.
    """
    wanted = family(config)
    if wanted is None:
        return []
    files = [{"name": name, "sha256": sha256, "url": URL + name} for name, sha256 in wanted.files.items()]
    return [{"variable": wanted.variable, "folder": FOLDER, "files": files}]


def lacking(config: Any, held: Mapping[str, str]) -> list[str]:
    """What a model lacks of its vocabulary, in words.

    held: path below its directory -> SHA-256, or why it cannot be read.
    """
    wanted = family(config)
    said = []
    for name, sha256 in (wanted.files if wanted else {}).items():
        found = held.get(f"{FOLDER}/{name}")
        if found is None:
            said.append(f"{FOLDER}/{name} is not there")
        elif found != sha256:
            said.append(f"{FOLDER}/{name} is another file than the one with the SHA-256 {sha256}")
    return said


def environment(path: str, held: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of a container whose model directory, at `path`, holds these files (see `lacking`).

    By the files alone and not by config.json, which is not there yet where the model is still to be sent: the variable
    is there exactly where the folder has what is read from it. Other models have no such folder.
    """
    return {
        wanted.variable: f"{path.rstrip('/')}/{FOLDER}"
        for wanted in FAMILIES.values()
        if all(held.get(f"{FOLDER}/{name}") == sha256 for name, sha256 in wanted.files.items())
    }
