#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: bundle_info
short_description: Verify an offline bundle, and compare it with what an environment needs
version_added: 0.1.0
description:
  - Compares every file of a bundle's folder with C(manifest.json), and that with C(SHA256SUMS), on the machine that has
    the folder. Tells what is missing, too much, truncated or altered, and which wheels do not fit their target.
  - With O(placement) it also tells what that environment needs of the bundle, and whether it is there.
  - A bundle that is not as it should be is what this module is there to tell, so it does not fail. Assert RV(valid).
  - Whoever can alter a file, the manifest and C(SHA256SUMS) together is not found out this way. Compare
    RV(manifest_sha256) with the one that was told when the bundle was made.
author:
  - The Tandem contributors (@tandem)
options:
  path:
    description: The folder of the bundle.
    type: path
    required: true
  quick:
    description:
      - Compare names and sizes, and the content of what is small (wheels, packages, manifests of models) only. Files
        whose content was not compared are in RV(not_checked), and RV(valid) is false.
    type: bool
    default: false
  placement:
    description: The placement of an environment, as M(tandem.vllm.placement) returns it; tells RV(needs).
    type: dict
  image:
    description: The environment's image, as its contract names it.
    type: str
  ray:
    description: The Ray that nodes get from the bundle's wheels; without it none is looked for.
    type: dict
    suboptions:
      version:
        description: Its exact version.
        type: str
        required: true
      extras:
        description: Its extras.
        type: list
        elements: str
        default: []
  gateways:
    description: The hosts that get nginx's packages from the bundle.
    type: list
    elements: str
    default: []
  controller:
    description: Whether the control node is to be set up from the bundle.
    type: bool
    default: true
  files:
    description: Used between the parts of this action; leave it alone.
    type: list
    elements: str
  hashes:
    description: Used between the parts of this action; leave it alone.
    type: dict
extends_documentation_fragment:
  - tandem.vllm.reads_only
"""

EXAMPLES = r"""
- name: Verify the bundle
  tandem.vllm.bundle_info:
    path: /srv/bundles/two-node-a100
    placement: "{{ contract_placement }}"
    image: "{{ tandem_image.ref }}"
    ray: {version: 2.60.0, extras: [default]}
  register: bundle

- name: Nothing is wrong with it
  ansible.builtin.assert:
    that: bundle.valid
"""

RETURN = r"""
valid:
  description: Whether all of the bundle was compared, and nothing is wrong. It says nothing of RV(needs).
  returned: always
  type: bool
problems:
  description: What is wrong, by path.
  returned: always
  type: list
  elements: dict
  contains:
    path:
      description: The file, relative to the folder.
      type: str
    reason:
      description: What is wrong with it.
      type: str
    remedy:
      description: What to do.
      type: str
not_checked:
  description: Files that are there, as big as they should be, and whose content was not compared.
  returned: always
  type: list
  elements: str
needs:
  description: What the placement needs of the bundle; empty without one, or when the manifest cannot be read.
  returned: always
  type: list
  elements: dict
  contains:
    what:
      description: The thing that is needed.
      type: str
    for:
      description: The hosts that need it.
      type: list
      elements: str
    state:
      description: V(there), V(missing) or V(other version).
      type: str
    detail:
      description: Where it is, or what is there instead.
      type: str
manifest:
  description: The manifest; null when it cannot be read.
  returned: always
  type: dict
model_manifests:
  description: The content of the models' own manifests, by their path in the bundle; empty where anything is wrong.
  returned: always
  type: dict
manifest_sha256:
  description: SHA-256 of C(manifest.json); null when it is not there.
  returned: always
  type: str
to_hash:
  description: The files whose content is to be compared and was not yet, each with C(path) and C(size).
  returned: always
  type: list
  elements: dict
hashes:
  description: Checksums by path.
  returned: when O(files) was given
  type: dict
hashed_mib:
  description: How much was read to take checksums, in MiB.
  returned: always
  type: float
seconds:
  description: How long that took.
  returned: always
  type: float
