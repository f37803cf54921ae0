# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an API key must look like, and how to speak of keys without telling them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.placement import fingerprint
from ansible_collections.tandem.vllm.plugins.module_utils.problems import HIDDEN, KINDS

API_KEY = re.compile(r"[A-Za-z0-9._~+/=-]{16,512}")
KEY_WANTED = "must be 16 to 512 characters of A-Z a-z 0-9 . _ ~ + / = -"
KEY_REMEDY = "Make one with 'openssl rand -hex 24' and keep it in ansible-vault"
UNFIT = "unfit"


def key_state(key: Any) -> str | None:
    """A key's fingerprint; UNFIT when it may not be one; None when there is none. The key cannot be told from it."""
    if key is None or key == "":
        return None
    return fingerprint(key) if isinstance(key, str) and API_KEY.fullmatch(key) else UNFIT


def _name(value: Any) -> Any:
    """A client's name; hidden when it is none and could be a key: a user may have mixed the two up."""
    mixed_up = KINDS["name"](value) and key_state(value) not in (None, UNFIT)
    return HIDDEN if mixed_up else value


def key_states(api_keys: Any) -> Any:
    """A list of {name, key} with each key's state in its place; what has another form is handed back without values."""
    if not isinstance(api_keys, (list, tuple)):
        return UNFIT if api_keys else None
    return [
        {str(k): _name(v) if k == "name" else key_state(v) for k, v in entry.items()}
        if isinstance(entry, Mapping)
        else UNFIT
        for entry in api_keys
    ]
