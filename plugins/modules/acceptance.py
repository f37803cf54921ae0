#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: acceptance
short_description: Show that a deployment really serves
version_added: 0.1.0
description:
  - Asks the gateway and each replica for real work and for things they must refuse, and returns what each showed.
  - A healthy port is not a working service, so tokens are generated, plain and streamed.
  - Every check is made, also after one has failed. A check that could not run says why and counts as not passed.
  - Runs on any machine that reaches the gateway and the replicas.
author:
  - The Tandem contributors (@tandem)
options:
  endpoint:
    description: URL of the gateway, without a path, such as C(http://10.0.0.10:8080).
    type: str
    required: true
  api_key:
    description:
      - A client's API key for the gateway. A wrong key is derived from it.
      - Without one, the checks that need it are not run.
    type: str
  engine_api_key:
    description:
      - The key that the replicas themselves want.
      - Without one, the checks that need it are not run.
    type: str
  services:
    description:
      - The services to check. The filter P(tandem.vllm.acceptance_services#filter) makes them from a placement.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the service.
        type: str
        required: true
      served_name:
        description: Name by which clients call the model.
        type: str
        required: true
      task:
        description: What the model does.
        type: str
        choices: [generate, embed, score]
        default: generate
      max_model_len:
        description: Context length that was asked for; the engine must say the same where it says one.
        type: int
      replicas:
        description: The service's replicas.
        type: list
        elements: dict
        required: true
        suboptions:
          name:
            description: Name of the replica.
            type: str
            required: true
          url:
            description: URL of its own API, without a path, such as C(http://10.0.0.11:8000).
            type: str
            required: true
          node:
            description: Node it is on; used in messages.
            type: str
          container:
            description: Name of its container; used in messages.
            type: str
  timeout:
    description: Longest time that one check may take, in seconds.
    type: float
    default: 30.0
  started_at:
    description: Date and time to put into the evidence; the module takes its own when not given.
    type: str
  subject:
    description:
      - What was deployed (environment, image, release and the like), to put into the evidence.
      - C(lab=true) in it says that the engines run on CPU; the evidence then says that nothing about GPUs was checked.
    type: dict
    default: {}
  fail_on_failure:
    description: Whether the task fails when a check did not pass. The results are returned in either case.
    type: bool
    default: true
extends_documentation_fragment:
  - tandem.vllm.reads_only
"""

EXAMPLES = r"""
- name: Show that the service serves
  tandem.vllm.acceptance:
    endpoint: http://10.0.0.10:8080
    api_key: "{{ tandem_api_keys[0].key }}"
    engine_api_key: "{{ tandem_engine_api_key }}"
    services: "{{ contract_placement | tandem.vllm.acceptance_services }}"

- name: Check one service written out, and look at the results before deciding
  tandem.vllm.acceptance:
    endpoint: http://10.0.0.10:8080
    api_key: "{{ key }}"
    engine_api_key: "{{ engine_key }}"
    services:
      - name: chat
        served_name: qwen2.5-32b
        replicas:
          - {name: chat-node1, url: "http://10.0.0.11:8000"}
          - {name: chat-node2, url: "http://10.0.0.12:8000"}
    fail_on_failure: false
  register: acceptance
"""

RETURN = r"""
passed:
  description: Whether every check passed; false where one could not run.
  returned: always
  type: bool
checks:
  description: Every check in the order of the report.
  returned: always
  type: list
  elements: dict
  contains:
    id:
      description: Which check.
      type: str
    title:
      description: Its title.
      type: str
    proves:
      description: What it proves when it passes.
      type: str
    service:
      description: The service it is about; null for the gateway as a whole.
      type: str
    target:
      description: Who was asked, the gateway or a replica.
      type: str
    url:
      description: What was asked.
      type: str
    outcome:
      description: C(passed), C(failed), or C(not_run) where it could not be shown either way.
      type: str
    detail:
      description: What was seen, or why it was not run.
      type: str
    seconds:
      description: How long it took.
      type: float
evidence:
  description: All of it in the form to keep as JSON, with date, endpoint, services and subject.
  returned: always
  type: dict
msg:
  description: Summary; names every check that did not pass and what to look at next.
  returned: always
  type: str
"""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.vllm.plugins.module_utils import acceptance
from ansible_collections.tandem.vllm.plugins.module_utils.host.openai_http import (
    OpenAIClient,
    OpenAIConnectionError,
)

ARGUMENTS: dict[str, Any] = {
    "endpoint": {"type": "str", "required": True},
    "api_key": {"type": "str", "no_log": True},
    "engine_api_key": {"type": "str", "no_log": True},
    "services": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "name": {"type": "str", "required": True},
            "served_name": {"type": "str", "required": True},
            "task": {"type": "str", "choices": ["generate", "embed", "score"], "default": "generate"},
            "max_model_len": {"type": "int"},
            "replicas": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "url": {"type": "str", "required": True},
                    "node": {"type": "str"},
                    "container": {"type": "str"},
                },
            },
        },
    },
    "timeout": {"type": "float", "default": 30.0},
    "started_at": {"type": "str"},
    "subject": {"type": "dict", "default": {}},
    "fail_on_failure": {"type": "bool", "default": True},
}

# Enough to be quick; few enough that a small engine answers all of them at once.
PARALLEL = 6


class Asker:
    """Makes the requests of a plan, with the key that each is to carry."""

    def __init__(self, api_key: str | None, engine_api_key: str | None, timeout: float) -> None:
        self._timeout = timeout
        self._keys: dict[str, str | None] = {
            acceptance.CLIENT_KEY: api_key or None,
            acceptance.ENGINE_KEY: engine_api_key or None,
            acceptance.WRONG_KEY: acceptance.wrong_key_for(api_key) if api_key else None,
        }
        self._options = {acceptance.CLIENT_KEY: "api_key", acceptance.ENGINE_KEY: "engine_api_key"}

    def client(self, planned: acceptance.Planned) -> OpenAIClient:
        """The client for one check; ValueError where the URL or the key can be none."""
        key = self._keys.get(planned.request.key)
        return OpenAIClient(planned.url, key, self._timeout, total_timeout=self._timeout)

    def check(self, planned: acceptance.Planned) -> acceptance.Result:
        """Make one check, again where a failure may have been chance."""
        result = acceptance.judge(planned, self.ask(planned))
        for _try in range(1, acceptance.TRIES):
            if not result.ask_again:
                break
            time.sleep(acceptance.PAUSE_S)
            result = acceptance.judge(planned, self.ask(planned))
        return result

    def ask(self, planned: acceptance.Planned) -> acceptance.Observation:
        """Make one request, and tell what came back, whatever it is."""
        request = planned.request
        if request.key != acceptance.NO_KEY and not self._keys[request.key]:
            option = self._options.get(request.key, "api_key")
            return acceptance.Observation(not_asked=f"no {option} was given")
        client = self.client(planned)
        began = time.monotonic()
        try:
            if request.stream:
                answer = client.stream(request.path, dict(request.body or {}))
                return acceptance.Observation(
                    status=answer.status,
                    headers=answer.headers,
                    body=answer.body.decode("utf-8", "replace"),
                    chunks=tuple((chunk.at_s, chunk.data) for chunk in answer.chunks),
                    done=answer.done,
                    seconds=time.monotonic() - began,
                )
            whole = client.request(request.method, request.path, dict(request.body) if request.body else None)
            return acceptance.Observation(
                status=whole.status, headers=whole.headers, body=whole.text, seconds=time.monotonic() - began
            )
        except OpenAIConnectionError as error:
            return acceptance.Observation(error=str(error), seconds=time.monotonic() - began)


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    started_at = params["started_at"] or datetime.now(timezone.utc).isoformat(timespec="seconds")
    targets = [acceptance.Target.from_dict(service) for service in params["services"]]
    if not targets:
        module.fail_json(msg="services is empty: there is nothing to check; name at least one service")
    plan = acceptance.plan(params["endpoint"], targets)
    if params["api_key"]:
        # The wrong key tells the right one, and a server may repeat it in its refusal.
        module.no_log_values.add(acceptance.wrong_key_for(params["api_key"]))
    asker = Asker(params["api_key"], params["engine_api_key"], params["timeout"])
    try:
        for planned in plan:
            asker.client(planned)
    except ValueError as error:
        module.fail_json(msg=f"nothing was checked: {error}")

    began = time.monotonic()
    with ThreadPoolExecutor(PARALLEL) as pool:
        results = list(pool.map(asker.check, plan))
    evidence = acceptance.evidence(
        results, params["endpoint"], targets, started_at, time.monotonic() - began, params["subject"]
    )
    returned = {
        "changed": False,
        "passed": evidence["passed"],
        "checks": evidence["checks"],
        "evidence": evidence,
        "msg": acceptance.summary(results),
    }
    if not evidence["passed"] and params["fail_on_failure"]:
        module.fail_json(**returned)
    module.exit_json(**returned)


if __name__ == "__main__":
    main()
