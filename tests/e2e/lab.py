# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab as the end-to-end tests see it: playbooks run, hosts are looked at from outside, load is put on."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
INVENTORY = "inventories/lab"
RECAP = re.compile(r"^(\S+)\s+: ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.MULTILINE)
# Ansible of the same environment as this test, whether that is activated or not.
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
# What ran before a test's own look at logs and process lists: all output of all runs.
said: list[str] = []


@dataclass(frozen=True)
class Run:
    """One run of a program."""

    status: int
    output: str
    seconds: float

    @property
    def changed(self) -> dict[str, int]:
        """Changed tasks per host, from Ansible's recap."""
        return {m[1]: int(m[3]) for m in RECAP.finditer(self.output)}

    @property
    def error(self) -> str:
        """The message of the last failed task, unwrapped."""
        return " ".join(self.output.split())


def program(*command: str, timeout: float = 1500) -> Run:
    """Run a program from the root of the checkout; its output is kept for the search for secrets."""
    began = time.monotonic()
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )
    run = Run(done.returncode, done.stdout, time.monotonic() - began)
    said.append(run.output)
    print(f"\n[{run.seconds:6.1f} s, exit {run.status}] {' '.join(command)[:160]}", file=sys.__stderr__, flush=True)
    return run


def playbook(name: str, *options: str, inventory: str = INVENTORY, **variables: Any) -> Run:
    """Run a playbook on the lab, with extra variables."""
    extra = ["-e", json.dumps(variables)] if variables else []
    return program("ansible-playbook", name, "-i", inventory, *options, *extra)


def good(run: Run) -> Run:
    """The run, which must have ended well."""
    assert run.status == 0, run.output[-6000:]
    return run


def on(host: str, *command: str) -> Run:
    """Run a command on a lab host, from outside (not through Ansible)."""
    done = subprocess.run(
        ["docker", "exec", f"tandem-lab-{host}", *command],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
        check=False,
    )
    return Run(done.returncode, done.stdout + done.stderr, 0)


def healthy(address: str) -> bool:
    """Whether an engine answers at all."""
    try:
        with urllib.request.urlopen(f"http://{address}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def containers(host: str) -> dict[str, str]:
    """Containers on a host, whatever their state: name -> id and time of its start."""
    names = on(host, "docker", "ps", "--all", "--format", "{{.Names}}").output.split()
    shown = "{{.Id}} {{.State.StartedAt}}"
    return {name: on(host, "docker", "inspect", "--format", shown, name).output.strip() for name in names}


def variables() -> dict[str, Any]:
    """The lab's contract as Ansible reads it on the gateway: services, keys and endpoint."""
    wanted = (
        "{{ {'services': tandem_services, 'key': tandem_api_keys[0].key, 'engine_key': tandem_engine_api_key, "
        "'address': tandem_address, 'port': tandem_gateway_port, 'image': tandem_image} }}"
    )
    command = ["ansible", "-i", INVENTORY, "gateway", "-m", "ansible.builtin.debug", "-a", json.dumps({"msg": wanted})]
    environment = {**ENVIRONMENT, "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.partition("=>")[2])["msg"]
    return found


@dataclass
class Load:
    """Requests through the gateway, going on while a test does something."""

    concurrency: int
    options: tuple[str, ...] = ()
    result: dict[str, Any] = field(default_factory=dict)


@contextmanager
def load(concurrency: int, *options: str, seconds: float = 900) -> Iterator[Load]:
    """Keep `concurrency` requests running through the gateway until the block ends; `result` tells what came of it."""
    lab = variables()
    running = subprocess.Popen(
        [
            *(sys.executable, "tests/fakes/openai_load.py", "--host", lab["address"], "--port", str(lab["port"])),
            *("--model", lab["services"][0]["model"]["served_name"], "--concurrency", str(concurrency)),
            *("--seconds", str(seconds), "--max-tokens", "64", *options),
        ],
        cwd=ROOT,
        env={**os.environ, "OPENAI_API_KEY": lab["key"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    state = Load(concurrency, options)
    try:
        yield state
        running.terminate()
        out, err = running.communicate(timeout=180)
        assert out, err
        state.result = json.loads(out)
        print(f"\nload: {state.result}", file=sys.__stderr__, flush=True)
    finally:
        if running.poll() is None:
            running.kill()
