#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: model_manifest_info
short_description: Tell which files a model directory holds, and how they differ from a manifest
version_added: 0.1.0
description:
  - Lists a model directory with sizes and SHA-256, and compares it with a manifest where one is given. Without a
    manifest it still tells what no model can be without, such as a shard that the index names, C(config.json) or a
    tokenizer.
  - A file whose size and modification time are those of the host's record is not hashed again; its recorded hash is
    taken. The record is what an earlier run returned as RV(record), kept in RV(record_path). This module does not write
    it.
  - Hidden files, caches such as C(.cache/huggingface), C(*.lock), C(*.part) and C(*.incomplete) are no part of a model.
    With a manifest, a file that it does not name is a problem only where it can change what is loaded, that is weights,
    configuration, templates, vocabularies and code.
  - It never fails on what it finds; RV(problems) tells it.
  - A large model is hashed in pieces, and the console shows how far it is.
author:
  - The Tandem contributors (@tandem)
options:
  path:
    description: The model directory.
    type: str
    required: true
  revision:
    description: The model's revision, as it is to stand in the manifest.
    type: str
  manifest:
    description: The manifest to compare with, as an earlier run returned it.
    type: dict
  digest:
    description: The digest that the manifest must have, O(manifest) where it is given, else that of what is found.
    type: str
  record:
    description:
      - The file with the host's record of what was hashed.
      - When it is not given, it is V(/var/lib/tandem/models/<name>.json), with the directory's path as name and C(--)
        for C(/).
    type: str
  full:
    description: Hash every file, whatever the record says.
    type: bool
    default: false
  hash:
    description:
      - Whether to hash at all. Without it, files are compared by their sizes, and by hashes that are in the record.
    type: bool
    default: true
  hashes:
    description:
      - Files that were hashed just now, in the shape of RV(hashes). They are not hashed again, unless they were written
        to since.
    type: dict
    default: {}
  files:
    description: Only hash these and return RV(hashes); used between the parts of this action.
    type: list
    elements: str
extends_documentation_fragment:
  - tandem.vllm.reads_only
"""

EXAMPLES = r"""
- name: Make the manifest of a model
  tandem.vllm.model_manifest_info:
    path: /models/Qwen2.5-32B-Instruct
    revision: 5ede1c97bbab6ce5cda5812749b4c0bdf79b18dd
  register: model

- name: Compare another host's files with it
  tandem.vllm.model_manifest_info:
    path: /models/Qwen2.5-32B-Instruct
    manifest: "{{ model.manifest }}"
"""

RETURN = r"""
path:
  description: The directory.
  returned: always
  type: str
manifest:
  description: The manifest of what is there; null unless every file has a hash.
  returned: always
  type: dict
  contains:
    schema:
      description: Always V(1).
      type: int
    path:
      description: The directory.
      type: str
    revision:
      description: As given.
      type: str
    files:
      description: C(path) below the directory, C(size) in bytes and C(sha256) of each file.
      type: list
      elements: dict
digest:
  description:
    - What to pin a manifest by, C(sha256:…) of the files' paths, sizes and hashes. The directory's path and the
      revision have no part in it.
  returned: always
  type: str
problems:
  description: What is wrong; C(path) of the file (empty where it is the directory), C(kind), C(reason).
  returned: always
  type: list
  elements: dict
verified:
  description:
    - V(full) when every file was hashed now; V(quick) when recorded hashes were taken for some; V(none) when something
      is wrong or was not hashed.
  returned: always
  type: str
to_send:
  description:
    - Files of the manifest that are not there as they must be, with C(path), C(size) and C(sha256), and C(part), the
      bytes of them that were sent already.
  returned: always
  type: list
  elements: dict
remaining:
  description: What would still be wrong when RV(to_send) had been sent.
  returned: always
  type: list
  elements: dict
to_hash:
  description: Files without a hash, with C(path) and C(size).
  returned: always
  type: list
  elements: dict
hashes:
  description: Files that were hashed in this run, with C(size), C(mtime_ns) and C(sha256) or C(error) by their paths.
  returned: always
  type: dict
hashed_mib:
  description: How much was read, in MiB.
  returned: always
  type: float
seconds:
  description: How long that took.
  returned: always
  type: float
record:
  description: What to keep in RV(record_path), so that the next run can be quick.
  returned: always
  type: dict
recorded:
  description: Whether RV(record_path) holds RV(record) already.
  returned: always
  type: bool
record_path:
  description: The file for the record.
  returned: always
  type: str
disk:
  description:
    - Number of the device (C(device)) and free space (C(free_mib)) of the file system that the directory is on, or
      would be made on.
  returned: always
  type: dict
needs:
  description:
    - What the model would fetch from the internet at start-up. C(folder) is the folder of the model's directory that is
      to hold it instead, C(variable) the environment variable that leads there, C(files) what it must hold, with
      C(name), C(sha256) and C(url).
  returned: always
  type: list
  elements: dict
