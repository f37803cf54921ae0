# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: nginx_gateway_problems
author: The Tandem contributors (@tandem)
version_added: 0.1.0
short_description: What is wrong with the inputs of the role nginx_gateway
description:
  - Judges the role's variables before anything changes. Values of keys are not told.
options:
  _input:
    description: The role's variables, named without C(nginx_gateway_).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Judge the inputs
  ansible.builtin.assert:
    that: (settings | tandem.vllm.nginx_gateway_problems) | length == 0
"""

RETURN = r"""
_value:
  description: One message a problem; empty where all is well.
  type: list
  elements: str
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.nginx.settings import problems_of


def nginx_gateway_problems(settings: Mapping[str, Any]) -> list[str]:
    return [str(problem) for problem in problems_of(settings).found]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"nginx_gateway_problems": nginx_gateway_problems}
