#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: model_download
short_description: Fetch a model from a hub at one revision, verified
version_added: 0.1.0
description:
  - Fetches a model's repository with the command C(hf) of huggingface_hub into O(path). A folder beside it,
    C(<path>.fetching), takes the files; it gets the name O(path) when every file has the hash that the hub told.
  - A fetch that broke off goes on with the files that are there already, and inside a file where C(hf) can.
  - C(hf) is told where to fetch and as whom by its own environment variables, such as C(HF_ENDPOINT) and C(HF_TOKEN).
  - A fetched revision is not fetched again, and the hub is not asked. The console shows how much has arrived.
author:
  - The Tandem contributors (@tandem)
options:
  repository:
    description: The model's name on the hub.
    type: str
    required: true
  revision:
    description: A full commit id, or a tag. Names of branches are refused.
    type: str
  path:
    description: The folder that is to hold the model; when it holds another revision, it is replaced.
    type: path
    required: true
  command:
    description: The command C(hf), by name or path. It is looked for beside Ansible's Python too.
    type: str
    default: hf
attributes:
  check_mode:
    support: full
    description: Tells whether it would fetch; the hub is not asked.
  diff_mode:
    support: none
    description: The files are large.
  idempotent:
    support: full
    description: A fetched revision is not fetched again.
"""

EXAMPLES = r"""
- name: Fetch a model
  tandem.vllm.model_download:
    repository: Qwen/Qwen2.5-32B-Instruct
    revision: 5ede1c97bbab6ce5cda5812749b4c0bdf79b18dd
    path: /srv/models/Qwen2.5-32B-Instruct
"""

RETURN = r"""
path:
  description: The folder.
  returned: success
  type: str
commit:
  description: The commit that the revision is; null in check mode before the fetch.
  returned: success
  type: str
"""

import os
import re
import sys
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils.bundle import hub
from ansible_collections.tandem.vllm.plugins.module_utils.host.hub_files import HubFiles

ARGUMENTS: dict[str, Any] = {
    "repository": {"type": "str", "required": True},
    "revision": {"type": "str"},
    "path": {"type": "path", "required": True},
    "command": {"type": "str", "default": "hf"},
}
# The last lines of what hf said: the error is there.
SAID = 600
ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def fetch(module: AnsibleModule, files: HubFiles) -> str:
    """Fetch, verify and put in place; the commit."""
    repository, revision, name = (module.params[key] for key in ("repository", "revision", "command"))
    command = module.get_bin_path(name, opt_dirs=[os.path.dirname(sys.executable)])
    if command is None:
        module.fail_json(
            msg=f"command = {name}: there is no such command, and {repository} is to be fetched with it. Run "
            f"'{hub.INSTALL}' (0.34 or newer), or name the command's path"
        )
    module.run_command_environ_update = {"HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    status, out, err = module.run_command(hub.argv(command, repository, revision, files.part))
    if status != 0:
        said = ESCAPES.sub("", err.strip() or out.strip())[-SAID:]
        module.fail_json(
            msg=f"repository = {repository}, revision = {revision}: hf ended with exit status {status}: {said}. What "
            "has arrived is kept; run the same again to go on. HF_ENDPOINT and HF_TOKEN say where to fetch and as whom"
        )
    notes = files.notes()
    wrong = hub.problems(revision, notes, files.hashes())
    if wrong:
        module.fail_json(
            msg=f"repository = {repository}, revision = {revision}: what arrived in {files.part} is not what the hub "
            f"said: {hub.shown(wrong)}. Remove that folder and run the same again"
        )
    commit = next(note.commit for note in notes.values() if note)
    files.put({"repository": repository, "revision": revision, "commit": commit})
    return commit


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    repository, revision = module.params["repository"], module.params["revision"]
    # Whatever hf prints: it is never shown.
    module.no_log_values.update(token for token in (os.environ.get("HF_TOKEN"),) if token)
    refused = hub.refusal(repository, revision)
    if refused:
        module.fail_json(msg=refused)
    files = HubFiles(module.params["path"].rstrip("/"))
    record = files.record()
    if hub.is_fetched(record, repository, revision):
        module.exit_json(changed=False, path=files.place, commit=record["commit"])
    commit = None if module.check_mode else fetch(module, files)
    module.exit_json(changed=True, path=files.place, commit=commit)


if __name__ == "__main__":
    main()
