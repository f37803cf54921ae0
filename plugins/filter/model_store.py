# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with models on nodes, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.tandem.vllm.plugins.module_utils.bundle import model_manifest
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.model_manifest import (
    ModelManifest,
    ModelManifestError,
)
from ansible_collections.tandem.vllm.plugins.module_utils.placement import plain


def model_refusals(models: Sequence[Mapping[str, Any]], node: str, sendable: Sequence[str] = ()) -> list[str]:
    """models: each {path, problems, remaining}; sendable: paths of those whose files can be sent."""
    told = [(m["path"], m["remaining" if m["path"] in sendable else "problems"]) for m in plain(list(models))]
    return [model_manifest.refusal(str(node), path, problems) for path, problems in told if problems]


def model_no_room(models: Sequence[Mapping[str, Any]], node: str) -> list[str]:
    return model_manifest.no_room(str(node), plain(list(models)))


def model_lacking(models: Sequence[Mapping[str, Any]], sources: Sequence[Mapping[str, Any]], node: str) -> list[str]:
    """sources: one a model, in the same order."""
    told = [
        model_manifest.lacking(str(node), *pair) for pair in zip(plain(list(models)), plain(list(sources)), strict=True)
    ]
    return [reason for reason in told if reason]


def model_differences(nodes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """nodes: per node the manifests of its models, by path."""
    told = []
    try:
        held = {
            node: {path: ModelManifest.from_dict(manifest) for path, manifest in models.items()}
            for node, models in plain(nodes).items()
        }
    except ModelManifestError as error:
        raise AnsibleFilterError(f"model_differences wants manifests: {error}") from error
    for path in sorted({path for models in held.values() for path in models}):
        same = model_manifest.differences({node: models[path] for node, models in held.items() if path in models})
        told += [f"{path}/{line}" for line in same]
    return told


def model_store_facts(models: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """By path what a role may tell of a model: the manifest itself is long."""
    told = {}
    for model in plain(list(models)):
        manifest = model["manifest"] or {"files": [], "revision": None}
        told[model["path"]] = {
            "verified": model["verified"],
            "digest": model["digest"],
            "revision": manifest["revision"],
            "files": len(manifest["files"]),
            "size_mib": round(sum(file["size"] for file in manifest["files"]) / 2**20, 1),
            "needs": model["needs"],
        }
    return told


def model_manifest_problem(manifest: Any) -> str:
    try:
        ModelManifest.from_dict(plain(manifest))
    except ModelManifestError as error:
        return str(error)
    return ""


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "model_differences": model_differences,
            "model_lacking": model_lacking,
            "model_manifest_problem": model_manifest_problem,
            "model_no_room": model_no_room,
            "model_refusals": model_refusals,
            "model_store_facts": model_store_facts,
        }
