#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: nginx_config
short_description: Replace the configuration of an nginx instance as a whole, or not at all
version_added: 0.1.0
description:
  - Takes every file of the configuration, tries them together with C(nginx -t) in a folder of their own, and only then
    puts them in place and reloads the unit.
  - A configuration that nginx refuses, or that the running process does not take, leaves the files and the process as
    they were.
  - The files are readable by root alone.
author:
  - The Tandem contributors (@tandem)
options:
  path:
    description: The directory of the configuration; made where missing. Its main file is C(nginx.conf).
    type: path
    required: true
  files:
    description: File name to content. Files include one another by their bare names.
    type: dict
    required: true
  secret_files:
    description:
      - Like O(files), for files that hold keys. They appear in no output; in a diff their quoted values are hidden.
    type: dict
    default: {}
extends_documentation_fragment:
  - tandem.vllm.nginx_instance
"""

EXAMPLES = r"""
- name: Configure the gateway
  tandem.vllm.nginx_config:
    path: /etc/tandem/gateway
    files:
      nginx.conf: "{{ lookup('ansible.builtin.template', 'nginx.conf.j2') }}"
      upstreams.conf: "{{ lookup('ansible.builtin.template', 'upstreams.conf.j2') }}"
    secret_files:
      keys.conf: "{{ lookup('ansible.builtin.template', 'keys.conf.j2') }}"
"""

RETURN = r"""
changed_files:
  description: Names of the files that were replaced.
  returned: success
  type: list
  elements: str
reloaded:
  description: Whether a running process took the new configuration.
  returned: success
  type: bool
validated:
  description:
    - Whether nginx tried the configuration. It cannot in check mode on a host where nginx is still to be installed.
  returned: success
  type: bool
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils.host.nginx import Instance, NginxError
from ansible_collections.tandem.vllm.plugins.module_utils.nginx import files as nginx_files
from ansible_collections.tandem.vllm.plugins.module_utils.placement import GATEWAY_UNIT

ARGUMENTS = {
    "path": {"type": "path", "required": True},
    "files": {"type": "dict", "required": True},
    "secret_files": {"type": "dict", "default": {}, "no_log": True},
    "binary": {"type": "path", "default": "/usr/sbin/nginx"},
    "service": {"type": "str", "default": GATEWAY_UNIT},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    nginx = Instance(module.run_command, params["path"], params["binary"], params["service"])
    secrets: dict[str, str] = params["secret_files"]
    wanted: dict[str, str] = {**params["files"], **secrets}
    current = {name: nginx.read(name) for name in wanted}
    changes = {name: text for name, text in wanted.items() if text != current[name] or not nginx.private(name)}
    result: dict[str, Any] = {
        "changed": bool(changes),
        "changed_files": sorted(changes),
        "diff": [
            nginx_files.diff("%s/%s" % (params["path"], name), current[name], text, name in secrets)
            for name, text in sorted(changes.items())
        ],
        "validated": False,
        "reloaded": False,
    }
    if not changes:
        module.exit_json(**result)
    if nginx.can_validate():
        try:
            nginx.validate(wanted, module.tmpdir, tuple(secrets))
        except NginxError as error:
            msg = "nginx refuses the new configuration, so nothing was changed: %s" % error
            module.fail_json(msg=msg, **{**result, "changed": False})
        result["validated"] = True
    elif not module.check_mode:
        module.fail_json(msg="no nginx at %s to validate the configuration with, so nothing was changed" % nginx.binary)
    if not module.check_mode:
        before = nginx.replace(changes)
        try:
            result["reloaded"] = nginx.reload()
        except NginxError as error:
            nginx.restore(before)
            msg = "nginx did not take the new configuration; the old files are back and the old one serves: %s" % error
            module.fail_json(msg=msg, **{**result, "changed": False})
    module.exit_json(**result)


if __name__ == "__main__":
    main()
