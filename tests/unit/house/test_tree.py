# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What no file of the project may hold, and what every playbook must do."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.tandem.vllm.tests.unit.house.tree import ROOT, ids, tracked

# Written so that this file does not find itself.
MACHINE_PATH = re.compile(r"(^|[^\w.])/(work|farm)/|/root/\.[p]yenv|/tmp/bash[_]jobs")
LATEST_IMAGE = re.compile(r"[\w-]+/?[\w-]+:lates[t]\b")
# Where `latest` is what is refused.
REFUSES_LATEST = re.compile(r"^tests/|^docs/|^plugins/module_utils/contract\.py$|\.md$")

TEXTS = [path for path in tracked() if path.suffix not in {".png", ".gz", ".safetensors"} and path.name != "LICENSE"]
PLAYBOOKS = tracked("playbooks/*.yml", ":(glob)*.yml")
PLAYBOOKS = [path for path in PLAYBOOKS if path.name != "galaxy.yml" and "tasks" not in path.parts]
INVENTORIES = sorted({Path(*path.parts[:2]) for path in tracked("inventories/*")})
SCENARIOS = [path.parent for path in tracked("extensions/molecule/*/molecule.yml") if path.parent.name != "default"]
DOCUMENTS = tracked("*.md")


def lines_with(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    return [
        f"{path}:{number}: {line.strip()[:120]}"
        for path in paths
        for number, line in enumerate((ROOT / path).read_text(errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_path_of_a_machine() -> None:
    assert lines_with(MACHINE_PATH, TEXTS) == []


def test_no_unpinned_image() -> None:
    assert lines_with(LATEST_IMAGE, [path for path in TEXTS if not REFUSES_LATEST.search(str(path))]) == []


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (MACHINE_PATH, "cd /wor" + "k/main"),
        (MACHINE_PATH, "/root/.py" + "env/x"),
        (LATEST_IMAGE, "image: a/b:lat" + "est"),
    ],
)
def test_what_is_looked_for_is_seen(pattern: re.Pattern[str], line: str) -> None:
    assert pattern.search(line)


def ansible(program: str, *arguments: str) -> str:
    """Run one of Ansible's programs as a user would from the root, and return what it said."""
    command = shutil.which(program, path=str(Path(sys.executable).parent))
    assert command, f"no {program} beside this Python"
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
    run = subprocess.run([command, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "[DEPRECATION" not in run.stderr
    return run.stdout


@pytest.mark.parametrize("playbook", PLAYBOOKS, ids=ids(PLAYBOOKS))
def test_playbook_syntax(playbook: Path) -> None:
    assert "playbook:" in ansible("ansible-playbook", "--syntax-check", "-i", "inventories/lab", str(playbook))


@pytest.mark.parametrize("inventory", INVENTORIES, ids=ids(INVENTORIES))
def test_inventory_has_the_groups(inventory: Path) -> None:
    listing = json.loads(ansible("ansible-inventory", "--list", "-i", str(inventory)))
    groups = {child for group in listing.values() for child in group.get("children", [])}
    assert {"tandem_nodes", "tandem_gateway"} <= groups


@pytest.mark.parametrize("scenario", SCENARIOS, ids=ids(SCENARIOS))
def test_scenario_is_complete(scenario: Path) -> None:
    # To molecule, a playbook that is not there is no failure.
    assert [name for name in ("converge", "verify", "cleanup") if not (ROOT / scenario / f"{name}.yml").exists()] == []


def broken_links(document: str, folder: Path) -> list[str]:
    """Relative links of a Markdown text that lead to no file."""
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document)
    return [t for t in targets if not re.match(r"[a-z]+:", t) and not (folder / t).exists()]


@pytest.mark.parametrize("path", DOCUMENTS, ids=ids(DOCUMENTS))
def test_links_in_documents_lead_somewhere(path: Path) -> None:
    assert broken_links((ROOT / path).read_text(), (ROOT / path).parent) == []


def test_a_broken_link_is_seen() -> None:
    assert broken_links("[a](README.nowhere) [b](https://example.org) [c](#x)", ROOT) == ["README.nowhere"]