"""

import hashlib
import json
import time
from dataclasses import dataclass, field, replace
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils.bundle import compare, needs
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.compare import FileFacts
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.fields import path as checked_path
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.manifest import MANIFEST, SUMS, Manifest, ManifestError
from ansible_collections.tandem.vllm.plugins.module_utils.host.bundle_folder import BundleFolder
from ansible_collections.tandem.vllm.plugins.module_utils.placement import Placement

ARGUMENTS: dict[str, Any] = {
    "path": {"type": "path", "required": True},
    "quick": {"type": "bool", "default": False},
    "placement": {"type": "dict"},
    "image": {"type": "str"},
    "ray": {
        "type": "dict",
        "options": {
            "version": {"type": "str", "required": True},
            "extras": {"type": "list", "elements": "str", "default": []},
        },
    },
    "gateways": {"type": "list", "elements": "str", "default": []},
    "controller": {"type": "bool", "default": True},
    # For the action plugin of the same name, which has large bundles hashed in pieces.
    "files": {"type": "list", "elements": "str"},
    "hashes": {"type": "dict"},
}
NOT_MADE = "Name the folder that playbooks/bundle.yml wrote; it holds manifest.json"


@dataclass
class Seen:
    """What was found out of a bundle. sums: text of SHA256SUMS; manifest_bytes: of manifest.json."""

    manifest: Manifest | None = None
    manifest_bytes: bytes | None = None
    sums: str | None = None
    found: dict[str, FileFacts] = field(default_factory=dict)
    problems: list[dict[str, str]] = field(default_factory=list)

    def problem(self, path: str, reason: str, remedy: str) -> None:
        """Note what is wrong."""
        self.problems.append({"path": path, "reason": reason, "remedy": remedy})


def content(folder: BundleFolder, seen: Seen, name: str) -> bytes | None:
    """The content of manifest.json or SHA256SUMS; None where it is not there or, with a problem noted, not readable."""
    fault = seen.found[name].fault if name in seen.found else None
    if name not in seen.found:
        return None
    if not fault:
        try:
            return folder.text(name)
        except OSError as error:
            fault = f"cannot be read: {error.strerror}"
    seen.problem(name, fault, NOT_MADE)
    return None


def read(folder: BundleFolder) -> Seen:
    """Everything but the content of large files."""
    seen = Seen()
    found = folder.look()
    if found is None:
        seen.problem(".", f"there is no folder {folder.path}", NOT_MADE)
        return seen
    seen.found = found
    sums = content(folder, seen, SUMS)
    seen.sums = None if sums is None else sums.decode(errors="replace")
    seen.manifest_bytes = content(folder, seen, MANIFEST)
    if seen.manifest_bytes is not None:
        digest = hashlib.sha256(seen.manifest_bytes).hexdigest()
        seen.found[MANIFEST] = replace(seen.found[MANIFEST], sha256=digest)
        try:
            seen.manifest = Manifest.from_json(seen.manifest_bytes.decode())
        except (ManifestError, UnicodeDecodeError) as error:
            seen.problem(MANIFEST, f"cannot be read: {error}", compare.MAKE_AGAIN)
    elif MANIFEST not in seen.found:
        seen.problem(MANIFEST, "is missing", NOT_MADE)
    return seen


def apply_hashes(folder: BundleFolder, seen: Seen, hashes: dict[str, Any]) -> None:
    """Take over checksums that were taken before, of files that were not written to since."""
    for name, told in hashes.items():
        facts = seen.found.get(name)
        if facts is not None and not facts.fault and ("fault" in told or told["mtime_ns"] == folder.mtime_ns(name)):
            seen.found[name] = replace(facts, sha256=told.get("sha256"), fault=told.get("fault"))


def judge(seen: Seen) -> None:
    """Add everything that is not as the manifest says to the problems."""
    if seen.manifest is None:
        if seen.manifest_bytes is not None:
            # Whether somebody altered it is worth knowing even then.
            seen.problems += compare.sums_findings(None, seen.sums, seen.found.get(MANIFEST))
        return
    seen.problems += compare.compare(seen.manifest, seen.sums, seen.found)
    seen.problems += compare.wheelhouse_findings(seen.manifest, seen.found)


def model_manifests(folder: BundleFolder, seen: Seen) -> dict[str, Any]:
    """The models' manifests by their path in the bundle, where nothing is wrong with what was looked at."""
    if seen.manifest is None or seen.problems:
        return {}
    return {model.manifest: json.loads(folder.text(model.manifest)) for model in seen.manifest.models}


def needed(module: AnsibleModule, manifest: Manifest | None) -> list[dict[str, Any]]:
    """What the placement needs, when one is given."""
    params = module.params
    if params["placement"] is None:
        return []
    try:
        placement = Placement.from_dict(params["placement"])
    except (KeyError, TypeError, ValueError) as error:
        module.fail_json(msg=f"placement: it is none that tandem.vllm.placement returned ({error!r})")
    if manifest is None:
        return []
    return needs.needs(
        manifest, placement, params["image"], params["ray"], params["gateways"], controller=params["controller"]
    )


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    began = time.monotonic()
    folder = BundleFolder(params["path"])

    def cost() -> dict[str, float]:
        return {"hashed_mib": round(folder.hashed_bytes / 2**20, 1), "seconds": round(time.monotonic() - began, 1)}

    if params["files"] is not None:
        try:
            names = [checked_path("files", name) for name in params["files"]]
        except ManifestError as error:
            module.fail_json(msg=str(error))
        module.exit_json(changed=False, hashes={name: folder.hashed(name) for name in names}, **cost())
    seen = read(folder)
    apply_hashes(folder, seen, params["hashes"] or {})
    to_hash = []
    if seen.manifest is not None:
        worth = compare.worth_hashing(seen.manifest, seen.found)
        to_hash = [file for file in worth if seen.found[file.path].sha256 is None]
        now = [file for file in to_hash if not params["quick"] or file.kind in compare.QUICK_KINDS]
        apply_hashes(folder, seen, {file.path: folder.hashed(file.path) for file in now})
        to_hash = [file for file in to_hash if file not in now]
    judge(seen)
    not_checked = compare.unchecked(seen.manifest, seen.found) if seen.manifest else []
    module.exit_json(
        changed=False,
        valid=not seen.problems and not not_checked,
        problems=seen.problems,
        not_checked=not_checked,
        needs=needed(module, seen.manifest),
        manifest=seen.manifest.to_dict() if seen.manifest else None,
        model_manifests=model_manifests(folder, seen),
        manifest_sha256=seen.found[MANIFEST].sha256 if MANIFEST in seen.found else None,
        to_hash=[{"path": file.path, "size": file.size} for file in to_hash],
        **cost(),
    )


if __name__ == "__main__":
    main()
