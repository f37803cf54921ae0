# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an image requires of the NVIDIA driver (its NVIDIA_REQUIRE_CUDA), and whether a host satisfies it.

In "cuda>=12.8 brand=tesla,driver>=535,driver<536" a blank is OR and a comma is AND: all conditions of one alternative
have to hold. nvidia-container-cli evaluates this for every GPU before it starts a container, and refuses the start.
The alternatives with a brand name the driver branches for which the image brings compatibility libraries; these work on
data-centre and workstation GPUs, not on GeForce.

NVIDIA's minor-version compatibility (CUDA 12.x on any driver from 525 on) is not counted: nvidia-container-cli does not
know it, and it leaves out what is compiled on the GPU's host (PTX), which vLLM's kernels do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# CUDA version -> first Linux driver that runs it. Source: NVIDIA, CUDA Toolkit release notes, table "CUDA Toolkit and
# Corresponding Driver Versions".
DRIVER_OF_CUDA: tuple[tuple[str, str], ...] = (
    ("11.0", "450.51.05"),
    ("11.1", "455.23"),
    ("11.2", "460.27.03"),
    ("11.3", "465.19.01"),
    ("11.4", "470.42.01"),
    ("11.5", "495.29.05"),
    ("11.6", "510.39.01"),
    ("11.7", "515.43.04"),
    ("11.8", "520.61.05"),
    ("12.0", "525.60.13"),
    ("12.1", "530.30.02"),
    ("12.2", "535.54.03"),
    ("12.3", "545.23.06"),
    ("12.4", "550.54.14"),
    ("12.5", "555.42.02"),
    ("12.6", "560.28.03"),
    ("12.8", "570.26"),
    ("12.9", "575.51.03"),
    ("13.0", "580.65.06"),
    ("13.1", "590.44.01"),
    ("13.2", "595.45.04"),
)

KEYS = ("cuda", "driver", "brand", "arch")
CONDITION = re.compile(r"([a-z]+)(>=|<=|!=|=|>|<)([^<>=!,\s]+)", re.IGNORECASE)
SPACED_OPERATOR = re.compile(r"\s*(>=|<=|!=|=|>|<)\s*")
# A GPU's name -> the brands that NVML may tell for it: old and new drivers differ. The first that matches counts;
# where none does, the brand is not known.
BRANDS: tuple[tuple[re.Pattern[str], frozenset[str]], ...] = (
    (
        re.compile(r"\bGRID\b|-\d+[ABCQ]\b"),
        frozenset({"grid", "vapps", "vpc", "vcs", "vws", "cloudgaming", "nvidia"}),
    ),
    (re.compile(r"GeForce", re.IGNORECASE), frozenset({"geforce", "geforcertx"})),
    (re.compile(r"TITAN", re.IGNORECASE), frozenset({"titan", "titanrtx"})),
    (re.compile(r"Quadro RTX|\bRTX\b", re.IGNORECASE), frozenset({"quadrortx", "nvidiartx"})),
    (re.compile(r"Quadro", re.IGNORECASE), frozenset({"quadro"})),
    (
        re.compile(
            r"Tesla|\b(?:G?[ABHPV]\d{2,3}|G[BH]\d{3}|A2|A10G|H20|K80|L4|L20|L40S?|M60|P4|T4G?)\b(?<!GB10)",
            re.IGNORECASE,
        ),
        frozenset({"tesla", "nvidia"}),
    ),
)


@dataclass(frozen=True)
class Condition:
    """One comparison, as cuda>=12.8. key: of KEYS; value: a version, or a brand in lower case."""

    key: str
    operator: str
    value: str

    def __str__(self) -> str:
        return self.key + self.operator + self.value


@dataclass(frozen=True)
class Offer:
    """What a host has: newest CUDA that its driver runs, the driver's version, one GPU's brands and compute capability.

    None: not known.
    """

    cuda: str | None = None
    driver: str | None = None
    brands: frozenset[str] | None = None
    arch: str | None = None


@dataclass(frozen=True)
class Answer:
    """Whether a requirement is satisfied; None: cannot be said.

    reason: the alternative that holds, the condition that failed in words, or why nothing can be said.
    driver: the first driver version that would satisfy it; None: not known.
    """

    satisfied: bool | None
    reason: str
    driver: str | None = None


