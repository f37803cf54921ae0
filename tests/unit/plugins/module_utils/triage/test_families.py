# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for every family of failures: each word of the tables is shown by a text, and nothing hides it."""

from __future__ import annotations

import re

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.triage.engine import FAMILIES, triage
from ansible_collections.tandem.vllm.plugins.module_utils.triage.signature import Family, Kind, Signature
from ansible_collections.tandem.vllm.plugins.module_utils.triage.text import Text
from ansible_collections.tandem.vllm.tests.unit.plugins.module_utils.triage.samples import (
    FIXTURES,
    Sample,
    causes,
    decorations,
    samples,
)

SAMPLES = {family.name: samples(family.name) for family in FAMILIES}
ALL = [sample for found in SAMPLES.values() for sample in found]
TEXTS = {sample: Text(sample.text) for sample in ALL}
OF_KINDS = [(family, kind) for family in FAMILIES for kind in family.kinds]
OF_SIGNATURES = [(family, signature) for family in FAMILIES for signature in family.signatures]
each_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


def test_every_folder_of_texts_is_a_family() -> None:
    assert sorted(path.name for path in FIXTURES.iterdir()) == sorted(SAMPLES)
    ids = [kind.id for _family, kind in OF_KINDS]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("sample", ALL, ids=str)
def test_first_cause(sample: Sample) -> None:
    found = causes(sample.text)
    if sample.id is None:
        assert found == []
    else:
        assert found[0] == (sample.id, sample.confidence)
    assert len({cause for cause, _confidence in found}) == len(found)


@pytest.mark.parametrize("sample", ALL, ids=str)
def test_a_text_of_one_family_tells_nothing_of_another(sample: Sample) -> None:
    others = [family for family in FAMILIES if family.name != sample.family]
    assert [cause.id for cause in triage(sample.text, families=others)] == []


@each_family
def test_every_kind_has_texts(family: Family) -> None:
    known = [kind.id for kind in family.kinds]
    assert {sample.id for sample in SAMPLES[family.name]} == {*known, None}
    assert {signature.id for signature in family.signatures} == set(known)
    for kind in known:
        assert len([sample for sample in SAMPLES[family.name] if sample.id == kind]) >= 2
    everywhere = {kind.id for _family, kind in OF_KINDS}
    for kind in family.kinds:
        assert set(kind.because_of) <= everywhere - {kind.id}


def alternatives(phrase: str) -> list[str]:
    """The parts of a phrase whose alternatives are whole spellings: those not in brackets."""
    depth, parts = 0, [""]
    for character in re.findall(r"\\.|\[[^\]]*\]|.", phrase):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts


@pytest.mark.parametrize(
    ("cause", "phrase"),
    sorted({(s.id, part) for _family, s in OF_SIGNATURES for phrase in s.phrases for part in alternatives(phrase)}),
)
def test_every_phrase_has_a_text(cause: str, phrase: str) -> None:
    assert any(text.has(phrase) for sample, text in TEXTS.items() if sample.id == cause)


@pytest.mark.parametrize(
    ("family", "number"),
    [(family, number) for family in FAMILIES for number in range(len(family.signatures))],
    ids=lambda value: value.name if isinstance(value, Family) else str(value),
)
def test_every_signature_decides_a_text(family: Family, number: int) -> None:
    signatures = family.signatures
    ours = [sample.text for sample in SAMPLES[family.name] if sample.id == signatures[number].id]
    without = Family(family.name, family.kinds, signatures[:number] + signatures[number + 1 :])
    assert any(triage(text, families=[without])[:1] != triage(text)[:1] for text in ours), signatures[number]


@pytest.mark.parametrize(("family", "kind"), OF_KINDS, ids=lambda value: value.id if isinstance(value, Kind) else "")
def test_advice_and_commands_can_be_read_and_copied(family: Family, kind: Kind) -> None:
    signatures = [signature for signature in family.signatures if signature.id == kind.id]
    for words in filter(None, [kind.advice, *[signature.advice for signature in signatures]]):
        assert words == " ".join(words.split())
        assert words.endswith(".")
    commands = [kind.next_command, *[signature.next_command or "-" for signature in signatures]]
    for command in [*commands, *[check for signature in signatures for check in signature.checks]]:
        assert command == command.strip()
        assert "\n" not in command


@pytest.mark.parametrize("signature", [s for _f, s in OF_SIGNATURES], ids=lambda s: f"{s.id}: {s.phrases[0]}")
def test_what_is_not_sure_says_what_decides(signature: Signature) -> None:
    assert bool(signature.checks) or signature.confidence != "low"
    assert not signature.last_resort or signature.confidence == "low"


# Texts that are decorated already, of drivers and kernels, and those with borders.
DECORATED = {"gpu": r"\\|\[.*\w+ [\d:]+|^\w{3} \d\d|\|", "pip": r"\\|\[.*\w+ [\d:]+|^\w{3} \d\d|\|"}
PLAIN = [
    sample
    for sample in ALL
    if sample.id and sample.confidence == "high" and not re.search(DECORATED.get(sample.family, r"\\|\|"), sample.text)
]


# So many there are at least, that no decoration is tried on too few.
PLAIN_TEXTS = {"gpu": 60, "pip": 30, "ray": 30, "nccl": 25, "memory": 20, "model": 40, "server": 10}


@each_family
@pytest.mark.parametrize("name", list(decorations()))
def test_no_decoration_hides_a_cause(family: Family, name: str) -> None:
    decorate = decorations()[name]
    plain = [sample for sample in PLAIN if sample.family == family.name]
    assert len(plain) > PLAIN_TEXTS[family.name]
    for sample in plain:
        if "versions differ" in sample.name and name.startswith("terminal"):
            continue  # a number that a terminal broke is not put together
        found = triage(decorate(sample.text))
        assert [cause.id for cause in found][:1] == [sample.id], (sample.name, decorate(sample.text))
    for sample in SAMPLES[family.name]:
        if not sample.id and not (sample.name.startswith("a command") and name.startswith("terminal")):
            assert triage(decorate(sample.text)) == [], sample.name
