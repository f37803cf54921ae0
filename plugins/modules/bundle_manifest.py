#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: bundle_manifest
short_description: Write down what an offline bundle holds
version_added: 0.1.0
description:
  - Reads every file of a bundle's folder, takes its SHA-256, and writes C(manifest.json) and C(SHA256SUMS), which
    C(sha256sum -c) can check. Each is written aside and gets its name when it is whole.
  - A bundle that holds the same as its manifest says already is left as it is, with the date that it has.
author:
  - The Tandem contributors (@tandem)
options:
  path:
    description: The folder of the bundle.
    type: path
    required: true
  environment:
    description: The environment that it was made for.
    type: str
    required: true
  made_with:
    description: Versions of what made it, C(tandem), C(python) and C(pip).
    type: dict
    required: true
  images:
    description: The image archives, as the manifest has them.
    type: list
    elements: dict
    default: []
  wheelhouses:
    description: The wheels for each target, as the manifest has them.
    type: list
    elements: dict
    default: []
  models:
    description: The models, as the manifest has them.
    type: list
    elements: dict
    default: []
  hosts:
    description: The hosts that need it, C(nodes) and C(gateways).
    type: dict
    required: true
attributes:
  check_mode:
    support: full
    description: Says whether the manifest would change.
  diff_mode:
    support: none
    description: A manifest lists hundreds of files.
  idempotent:
    support: full
    description: The same folder gives the same manifest.
"""

EXAMPLES = r"""
- name: Write the manifest and the checksums
  tandem.vllm.bundle_manifest:
    path: /srv/tandem/bundle
    environment: mysite
    made_with: {tandem: 0.1.0, python: 3.11.2, pip: "25.3"}
    hosts: {nodes: [node-a, node-b], gateways: [gateway]}
"""

RETURN = r"""
manifest:
  description: What C(manifest.json) holds.
  returned: success
  type: dict
mib:
  description: Size of all files, in MiB.
  returned: success
  type: int
"""

import os
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.build import build, same_but_date
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.manifest import (
    MANIFEST,
    SUMS,
    Manifest,
    ManifestError,
    sha256sums,
)
from ansible_collections.tandem.vllm.plugins.module_utils.host.bundle_folder import BundleFolder

ARGUMENTS: dict[str, Any] = {
    "path": {"type": "path", "required": True},
    "environment": {"type": "str", "required": True},
    "made_with": {"type": "dict", "required": True},
    "images": {"type": "list", "elements": "dict", "default": []},
    "wheelhouses": {"type": "list", "elements": "dict", "default": []},
    "models": {"type": "list", "elements": "dict", "default": []},
    "hosts": {"type": "dict", "required": True},
}
STATED = ("environment", "made_with", "images", "wheelhouses", "models")


def read(folder: BundleFolder) -> dict[str, tuple[int, str]]:
    """Path -> (bytes, SHA-256) of every file but the two that tell of them; raises ManifestError."""
    found: dict[str, tuple[int, str]] = {}
    for path, facts in sorted((folder.look() or {}).items()):
        if path in (MANIFEST, SUMS):
            continue
        told = {"fault": facts.fault} if facts.fault else folder.hashed(path)
        if told.get("fault"):
            raise ManifestError("{}: {}".format(path, told["fault"]))
        found[path] = (facts.size, told["sha256"])
    return found


def present(folder: BundleFolder) -> Manifest | None:
    """The manifest that is there, when its checksums are there too; None when there is none that counts."""
    try:
        text = folder.text(MANIFEST).decode()
        manifest = Manifest.from_json(text)
        fits = text == manifest.to_json() and folder.text(SUMS).decode() == sha256sums(manifest)
    except (OSError, ValueError, ManifestError):  # it is written anew
        return None
    return manifest if fits else None


def write(module: AnsibleModule, path: str, text: str) -> None:
    """Put a text in place when it is whole."""
    with open(path + ".part", "w", encoding="utf-8") as stream:
        stream.write(text)
    module.atomic_move(path + ".part", path)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    folder = BundleFolder(params["path"])
    stated = {name: params[name] for name in STATED}
    try:
        files = read(folder)
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        manifest = build({**stated, "created": created}, files, params["hosts"])
    except (ManifestError, KeyError) as error:
        module.fail_json(msg="No manifest was written in {}: {}".format(params["path"], error))
    before = present(folder)
    changed = before is None or not same_but_date(before, manifest)
    if before is not None and not changed:
        manifest = before
    if changed and not module.check_mode:
        # Between the two a reader finds the checksums of another manifest: altered, never whole.
        write(module, os.path.join(params["path"], SUMS), sha256sums(manifest))
        write(module, os.path.join(params["path"], MANIFEST), manifest.to_json())
    module.exit_json(
        changed=changed, manifest=manifest.to_dict(), mib=sum(size for size, _sum in files.values()) // 2**20
    )


if __name__ == "__main__":
    main()
