# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The manifest of a folder that was just filled: what each file is, and which host needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.bundle.manifest import SCHEMA, Manifest, ManifestError

# How the path of a file begins and ends -> its kind; the first that fits.
_KINDS = (
    ("wheels/", ".whl", "wheel"),
    ("wheels/", "", "requirements"),
    ("images/", "", "image"),
    ("controller/", "", "controller"),
    ("packages/", "", "package"),
)


def kind_of(path: str, model_manifests: Sequence[str]) -> str | None:
    """The kind of a file by its place in the bundle; None for one that has no place there."""
    if path in model_manifests:
        return "model_manifest"
    if path.startswith("models/") and path.count("/") > 1:
        return "model"
    return next((kind for start, end, kind in _KINDS if path.startswith(start) and path.endswith(end)), None)


def build(
    stated: Mapping[str, Any], files: Mapping[str, tuple[int, str]], hosts: Mapping[str, Sequence[str]]
) -> Manifest:
    """The manifest of a folder; raises ManifestError.

    stated: the manifest's other keys, as it has them: environment, created, made_with, images, wheelhouses, models.
    files: path -> (bytes, SHA-256). hosts: `nodes` and `gateways`, names of the inventory.
    """
    manifests = [model["manifest"] for model in stated["models"]]
    kinds = {path: kind_of(path, manifests) for path in files}
    foreign = sorted(path for path, kind in kinds.items() if kind is None)
    if foreign:
        raise ManifestError(f"{', '.join(foreign)}: no part of a bundle; move what is not Tandem's out of the folder")
    for_nodes = sorted(p for p, kind in kinds.items() if kind not in ("controller", "package"))
    for_gateways = sorted(p for p, kind in kinds.items() if kind == "package")
    needs = {
        host: (for_nodes if host in hosts["nodes"] else []) + (for_gateways if host in hosts["gateways"] else [])
        for host in [*hosts["nodes"], *hosts["gateways"]]
    }
    entries = [
        {"path": path, "size": size, "sha256": sha256, "kind": kinds[path]}
        for path, (size, sha256) in sorted(files.items())
    ]
    return Manifest.from_dict({"schema": SCHEMA, **stated, "files": entries, "needs": needs})


def same_but_date(one: Manifest, other: Manifest) -> bool:
    """Whether two manifests tell of the same bundle, whenever and with whatever it was made."""
    ignored = ("created", "made_with")
    return all(value == other.to_dict()[key] for key, value in one.to_dict().items() if key not in ignored)
