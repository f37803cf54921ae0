# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.table import display_width, render, wrap

COLUMNS = [{"key": "name", "title": "replica"}, {"key": "node"}]


def test_columns_are_aligned_and_lines_end_without_spaces() -> None:
    assert render(COLUMNS, [{"name": "chat-node1", "node": "n1"}, {"name": "x"}]) == [
        "replica     node",
        "----------  ----",
        "chat-node1  n1",
        "x           -",
    ]


def test_without_rows_the_titles_remain() -> None:
    assert render(COLUMNS, []) == ["replica  node", "-------  ----"]


def test_without_columns_there_is_nothing() -> None:
    assert render([], [{"name": "x"}]) == []


def test_long_cells_are_wrapped_within_the_width() -> None:
    lines = render(COLUMNS, [{"name": "chat", "node": "one two three four five"}], width=20)
    assert lines == [
        "replica  node",
        "-------  -----------",
        "chat     one two",
        "         three four",
        "         five",
    ]


@pytest.mark.parametrize("width", [40, 60, 120])
def test_no_line_is_wider_than_the_width(width: int) -> None:
    row = {"name": "sha256:" + "a" * 64, "node": "words and words " * 20}
    assert all(display_width(line) <= width for line in render(COLUMNS, [row], width))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        ("", "-"),
        ([], "-"),
        (0, "0"),
        (0.5, "0.5"),
        (True, "yes"),
        (False, "no"),
        (["a", "b"], "a, b"),
        ("a\tb", "a b"),
        ("\x1b[31mred\x1b[0m\x07", "red"),
    ],
)
def test_values(value: object, shown: str) -> None:
    assert render([{"key": "k"}], [{"k": value}])[2] == shown


def test_line_ends_in_a_cell_are_kept() -> None:
    assert render([{"key": "k"}, {"key": "l"}], [{"k": "a\nb", "l": "c"}])[2:] == ["a  c", "b"]


def test_wide_letters_take_two_columns() -> None:
    assert render(COLUMNS, [{"name": "模型", "node": "n1"}])[2] == "模型     n1"


def test_a_word_longer_than_the_width_is_cut() -> None:
    assert wrap("ab cdefgh", 3) == ["ab", "cde", "fgh"]
    assert wrap("", 3) == [""]
