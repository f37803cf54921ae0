#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: vllm_engine_info
short_description: Tell how far a replica's engine is, and wait until it serves or is idle
version_added: 0.1.0
description:
  - Reads a replica's container, its log, its metrics, and asks it for one real completion. An engine is C(ready) only
    when that completion came; an open port or a healthy C(/health) is not enough.
  - With O(wait_for) it asks again until the engine is there, showing how far it is, and fails with the cause line, the
    container and the next command when the container ends or O(timeout) passes.
author:
  - The Tandem contributors (@tandem)
options:
  container:
    description: Name of the replica's container.
    type: str
    required: true
  url:
    description: Base URL of the replica's API, for example V(http://192.168.1.10:8000).
    type: str
    required: true
  served_name:
    description: The name clients call the model by; not needed to wait for V(idle).
    type: str
  task:
    description: What the model does.
    type: str
    choices: [generate, embed, score]
    default: generate
  key_file:
    description: File on the host that holds the engine's API key.
    type: path
    required: true
  wait_for:
    description:
      - V(ready) waits until a real completion works, V(idle) until no request runs or is queued.
      - V(nothing) reads once.
    type: str
    choices: [nothing, ready, idle]
    default: nothing
  timeout:
    description: Longest wait, in seconds.
    type: int
    default: 1800
  interval:
    description: Seconds between two looks.
    type: int
    default: 2
extends_documentation_fragment:
  - tandem.vllm.reads_only
"""

EXAMPLES = r"""
- name: Wait until the replica serves
  tandem.vllm.vllm_engine_info:
    container: tandem-chat-node-a
    url: http://192.168.1.10:8000
    served_name: qwen2.5-32b
    key_file: /etc/tandem/engine.key
    wait_for: ready
"""

RETURN = r"""
container:
  description: Name of the container.
  returned: when it is there
  type: str
state:
  description: V(absent), V(starting), V(ready), V(restarting) or V(exited).
  returned: always
  type: str
progress:
  description: How far the start is, in words.
  returned: always
  type: str
last_log_line:
  description: What the engine logged last.
  returned: always
  type: str
cause:
  description: The log line that says why the engine failed.
  returned: when it failed
  type: str
reason:
  description: Why waiting was given up.
  returned: when it was
  type: str
restarts:
  description: How often Docker has restarted the container.
  returned: always
  type: int
in_engine:
  description: Requests that run or are queued.
  returned: when the engine's metrics say so
  type: int
kv_cache_tokens:
  description: Tokens that the KV cache holds.
  returned: when the engine's metrics say so
  type: int
vllm_version:
  description: Version of vLLM that answers.
  returned: when ready
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils import engine, engine_log
from ansible_collections.tandem.vllm.plugins.module_utils.host.docker import Docker
from ansible_collections.tandem.vllm.plugins.module_utils.host.openai_http import OpenAIClient, OpenAIConnectionError

LOG_TAIL = 400
ARGUMENTS: dict[str, Any] = {
    "container": {"type": "str", "required": True},
    "url": {"type": "str", "required": True},
    "served_name": {"type": "str"},
    "task": {"type": "str", "choices": ["generate", "embed", "score"], "default": "generate"},
    "key_file": {"type": "path", "required": True, "no_log": False},
    # Acted on by the action plugin of the same name, which calls this module again and again.
    "wait_for": {"type": "str", "choices": ["nothing", "ready", "idle"], "default": "nothing"},
    "timeout": {"type": "int", "default": 1800},
    "interval": {"type": "int", "default": 2},
}


def read_key(path: str) -> str:
    """The engine's key; raises OSError when the file is not there."""
    with open(path, encoding="ascii") as stream:
        return stream.read().strip()


def ask(client: OpenAIClient, served_name: str, task: str) -> dict[str, Any]:
    """What the engine answers: a completion first, then version and metrics. Raises OpenAIConnectionError."""
    answer = client.completion(served_name, task)
    if answer.status != 200:
        return {"state": "starting", "answer": "HTTP %d: %s" % (answer.status, answer.text[:300])}
    metrics = client.request("GET", "/metrics").text
    version = (client.request("GET", "/version").json() or {}).get("version")
    return {
        "state": "ready",
        "vllm_version": version,
        "in_engine": engine.requests_in_engine(metrics),
        "kv_cache_tokens": engine.kv_cache_tokens(metrics),
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        supports_check_mode=True,
        required_if=[("wait_for", "ready", ["served_name"]), ("wait_for", "nothing", ["served_name"])],
    )
    params = module.params
    docker = Docker(module.run_command)
    found = docker.container(params["container"])
    if found is None:
        module.exit_json(changed=False, state="absent", progress="no such container", last_log_line="", restarts=0)
        return
    result: dict[str, Any] = {"container": params["container"], "state": "starting", "restarts": found.restarts}
    if found.status == "running":
        try:
            client = OpenAIClient(params["url"], read_key(params["key_file"]), timeout=60)
            if params["wait_for"] == "idle":
                result["in_engine"] = engine.requests_in_engine(client.request("GET", "/metrics").text)
                result["state"] = "ready"
            else:
                result.update(ask(client, params["served_name"], params["task"]))
        except OpenAIConnectionError as error:
            # Not listening yet: the log tells how far it is. Nothing can be running where nothing listens.
            if "refused" in str(error):
                result["in_engine"] = 0
        except OSError as error:
            module.fail_json(msg="key_file = {} cannot be read: {}".format(params["key_file"], error.strerror))
    elif found.status == "created" and not found.error:
        # Of a rank group: its keeper starts it when all nodes are ready for it.
        module.exit_json(changed=False, progress="not started yet", last_log_line="", failed_before=None, **result)
    else:
        result["state"] = "restarting" if found.status == "restarting" else "exited"
    if result["state"] == "ready":
        module.exit_json(changed=False, progress="serving", last_log_line="", **result)
    log = docker.logs(params["container"], LOG_TAIL)
    if result["state"] != "starting":
        oom = "the container was killed for memory (limits.memory)" if found.oom_killed else None
        result["cause"] = oom or engine_log.cause(log) or found.error or "exit code %d" % found.exit_code
    result["failed_before"] = engine_log.cause(log) if found.restarts else None
    module.exit_json(
        changed=False, progress=engine_log.progress(log), last_log_line=engine_log.last_line(log), **result
    )


if __name__ == "__main__":
    main()
