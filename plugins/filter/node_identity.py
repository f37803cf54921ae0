# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the nodes of a rank group, in data and in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.tandem.vllm.plugins.module_utils.identity import judge
from ansible_collections.tandem.vllm.plugins.module_utils.placement import plain


def _expected(name: str, given: Any) -> dict[str, Any]:
    expected: dict[str, Any] = plain(given)
    if not isinstance(expected, dict) or not expected.get("addresses"):
        raise AnsibleFilterError(f"{name}: expected must be {{addresses: {{node: address}}, gpus: {{node: number}}}}")
    return expected


def rank_group_problems(
    nodes: Mapping[str, Mapping[str, Any]], cluster: Mapping[str, Any] | None, expected: Mapping[str, Any]
) -> list[dict[str, str]]:
    return judge.problems(plain(nodes), plain(cluster), _expected("rank_group_problems", expected))


def rank_group_unchecked(
    nodes: Mapping[str, Mapping[str, Any]], cluster: Mapping[str, Any] | None, expected: Mapping[str, Any]
) -> list[str]:
    return judge.unchecked(plain(nodes), plain(cluster), _expected("rank_group_unchecked", expected))


def rank_group_message(problems: Sequence[Mapping[str, str]], headline: str = judge.HEADLINE) -> str:
    return judge.message(plain(list(problems)), headline)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "rank_group_message": rank_group_message,
            "rank_group_problems": rank_group_problems,
            "rank_group_unchecked": rank_group_unchecked,
        }
