# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a target has to show after an installation: it imports what it must, and pip complains of nothing new."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Nothing is written into the target, and nothing is looked up outside.
ENVIRONMENT = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
# What module_utils/host/import_probe.py prints before each import, and before its answer.
ANSWER = "tandem-imports:"
TRYING = "tandem-imports-now:"


@dataclass(frozen=True)
class Proof:
    """What a target showed.

    ray_version: None where `ray --version` gave none; pip_check: all complaints; base: complaints that were there
    before; pip_freeze: its lines; imports: None or the error, by what was imported.
    """

    ray_version: str | None
    pip_check: Sequence[str]
    base: Sequence[str]
    pip_freeze: Sequence[str]
    imports: Mapping[str, str | None]

    @property
    def new_complaints(self) -> list[str]:
        """Complaints of pip that came with the installation."""
        return [line for line in self.pip_check if line not in set(self.base)]

    def to_dict(self) -> dict[str, Any]:
        """As plain values: the evidence."""
        return {
            "ray_version": self.ray_version,
            "pip_check": list(self.pip_check),
            "pip_check_before": list(self.base),
            "pip_check_new": self.new_complaints,
            "pip_freeze": list(self.pip_freeze),
            "freeze_sha256": freeze_hash(self.pip_freeze),
            "imports": dict(self.imports),
        }


def freeze_hash(lines: Iterable[str]) -> str:
    """SHA-256, as hex, of `pip freeze`: the same on every target with the same projects, whatever the order."""
    return hashlib.sha256("".join(f"{line}\n" for line in sorted(lines)).encode()).hexdigest()


def import_argv(python: str, program: str, modules: Sequence[str], projects: Sequence[str]) -> list[str]:
    """The command line of the import test. program: its text; projects: whose topmost packages are imported as well."""
    return [python, "-c", program, json.dumps([list(modules), list(projects)])]


def read_imports(status: int, out: str, err: str) -> dict[str, str | None]:
    """None or the error by module, of what the import test printed; where it was ended, the module that ended it."""
    for line in reversed(out.splitlines()):
        if line.startswith(ANSWER):
            answer: dict[str, str | None] = json.loads(line[len(ANSWER) :])
            return answer
    lines = [line for line in err.splitlines() if line.strip()]
    tried = [line[len(TRYING) :].strip() for line in lines if line.startswith(TRYING)]
    said = next((line for line in reversed(lines) if not line.startswith(TRYING)), "")
    return {tried[-1] if tried else "python": f"ended with exit status {status}" + (f": {said}" if said else "")}


def read_ray_version(status: int, out: str) -> str | None:
    """The version of `ray --version`; None when it says none."""
    found = re.search(r"^ray, version (\S+)", out, re.MULTILINE) if status == 0 else None
    return found[1] if found else None


def problems(proof: Proof, version: str | None) -> list[str]:
    """Why a target is not what it should be, as sentences. version: that Ray must have, None for any or none."""
    found = [f"import {name}: {error}" for name, error in proof.imports.items() if error]
    if version is not None and proof.ray_version is None:
        found.append("ray --version: gives no version")
    elif version is not None and proof.ray_version != version:
        found.append(f"ray --version: says {proof.ray_version}, not {version}")
    return found + [f"pip check: {line}" for line in proof.new_complaints]
