# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Speaks of API keys without telling them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils import api_keys


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"key_state": api_keys.key_state, "key_states": api_keys.key_states}
