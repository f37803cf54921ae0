#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: nginx_upstream_server
short_description: Lead the gateway's new requests past a replica, or to it again
version_added: 0.1.0
description:
  - Marks the server lines of one replica in the gateway's upstreams file C(down), or takes the mark away, and reloads
    the gateway. Requests that run on the replica go on to their end; new ones go to the others.
  - The whole configuration is validated before the file is replaced. The module returns once every new request is
    routed by the new file.
  - The role P(tandem.vllm.nginx_gateway#role) decides from its own inputs which replicas are drained, so its next run
    undoes what this module did.
author:
  - The Tandem contributors (@tandem)
options:
  path:
    description: The upstreams file; the main file C(nginx.conf) lies beside it.
    type: path
    default: /etc/tandem/gateway/upstreams.conf
  replica:
    description: Name of the replica in the placement, such as V(chat-0).
    type: str
    required: true
  state:
    description: Whether the replica gets new requests.
    type: str
    choices: [active, drained]
    required: true
  allow_empty:
    description: Drain even the last replica of a service that gets requests; the gateway then answers 503.
    type: bool
    default: false
  allow_missing:
    description: Whether a gateway that does not lead there at all, or was not set up yet, is fine.
    type: bool
    default: false
extends_documentation_fragment:
  - tandem.vllm.nginx_instance
"""

EXAMPLES = r"""
- name: Lead new requests past chat-0
  tandem.vllm.nginx_upstream_server:
    replica: chat-0
    state: drained
  delegate_to: gateway

- name: Lead requests to chat-0 again
  tandem.vllm.nginx_upstream_server:
    replica: chat-0
    state: active
  delegate_to: gateway
"""

RETURN = r"""
servers:
  description: The gateway's servers as they are after the change.
  returned: success
  type: list
  elements: dict
  contains:
    upstream:
      description: Name of the upstream.
      type: str
    replica:
      description: Name of the replica.
      type: str
    address:
      description: Address and port.
      type: str
    drained:
      description: Whether it gets no new requests.
      type: bool
reloaded:
  description: Whether a running process took the change.
  returned: success
  type: bool
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils.host.nginx import Instance, NginxError
from ansible_collections.tandem.vllm.plugins.module_utils.nginx import files as nginx_files
from ansible_collections.tandem.vllm.plugins.module_utils.nginx.upstreams import (
    LastServerError,
    UnknownReplicaError,
    servers,
    with_replica,
)
from ansible_collections.tandem.vllm.plugins.module_utils.placement import GATEWAY_UNIT

ARGUMENTS = {
    "path": {"type": "path", "default": "/etc/tandem/gateway/upstreams.conf"},
    "replica": {"type": "str", "required": True},
    "state": {"type": "str", "required": True, "choices": ["active", "drained"]},
    "allow_empty": {"type": "bool", "default": False},
    "allow_missing": {"type": "bool", "default": False},
    "binary": {"type": "path", "default": "/usr/sbin/nginx"},
    "service": {"type": "str", "default": GATEWAY_UNIT},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    directory, name = os.path.split(params["path"])
    nginx = Instance(module.run_command, directory, params["binary"], params["service"])
    before = nginx.read(name)
    if before is None:
        if params["allow_missing"]:
            module.exit_json(changed=False, servers=[], reloaded=False)
        module.fail_json(msg="no upstreams file at %s: run the role tandem.vllm.nginx_gateway first" % params["path"])
    try:
        after = with_replica(before, params["replica"], params["state"] == "drained", params["allow_empty"])
    except UnknownReplicaError as error:
        if params["allow_missing"]:
            module.exit_json(changed=False, servers=[], reloaded=False)
        module.fail_json(msg="%s (replica, in %s)" % (error, params["path"]))
    except LastServerError as error:
        module.fail_json(msg="%s. Bring another one back first, or set allow_empty: true" % error)
    result: dict[str, object] = {
        "changed": after != before,
        "servers": [
            {"upstream": s.upstream, "replica": s.replica, "address": s.address, "drained": s.drained}
            for s in servers(after)
        ],
        "reloaded": False,
    }
    if after != before:
        result["diff"] = nginx_files.diff(params["path"], before, after)
        change = {name: after}
        replaced = None
        try:
            nginx.validate({**nginx.others(change), **change}, module.tmpdir)
            if not module.check_mode:
                replaced = nginx.replace(change)
                result["reloaded"] = nginx.reload()
        except NginxError as error:
            if replaced is not None:
                nginx.restore(replaced)
            module.fail_json(msg="nginx did not take the change, so the old file stays: %s" % error)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
