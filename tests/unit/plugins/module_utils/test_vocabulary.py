# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils import vocabulary
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.model_manifest import MATTERS, SHA256, is_ignored

GPT_OSS = {"model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"]}
O200K = "vocabulary/o200k_base.tiktoken"
SHA = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"


def test_what_gpt_oss_needs() -> None:
    (need,) = vocabulary.needs(GPT_OSS)
    assert (need["variable"], need["folder"]) == ("TIKTOKEN_ENCODINGS_BASE", "vocabulary")
    assert [(file["name"], file["sha256"]) for file in need["files"]] == [("o200k_base.tiktoken", SHA)]
    assert all(SHA256.fullmatch(file["sha256"]) and file["url"].endswith(file["name"]) for file in need["files"])


@pytest.mark.parametrize("config", [{"model_type": "qwen2"}, {"model_type": None}, {}, None, [], "no such directory"])
def test_other_models_need_nothing(config: Any) -> None:
    assert (vocabulary.needs(config), vocabulary.family(config), vocabulary.lacking(config, {})) == ([], None, [])


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ({O200K: SHA}, []),
        ({}, [f"{O200K} is not there"]),
        ({"o200k_base.tiktoken": SHA}, [f"{O200K} is not there"]),
        ({O200K: "0" * 64}, [f"{O200K} is another file than the one with the SHA-256 {SHA}"]),
        ({O200K: "Permission denied"}, [f"{O200K} is another file than the one with the SHA-256 {SHA}"]),
    ],
)
def test_what_it_lacks(held: dict[str, str], said: list[str]) -> None:
    assert vocabulary.lacking(GPT_OSS, held) == said
    # The container is sent there only when everything is there.
    wanted = {} if said else {"TIKTOKEN_ENCODINGS_BASE": "/models/x/vocabulary"}
    assert vocabulary.environment("/models/x/", held) == wanted


def test_the_files_are_part_of_a_manifest() -> None:
    assert vocabulary.known_paths() == [O200K]
    assert all(MATTERS.search(path) and not is_ignored(path) for path in vocabulary.known_paths())


@pytest.mark.parametrize("wanted", vocabulary.FAMILIES.values(), ids=list(vocabulary.FAMILIES))
def test_probes_are_python(wanted: vocabulary.Vocabulary) -> None:
    compile(wanted.probe, "probe", "exec")
