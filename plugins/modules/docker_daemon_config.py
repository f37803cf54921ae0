#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: docker_daemon_config
short_description: Merge settings into Docker's daemon.json, and overwrite nothing that is there
version_added: 0.1.0
description:
  - Adds settings to Docker's daemon.json. Nested mappings are merged key by key; lists are united, the user's items
    first. The order of keys and the indentation stay as they are.
  - What the user has set otherwise is the user's. The module then fails with each such key, the value found and the
    one wanted, and changes nothing. In C(exec-opts), C(storage-opts) and C(labels) the items are compared by key.
  - A file that is not valid JSON is refused with the line, the column and the reason, and not touched. The same goes
    for comments, keys written more than once, a top level that is no object and text that is not UTF-8.
  - dockerd of Docker 23 and newer tries the new file, with the arguments that the running one has, before it replaces
    the old.
  - Docker is neither reloaded nor restarted.
author:
  - The Tandem contributors (@tandem)
options:
  settings:
    description: The settings to add, as they are written in daemon.json.
    type: dict
    required: true
  path:
    description:
      - The file. It is made where missing, with mode C(0644), along with its folder; else its mode and owner are kept.
      - A link is followed.
    type: path
    default: /etc/docker/daemon.json
  backup:
    description: Keep the file as it was beside the new one.
    type: bool
    default: true
attributes:
  check_mode:
    support: full
    description: The new file is compared and validated in check mode as well; nothing is replaced.
  diff_mode:
    support: full
    description: Shows the change of the file. Passwords, tokens and the users of URLs are hidden.
  idempotent:
    support: full
    description: Nothing is replaced when the settings are there.
"""

EXAMPLES = r"""
- name: Let Docker know the NVIDIA runtime
  tandem.vllm.docker_daemon_config:
    settings:
      runtimes:
        nvidia:
          path: nvidia-container-runtime
          args: []

- name: Let Docker hand out devices by CDI
  tandem.vllm.docker_daemon_config:
    settings:
      features:
        cdi: true
"""

RETURN = r"""
path:
  description: The file.
  returned: always
  type: str
settings:
  description: All settings of the file after the merge. Passwords, tokens and the users of URLs are hidden.
  returned: success
  type: dict
validated:
  description:
    - Whether dockerd tried the new file. Not where nothing is to be replaced, where dockerd is not installed, and where
      it is older than Docker 23.
  returned: success
  type: bool
backup_file:
  description: The copy of the file as it was.
  returned: when it was replaced and O(backup) is on
  type: str
"""

import os
import tempfile
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils import daemon_json
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import tolerant
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker_daemon import DaemonConfigError, validate
from ansible_collections.tandem.vllm.plugins.module_utils.problems import Problems

ARGUMENTS: dict[str, Any] = {
    "settings": {"type": "dict", "required": True},
    "path": {"type": "path", "default": "/etc/docker/daemon.json"},
    "backup": {"type": "bool", "default": True},
}


def read(path: str) -> bytes | None:
    """The file's bytes, None where there is none. Raises OSError."""
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except FileNotFoundError:
        return None


def staged(module: AnsibleModule, text: str) -> str:
    """Path of a temporary file with the text; Ansible removes it at the end of the module."""
    descriptor, path = tempfile.mkstemp(dir=module.tmpdir, prefix="daemon-", suffix=".json")
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(text.encode("utf-8"))
    return path


def replace(module: AnsibleModule, source: str, path: str, backup: bool) -> dict[str, Any]:
    """Put the staged file in place of `path`, or make it there; {backup_file} when a copy of the old one was kept."""
    there = os.path.exists(path)
    kept = {"backup_file": module.backup_local(path)} if there and backup else {}
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    module.atomic_move(source, path)
    if not there:
        module.set_mode_if_different(path, "0644", False)
    return kept


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    named, wanted = module.params["path"], module.params["settings"]
    # The file that a link leads to is replaced, not the link.
    path = os.path.realpath(named)
    result: dict[str, Any] = {"changed": False, "path": named}
    try:
        data = read(path)
        document = daemon_json.parse(data or b"")
    except OSError as error:
        module.fail_json(msg=f"{named} cannot be read: {error.strerror}", **result)
    except daemon_json.DaemonJsonError as error:
        msg = f"{named} is no valid daemon.json, so it was left as it is: {error}. Correct the file, then run again"
        module.fail_json(msg=msg, **result)
    merged, conflicts = daemon_json.merge(document.settings, wanted)
    if conflicts:
        headline = f"{named} has settings that differ from those wanted, so it was left as it is"
        module.fail_json(msg=Problems(conflicts).message(headline), **result)
    result.update(settings=daemon_json.hidden_settings(merged), validated=False)
    if merged == document.settings:
        module.exit_json(**result)
    before, after = (data or b"").decode("utf-8"), daemon_json.render(document, merged)
    result["diff"] = {
        "before_header": named,
        "after_header": named,
        "before": daemon_json.hidden(before),
        "after": daemon_json.hidden(after),
    }
    source, dockerd = staged(module, after), module.get_bin_path("dockerd")
    try:
        result["validated"] = bool(dockerd) and validate(tolerant(module.run_command), dockerd, source, path)
    except DaemonConfigError as error:
        module.fail_json(msg=f"dockerd refuses the merged {named}, so it was left as it is: {error}", **result)
    result["changed"] = True
    if not module.check_mode:
        try:
            result.update(replace(module, source, path, module.params["backup"]))
        except OSError as error:
            module.fail_json(msg=f"{named} cannot be written: {error.strerror}", **{**result, "changed": False})
    module.exit_json(**result)


if __name__ == "__main__":
    main()