"""

import time
from dataclasses import asdict, replace
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils import vocabulary
from ansible_collections.tandem.vllm.plugins.module_utils.bundle import model_manifest
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.model_manifest import (
    Finding,
    Found,
    ModelManifest,
    ModelManifestError,
)
from ansible_collections.tandem.vllm.plugins.module_utils.host.model_files import ModelFiles, read_json

RECORDS = "/var/lib/tandem/models/"
MIB = 2**20

ARGUMENTS: dict[str, Any] = {
    "path": {"type": "str", "required": True},
    "revision": {"type": "str"},
    "manifest": {"type": "dict"},
    "digest": {"type": "str"},
    "record": {"type": "str"},
    "full": {"type": "bool", "default": False},
    "hash": {"type": "bool", "default": True},
    "hashes": {"type": "dict", "default": {}},
    "files": {"type": "list", "elements": "str"},
}


def hash_files(model: ModelFiles, names: list[str]) -> dict[str, Found]:
    """Hash these files."""
    return {name: model.hashed(name) for name in names}


def with_hashes(found: dict[str, Found], hashes: dict[str, dict[str, Any]]) -> dict[str, Found]:
    """What was found, with the hashes (or the error) of files that were not written to since."""
    known = {}
    for name, there in found.items():
        sha256 = model_manifest.known_hash(hashes, name, there.size, there.mtime_ns) or there.sha256
        known[name] = replace(there, sha256=sha256, error=there.error or (hashes.get(name) or {}).get("error"))
    return known


def of_hashes(hashed: dict[str, Found]) -> dict[str, dict[str, Any]]:
    """What is kept of files that were hashed."""
    return {
        name: {"size": there.size, "mtime_ns": there.mtime_ns, "sha256": there.sha256, "error": there.error}
        for name, there in hashed.items()
    }


def judge(params: dict[str, Any], model: ModelFiles, manifest: ModelManifest | None) -> dict[str, Any]:
    """Everything that is returned, but for time and bytes."""
    record_path = params["record"] or RECORDS + model_manifest.record_name(model.path)
    listed = model.look(manifest.by_path if manifest else ())
    found = with_hashes(listed or {}, params["hashes"])
    fresh = {name for name, there in found.items() if there.sha256 or there.error}
    kept = read_json(record_path)
    recorded = {} if params["full"] else model_manifest.from_record(model.path, kept)
    found = with_hashes(found, {name: facts for name, facts in recorded.items() if name not in fresh})
    to_hash = [name for name, there in found.items() if not (there.sha256 or there.link or there.error)]
    hashed: dict[str, Found] = {}
    if params["hash"]:
        hashed, to_hash = hash_files(model, to_hash), []
        found.update(hashed)
    made = model_manifest.make(model.path, params["revision"], found)
    shards = {name: model_manifest.shards_of(model.parsed(name)) for name in model_manifest.INDEXES if name in found}
    problems = remaining = [Finding("", "directory", "there is no such directory")]
    to_send = []
    pinned = model_manifest.check_digest(params["digest"], manifest or made)
    if listed is not None:
        problems = remaining = pinned + model_manifest.compare(manifest, found, shards)
    if manifest:
        to_send = model_manifest.to_send(manifest, found)
        remaining = pinned + model_manifest.remaining(manifest, found, shards)
    record = model_manifest.to_record(model.path, found)
    quick = [name for name, there in found.items() if there.sha256 and name not in fresh and name not in hashed]
    return {
        "path": model.path,
        "manifest": made.to_dict() if made else None,
        "digest": made.digest if made else None,
        "problems": [problem.to_dict() for problem in problems],
        "remaining": [problem.to_dict() for problem in remaining],
        "to_send": [
            {**asdict(file), "part": min(file.size, model.bytes_of(file.path + model_manifest.PART))}
            for file in to_send
        ],
        "verified": "none" if problems or made is None else "quick" if quick else "full",
        "to_hash": [{"path": name, "size": found[name].size} for name in to_hash],
        "hashes": of_hashes(hashed),
        "record": record,
        "recorded": kept == record,
        "record_path": record_path,
        "disk": model.disk(),
        "needs": vocabulary.needs(model.parsed(model_manifest.CONFIG)),
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    model, began = ModelFiles(params["path"].rstrip("/") or "/"), time.monotonic()
    try:
        manifest = ModelManifest.from_dict(params["manifest"]) if params["manifest"] is not None else None
    except ModelManifestError as error:
        module.fail_json(msg=f"manifest of {model.path}: {error}")
    if params["files"] is not None:
        result: dict[str, Any] = {"hashes": of_hashes(hash_files(model, params["files"]))}
    else:
        result = judge(params, model, manifest)
    result["hashed_mib"] = round(model.hashed_bytes / MIB, 1)
    result["seconds"] = round(time.monotonic() - began, 1)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