def version_numbers(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: "26.1.5+dfsg1" -> (26, 1, 5); () where there is none."""
    match = re.match(r"\d+(?:\.\d+)*", text.strip())
    return tuple(int(n) for n in match.group().split(".")) if match else ()


def parse(text: str) -> list[list[Condition]]:
    """The alternatives, each a list of conditions; ValueError says what is not understood.

    Blanks round an operator, as old messages write them, are taken as part of the condition.
    """
    alternatives = []
    for part in SPACED_OPERATOR.sub(r"\1", text).split():
        conditions = []
        for word in filter(None, part.split(",")):
            match = CONDITION.fullmatch(word)
            if not match:
                raise ValueError(f"'{word}' is no condition")
            key, operator, value = match[1].lower(), match[2], match[3].lower()
            if key not in KEYS:
                raise ValueError(f"'{word}': known are only {', '.join(KEYS)}")
            if key == "brand" and operator not in ("=", "!="):
                raise ValueError(f"'{word}': a brand has no order")
            if key != "brand" and not re.fullmatch(r"\d+(\.\d+)*", value):
                raise ValueError(f"'{word}': '{value}' is no version")
            conditions.append(Condition(key, operator, value))
        if conditions:
            alternatives.append(conditions)
    return alternatives


def effective(requirement: str | None, cuda_version: str | None) -> str | None:
    """What the container toolkit takes as an image's requirement; None: nothing.

    An image with CUDA_VERSION in its environment and no NVIDIA_REQUIRE_CUDA is taken to require that CUDA version.
    """
    if requirement and requirement.strip():
        return requirement
    numbers = version_numbers(cuda_version or "")
    return "cuda>=%d.%d" % numbers[:2] if len(numbers) > 1 else None


def brands_of(name: str | None) -> frozenset[str] | None:
    """The brands that NVML may tell for a GPU of this name; None: not known."""
    for pattern, brands in BRANDS:
        if name and pattern.search(name):
            return brands
    return None


def driver_for(cuda: str) -> str | None:
    """The first Linux driver that runs a CUDA version; None where the table ends before it."""
    wanted = version_numbers(cuda)[:2]
    return next((driver for known, driver in DRIVER_OF_CUDA if version_numbers(known) >= wanted), None)


def cuda_of(driver: str) -> str | None:
    """The newest CUDA version that a driver runs, by the same table; None for drivers older than it."""
    known = [cuda for cuda, first in DRIVER_OF_CUDA if version_numbers(first) <= version_numbers(driver)]
    return known[-1] if known else None


def judge(text: str, offer: Offer) -> Answer:
    """Whether a requirement is satisfied by what a host offers, for one of its GPUs."""
    try:
        alternatives = parse(text)
    except ValueError as error:
        return Answer(None, f"the requirement cannot be read: {error}")
    if not alternatives:
        return Answer(True, "nothing is required")
    answers = [_alternative(conditions, offer) for conditions in alternatives]
    if True in answers:
        return Answer(True, ",".join(map(str, alternatives[answers.index(True)])))
    driver = _first_driver(alternatives)
    if None in answers:
        unknown = [c for conditions in alternatives for c in conditions if _holds(c, offer) is None]
        keys = [key for key in KEYS if any(c.key == key for c in unknown)]
        return Answer(None, "not known of this host: " + ", ".join(keys), driver)
    return Answer(False, _unsatisfied(alternatives, offer), driver)


def _alternative(conditions: Sequence[Condition], offer: Offer) -> bool | None:
    held = [_holds(condition, offer) for condition in conditions]
    if False in held:
        return False
    return None if None in held else True


def _holds(condition: Condition, offer: Offer) -> bool | None:
    """Whether one condition holds; None: not known."""
    if condition.key == "brand":
        if offer.brands is None:
            return None
        return (condition.value in offer.brands) == (condition.operator == "=")
    found = {"cuda": offer.cuda, "driver": offer.driver, "arch": offer.arch}[condition.key]
    if not found or not version_numbers(found):
        return None
    left, right = version_numbers(found), version_numbers(condition.value)
    length = max(len(left), len(right))
    left, right = (numbers + (0,) * (length - len(numbers)) for numbers in (left, right))
    outcomes = {">=": left >= right, "<=": left <= right, "=": left == right, "!=": left != right}
    outcomes.update({">": left > right, "<": left < right})
    return outcomes[condition.operator]


def _unsatisfied(alternatives: Sequence[Sequence[Condition]], offer: Offer) -> str:
    """The requirement in words: its conditions without a brand, and the driver branches that it allows on this GPU."""
    plain = [",".join(map(str, a)) for a in alternatives if all(c.key != "brand" for c in a)]
    branded = [a for a in alternatives if any(c.key == "brand" for c in a)]
    ours = [a for a in branded if all(_holds(c, offer) for c in a if c.key == "brand")]
    words = plain or [",".join(map(str, branded[0]))]
    branches = sorted({version_numbers(c.value)[0] for a in ours for c in a if str(c).startswith("driver>=")})
    if branches:
        return " or ".join(words) + ", or a driver of branch " + " or ".join(map(str, branches))
    if plain and branded:
        return " or ".join(words) + "; the driver branches that it allows besides are for GPUs of other brands"
    return " or ".join(words)


def _first_driver(alternatives: Sequence[Sequence[Condition]]) -> str | None:
    """The driver that satisfies the lowest CUDA version which alone is enough."""
    alone = [a[0].value for a in alternatives if len(a) == 1 and a[0].key == "cuda" and a[0].operator == ">="]
    return driver_for(min(alone, key=version_numbers)) if alone else None
