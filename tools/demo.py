# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks the gateway of an inventory for a plain and a streamed completion, and says how to do the same with curl.

.venv/bin/python tools/demo.py inventories/lab
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.tandem.vllm.plugins.module_utils.host.openai_http import OpenAIClient, OpenAIConnectionError  # noqa: E402
from ansible_collections.tandem.vllm.plugins.module_utils.openai_api import completion_request  # noqa: E402

# Templated by Ansible, so that it finds what a playbook would.
WANTED = """{{ {
    'url': 'http://%(address)s:%(port)s' % ([inventory_hostname] | tandem.vllm.contract_hosts(hostvars) | first),
    'key': tandem_api_keys[0].key,
    'model': (tandem_services | selectattr('task', 'equalto', 'generate') | first).model.served_name
} }}"""
TOKENS = 32


def gateway(inventory: str) -> dict[str, Any]:
    """Address, a key and a generating model of an inventory's first gateway."""
    arguments = json.dumps({"msg": WANTED})
    command = ["ansible", "-i", inventory, "tandem_gateway[0]", "-m", "ansible.builtin.debug", "-a", arguments]
    environment = {**os.environ, "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"}
    said = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if said.returncode:
        raise SystemExit(f"cannot read {inventory}:\n{said.stdout}{said.stderr}")
    values: dict[str, Any] = json.loads(said.stdout.partition("=>")[2])["msg"]
    return values


def main(inventory: str) -> None:
    """Run the demonstration; any answer but a good one ends it with an error."""
    found = gateway(inventory)
    model = found["model"]
    client = OpenAIClient(found["url"], api_key=found["key"])

    plain = client.completion(model, max_tokens=TOKENS)
    answer = plain.json()
    if plain.status != 200 or not answer["choices"][0]["text"]:
        raise SystemExit(f"plain completion: HTTP {plain.status}: {plain.text()}")
    print(f"plain:    HTTP 200, {answer['usage']['completion_tokens']} tokens: {answer['choices'][0]['text']!r}")

    path, body = completion_request(model, max_tokens=TOKENS)
    streamed = client.stream(path, {**body, "stream": True})
    if streamed.status != 200 or not streamed.done or streamed.ttft_s is None:
        raise SystemExit(
            f"streamed completion: HTTP {streamed.status}, ended properly: {streamed.done}: {streamed.body!r}"
        )
    last = streamed.chunks[-1].at_s
    count = len(streamed.chunks)
    print(f"streamed: HTTP 200, {count} chunks, the first after {streamed.ttft_s:.3f} s, the last after {last:.3f} s")
    if not streamed.ttft_s < last:
        raise SystemExit("the first chunk came with the last: something on the way buffers the stream")

    refused = OpenAIClient(found["url"], api_key="wrong").completion(model)
    print(f"with a wrong key: HTTP {refused.status}")
    if refused.status != 401:
        raise SystemExit("the gateway did not refuse a wrong key")

    # The key goes through a file that only you can read: not on the screen, and not in `ps` when curl runs.
    options = ROOT / inventory / ".generated/curl"
    options.touch(mode=0o600)
    options.write_text(f'header = "Authorization: Bearer {found["key"]}"\nheader = "Content-Type: application/json"\n')
    example = json.dumps({"model": model, "prompt": "Hello, my name is", "max_tokens": TOKENS, "stream": True})
    print(f"\nThe endpoint is {found['url']}/v1, the model {model}. Try it:\n")
    print(f"  curl -N -K {os.path.relpath(options)} {found['url']}/v1/completions -d {shlex.quote(example)}\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    try:
        main(sys.argv[1])
    except OpenAIConnectionError as problem:
        raise SystemExit(str(problem)) from None
