# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter that tells whether kept evidence is still true."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.acceptance import says_the_same

DOCUMENTATION = r"""
name: acceptance_same
short_description: Whether kept evidence says the same as new evidence
version_added: 0.1.0
author:
  - The Tandem contributors (@tandem)
description:
  - Compares endpoint, subject, services and the outcome of every check; date and times are left out.
positional: _input, evidence
options:
  _input:
    description: The text of the kept file.
    type: str
    required: true
  evidence:
    description: What M(tandem.vllm.acceptance) returned as C(evidence).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Say whether the file is still true
  ansible.builtin.debug:
    msg: "{{ lookup('ansible.builtin.file', path) | tandem.vllm.acceptance_same(acceptance.evidence) }}"
"""

RETURN = r"""
_value:
  description: True where both say the same; false also where the text is no evidence.
  type: bool
"""


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"acceptance_same": says_the_same}
