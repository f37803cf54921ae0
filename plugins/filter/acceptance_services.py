# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter that hands a placement to the module acceptance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.tandem.vllm.plugins.module_utils.acceptance import services_of

DOCUMENTATION = r"""
name: acceptance_services
short_description: What to check of a placement
version_added: 0.1.0
author:
  - The Tandem contributors (@tandem)
description:
  - Makes the option O(tandem.vllm.acceptance#module:services) from a placement.
positional: _input
options:
  _input:
    description: The placement.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show that what was placed serves
  tandem.vllm.acceptance:
    endpoint: http://10.0.0.10:8080
    services: "{{ contract_placement | tandem.vllm.acceptance_services }}"
"""

RETURN = r"""
_value:
  description: The services, each with the URL of each replica's own API.
  type: list
  elements: dict
"""


def acceptance_services(placement: Mapping[str, Any]) -> list[dict[str, Any]]:
    try:
        return services_of(placement)
    except (KeyError, TypeError, AttributeError) as error:
        raise AnsibleFilterError(f"acceptance_services wants a placement: {error!r}") from error


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"acceptance_services": acceptance_services}
