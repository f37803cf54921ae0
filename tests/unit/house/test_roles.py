# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A role's defaults and its argument spec say the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.tandem.vllm.tests.unit.house.tree import ROOT, ids, tracked

ROLES = sorted({Path(*path.parts[:2]) for path in tracked("roles/*")})


def options(role: Path) -> dict[str, dict[str, Any]]:
    spec = yaml.safe_load((ROOT / role / "meta/argument_specs.yml").read_text())
    return spec["argument_specs"]["main"].get("options", {})


def defaults(role: Path) -> dict[str, Any]:
    path = ROOT / role / "defaults/main.yml"
    return (yaml.safe_load(path.read_text()) or {}) if path.exists() else {}


def spec_problems(role: str, spec: dict[str, dict[str, Any]], values: dict[str, Any]) -> list[str]:
    """What differs between an argument spec's options and defaults/main.yml, in words."""
    problems = [f"{name} is not named {role}_*" for name in {**spec, **values} if not name.startswith(f"{role}_")]
    problems += [f"{name} is in defaults but not in the argument spec" for name in values if name not in spec]
    for name, option in spec.items():
        if option.get("required"):
            problems += [f"{name} is required and has a default"] if "default" in option or name in values else []
        elif ("default" in option) != (name in values):
            problems += [f"{name} has a default in only one of the two"]
        elif "default" in option and option["default"] != values[name]:
            problems += [f"{name} is {values[name]!r} in defaults and {option['default']!r} in the argument spec"]
    if not problems and [name for name in spec if name in values] != list(values):
        problems = ["the order differs"]
    return problems


@pytest.mark.parametrize("role", ROLES, ids=ids(ROLES))
def test_defaults_and_argument_spec_agree(role: Path) -> None:
    assert spec_problems(role.name, options(role), defaults(role)) == []


@pytest.mark.parametrize("role", ROLES, ids=ids(ROLES))
def test_every_option_is_described(role: Path) -> None:
    assert [name for name, option in options(role).items() if not option.get("description")] == []


@pytest.mark.parametrize(
    ("spec", "values", "problem"),
    [
        ({"r_a": {"default": 1}}, {"r_a": 2}, "r_a is 2 in defaults and 1 in the argument spec"),
        ({"r_a": {"default": 1}}, {}, "r_a has a default in only one of the two"),
        ({"r_a": {}}, {"r_a": 1}, "r_a has a default in only one of the two"),
        ({}, {"r_a": 1}, "r_a is in defaults but not in the argument spec"),
        ({"r_a": {"required": True}}, {"r_a": 1}, "r_a is required and has a default"),
        ({"other": {}}, {}, "other is not named r_*"),
        ({"r_a": {"default": 1}, "r_b": {"default": 2}}, {"r_b": 2, "r_a": 1}, "the order differs"),
    ],
)
def test_a_difference_is_seen(spec: dict[str, Any], values: dict[str, Any], problem: str) -> None:
    assert spec_problems("r", spec, values) == [problem]
