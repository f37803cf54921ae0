# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names the causes that a text tells of, the root first: logs, error messages, outputs of tools, also several at once.

Order: by confidence; then what stands first in the text; and then every cause behind the ones that bring it about
(`Kind.because_of`), unless those are only guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.triage import gpu as triage_gpu
from ansible_collections.tandem.vllm.plugins.module_utils.triage import memory as triage_memory
from ansible_collections.tandem.vllm.plugins.module_utils.triage import model as triage_model
from ansible_collections.tandem.vllm.plugins.module_utils.triage import nccl as triage_nccl
from ansible_collections.tandem.vllm.plugins.module_utils.triage import pip as triage_pip
from ansible_collections.tandem.vllm.plugins.module_utils.triage import ray as triage_ray
from ansible_collections.tandem.vllm.plugins.module_utils.triage import server as triage_server
from ansible_collections.tandem.vllm.plugins.module_utils.triage.signature import (
    CONFIDENCES,
    LOW,
    Case,
    Family,
    Kind,
    Signature,
)
from ansible_collections.tandem.vllm.plugins.module_utils.triage.text import Hit, Text

FAMILIES: tuple[Family, ...] = (
    triage_gpu.FAMILY,
    triage_pip.FAMILY,
    triage_ray.FAMILY,
    triage_nccl.FAMILY,
    triage_memory.FAMILY,
    triage_model.FAMILY,
    triage_server.FAMILY,
)


@dataclass(frozen=True)
class Cause:
    """A failure that the text tells of.

    confidence: high, medium or low; evidence: the line as handed in; checks: commands that decide where the text
    cannot; details: facts drawn from the text.
    """

    id: str
    confidence: str
    evidence: str
    advice: str
    next_command: str
    checks: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As Ansible returns it."""
        return dict(vars(self))


@dataclass(frozen=True)
class _Found:
    """A signature that matched, and where."""

    kind: Kind
    signature: Signature
    hit: Hit

    def rank(self) -> tuple[int, int]:
        """Better ones sort first."""
        return CONFIDENCES.index(self.signature.confidence), self.hit.start


def triage(text: str, versions: Mapping[str, str] | None = None, families: Sequence[Family] = FAMILIES) -> list[Cause]:
    """The causes that a text tells of, best first, one entry an id; [] where it tells of none.

    versions: what the text does not say, of docker, driver, cuda (the newest that the driver runs), vllm.
    """
    case = Case(Text(text), dict(versions or {}))
    found = [best for family in families for best in _best(case, family)]
    if any(not one.signature.last_resort for one in found):
        found = [one for one in found if not one.signature.last_resort]
    return [_cause(case, one) for one in _roots_first(sorted(found, key=_Found.rank))]


def summary(causes: Sequence[Cause]) -> str:
    """One sentence: the first cause, and how many more."""
    if not causes:
        return "No known failure was found in the text."
    first = causes[0]
    sure = {"high": "", "medium": " (likely)", "low": " (a guess; see its checks)"}[first.confidence]
    more = [cause.id for cause in causes[1:]]
    return first.id + sure + ": " + first.advice + (" Besides: " + ", ".join(more) + "." if more else "")


def _best(case: Case, family: Family) -> list[_Found]:
    """For each kind of failure its strongest signature that matches."""
    kinds = {kind.id: kind for kind in family.kinds}
    best: dict[str, _Found] = {}
    for signature in family.signatures:
        known = best.get(signature.id)
        # Signatures of one failure stand in the table with the more specific first, so only a surer one replaces it.
        if known and CONFIDENCES.index(known.signature.confidence) <= CONFIDENCES.index(signature.confidence):
            continue
        hit = _match(case, signature)
        if hit:
            best[signature.id] = _Found(kinds[signature.id], signature, hit)
    return list(best.values())


def _match(case: Case, signature: Signature) -> Hit | None:
    hits = [hit for hit in map(case.text.find, signature.phrases) if hit]
    if not hits or not all(map(case.text.has, signature.needs)) or any(map(case.text.has, signature.unless)):
        return None
    if signature.when and not signature.when(case):
        return None
    first = min(hits, key=lambda hit: hit.start)
    shown = signature.shown_by(case) if signature.shown_by else None
    return (case.text.find(re.escape(shown)) if shown else None) or first


def _roots_first(ranked: list[_Found]) -> list[_Found]:
    """The same causes, none before one that brings it about; otherwise in the order given."""
    sure = {one.kind.id for one in ranked if one.signature.confidence != LOW}
    ordered: list[_Found] = []
    waiting = list(ranked)
    while waiting:
        open_ids = {one.kind.id for one in waiting} & sure
        # Two that name each other as the root: the better one goes first.
        ready = next((one for one in waiting if not open_ids.intersection(one.kind.because_of)), waiting[0])
        waiting.remove(ready)
        ordered.append(ready)
    return ordered


def _cause(case: Case, found: _Found) -> Cause:
    kind, signature = found.kind, found.signature
    facts = kind.facts(case) if kind.facts else {}
    return Cause(
        id=kind.id,
        confidence=signature.confidence,
        evidence=found.hit.evidence,
        advice=signature.advice or kind.advice,
        next_command=signature.next_command or kind.next_command,
        checks=list(signature.checks),
        details={name: value for name, value in facts.items() if value},
    )
