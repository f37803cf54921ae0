# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shape of a table of known failures: kinds of failure, and the signatures that tell of them.

A family of failures is one file, module_utils/triage/<family>.py, with one `Family`, and a folder of texts,
tests/fixtures/triage/<family>. triage.py lists the families.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable

from ansible_collections.tandem.vllm.plugins.module_utils.triage.text import Text

HIGH, MEDIUM, LOW = "high", "medium", "low"
CONFIDENCES = (HIGH, MEDIUM, LOW)


@dataclass(frozen=True)
class Case:
    """What a rule may look at: the text, and versions known besides it (docker, driver, cuda, vllm: as "28.3.1")."""

    text: Text
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Kind:
    """One failure, whatever the words that tell of it.

    advice: one or two sentences; next_command: one command that can be copied; because_of: ids of failures that bring
    this one about: where such a one is found as well, it comes first; facts: what the text says besides, for `details`.
    """

    id: str
    advice: str
    next_command: str
    because_of: tuple[str, ...] = ()
    facts: Callable[[Case], dict[str, Any]] | None = None


@dataclass(frozen=True)
class Signature:
    """Words that tell of a failure.

    phrases: any of them (see text.phrase); needs: phrases that must be there as well, all of them; unless:
    phrases none of which may be there; when: a rule on numbers that a phrase cannot express; shown_by: the words to
    show as the evidence, where a rule knows better than the phrases.
    checks: commands that decide, where the words alone do not. advice, next_command: instead of the kind's.
    last_resort: told only where nothing else was found, because these words follow from most other failures too.
    """

    id: str
    phrases: tuple[str, ...]
    confidence: str = HIGH
    needs: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    when: Callable[[Case], bool] | None = None
    shown_by: Callable[[Case], str | None] | None = None
    checks: tuple[str, ...] = ()
    advice: str | None = None
    next_command: str | None = None
    last_resort: bool = False


@dataclass(frozen=True)
class Family:
    """Failures that belong together. signatures: of one failure, the more specific ones first."""

    name: str
    kinds: tuple[Kind, ...]
    signatures: tuple[Signature, ...]
