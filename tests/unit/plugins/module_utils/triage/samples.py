# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The texts of the families of failures, tests/fixtures/triage/<family>, and ways in which they reach a reader."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.tandem.vllm.plugins.module_utils.triage.engine import triage

FIXTURES = Path(__file__).resolve().parents[4] / "fixtures" / "triage"
HEADER = re.compile(r"^=== (.+?)(?: \[(medium|low)\])?\n", re.MULTILINE)


class Sample(NamedTuple):
    """One text. id: the failure that has to come first, None where none may be told."""

    family: str
    id: str | None
    name: str
    confidence: str
    text: str

    def __str__(self) -> str:
        return f"{self.family}, {self.id}: {self.name}"


def samples(family: str) -> list[Sample]:
    """A file is named after the id; "=== name [confidence]" starts each text in it, high where none is written."""
    found = []
    for path in sorted((FIXTURES / family).glob("*.txt")):
        start, *parts = HEADER.split(path.read_text(encoding="utf-8"))
        assert not start
        cause = None if path.stem == "none" else path.stem
        for at in range(0, len(parts), 3):
            name, confidence, text = parts[at : at + 3]
            found.append(Sample(family, cause, name, confidence or "high", text))
    return found


def by_name(family: str) -> dict[tuple[str | None, str], str]:
    """The texts of a family by id and name."""
    return {(sample.id, sample.name): sample.text for sample in samples(family)}


def causes(text: str, **versions: str) -> list[tuple[str, str]]:
    """Id and confidence of each cause, best first."""
    return [(cause.id, cause.confidence) for cause in triage(text, versions)]


def decorations() -> dict[str, Any]:
    """Ways in which a log reaches a reader."""

    def lines(change: Any) -> Any:
        return lambda text: "\n".join(change(line) for line in text.splitlines())

    return {
        "compose": lines(lambda line: "chat-node-a-1  | " + line),
        "vLLM": lines(lambda line: "(EngineCore_DP0 pid=12) ERROR 11-02 17:50:01 [core.py:700] " + line),
        "vLLM in compose": lines(
            lambda line: "chat-1  | (APIServer pid=1) (EngineCore pid=68) ERROR 02-06 16:34:06 [core.py:936] " + line
        ),
        "journal": lines(lambda line: "Dec 01 10:00:00 node-a kernel: " + line),
        "ISO journal": lines(lambda line: "2025-06-02T12:32:53.230422+00:00 node-a kernel: " + line),
        "dmesg": lines(lambda line: "[ 1843.308145] " + line),
        "dmesg -T": lines(lambda line: "[Mon Jun  2 13:13:04 2025] " + line),
        "json-file": lines(
            lambda line: json.dumps({"log": line + "\n", "stream": "stderr", "time": "2025-12-01T10:00:00Z"})
        ),
        "one JSON string": json.dumps,
        "twice JSON": lambda text: json.dumps(json.dumps(text)),
        "containerd": lines(lambda line: "2025-12-01T10:00:00.123456789Z stderr F " + line),
        "colours": lines(lambda line: "\x1b[0;36m(EngineCore_DP0 pid=406)\x1b[0;0m \x1b[31m" + line + "\x1b[0m"),
        "colours without escape characters": lines(lambda line: "[0;36m(EngineCore_DP0 pid=406)[0;0m " + line),
        "wide blanks": lambda text: text.replace(" ", "\u00a0  "),
        "carriage returns": lambda text: text.replace("\n", "\r\n"),
        "HTML": lambda text: (
            text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
        ),
        "quotation": lines(lambda line: "> " + line),
        "box": lines(lambda line: "\u2502 " + line),
        "typographic quotes": lambda text: text.replace("'", "\u2019"),
        "terminal of 80 columns": lambda text: "\n".join(
            re.sub(r"(.{80})", "\\1\n", line) for line in text.splitlines()
        ),
        "terminal of 47 columns": lambda text: "\n".join(
            re.sub(r"(.{47})", "\\1\n", line) for line in text.splitlines()
        ),
    }
