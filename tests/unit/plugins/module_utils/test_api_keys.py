# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.api_keys import key_state, key_states

KEY = "sk-Client-Alice-0001"


@pytest.mark.parametrize("key", ["a" * 16, "a" * 512, "AZaz09._~+/=-AZaz09"])
def test_a_fit_key_is_told_by_its_fingerprint(key: str) -> None:
    state = key_state(key)
    assert state not in (None, "unfit", key_state(key[:-1] + "x"))
    assert len(state or "") == 12
    assert state == key_state(key)


@pytest.mark.parametrize("key", ["a" * 15, "a" * 513, KEY + " ", KEY + "\n", KEY + '"', "é" * 20, 10**16, [KEY]])
def test_an_unfit_key(key: Any) -> None:
    assert key_state(key) == "unfit"


@pytest.mark.parametrize("key", [None, ""])
def test_no_key(key: Any) -> None:
    assert key_state(key) is None


@pytest.mark.parametrize(
    ("keys", "states"),
    [
        (None, None),
        ([], []),
        ("", None),
        (KEY, "unfit"),
        ({"alice": KEY}, "unfit"),
        ([KEY], ["unfit"]),
        ([{"name": "alice", "key": KEY}], [{"name": "alice", "key": key_state(KEY)}]),
        ([{"name": "alice", "key": None}], [{"name": "alice", "key": None}]),
        ([{"name": "alice", "kye": KEY}], [{"name": "alice", "kye": key_state(KEY)}]),
        ([{"name": KEY, "key": "alice"}], [{"name": "(hidden)", "key": "unfit"}]),
        ([{"name": "Alice Bob", "key": KEY}], [{"name": "Alice Bob", "key": key_state(KEY)}]),
    ],
)
def test_states_of_a_list(keys: Any, states: Any) -> None:
    assert key_states(keys) == states
    assert KEY not in str(key_states(keys))
