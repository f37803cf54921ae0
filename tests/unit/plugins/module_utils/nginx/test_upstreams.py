# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.nginx.upstreams import (
    LastServerError,
    UnknownReplicaError,
    servers,
    with_replica,
)

TEXT = """\
# Written by a role
upstream tandem_chat {
    zone tandem_chat 256k;
    least_conn;
    server 10.0.0.1:8000 max_fails=3 fail_timeout=5s; # replica=chat-0
    server 10.0.0.2:8000 max_fails=3 fail_timeout=5s; # replica=chat-1
    server 10.0.0.9:8000; # someone's own, without a replica's name
}
upstream tandem_embed {
    server 10.0.0.2:8100 down; # replica=embed-0
    server 10.0.0.3:8100; # replica=embed-1
}
"""


def drained(text: str) -> list[str]:
    return [s.replica for s in servers(text) if s.drained]


def test_reads_servers_with_their_upstream() -> None:
    assert [(s.upstream, s.replica, s.address, s.drained) for s in servers(TEXT)] == [
        ("tandem_chat", "chat-0", "10.0.0.1:8000", False),
        ("tandem_chat", "chat-1", "10.0.0.2:8000", False),
        ("tandem_embed", "embed-0", "10.0.0.2:8100", True),
        ("tandem_embed", "embed-1", "10.0.0.3:8100", False),
    ]


def test_marks_one_line_and_no_other() -> None:
    after = with_replica(TEXT, "chat-0", drained=True)
    old, new = TEXT.splitlines(), after.splitlines()
    assert len(old) == len(new)
    changed = [(line, new[i]) for i, line in enumerate(old) if line != new[i]]
    assert changed == [
        (
            "    server 10.0.0.1:8000 max_fails=3 fail_timeout=5s; # replica=chat-0",
            "    server 10.0.0.1:8000 max_fails=3 fail_timeout=5s down; # replica=chat-0",
        )
    ]


@pytest.mark.parametrize("replica", ["chat-0", "chat-1", "embed-1"])
def test_draining_and_back_is_the_same_text(replica: str) -> None:
    there = with_replica(TEXT, replica, drained=True, allow_empty=True)
    assert there != TEXT
    assert with_replica(there, replica, drained=False) == TEXT


def test_what_is_so_already_stays() -> None:
    assert with_replica(TEXT, "embed-0", drained=True) == TEXT
    assert with_replica(TEXT, "chat-1", drained=False) == TEXT


def test_line_ends_are_kept() -> None:
    text = TEXT.replace("\n", "\r\n")
    assert with_replica(text, "chat-0", drained=True).count("\r\n") == text.count("\r\n")
    assert with_replica(TEXT.rstrip("\n"), "chat-0", drained=True).endswith("}")


def test_unknown_replica_names_the_known() -> None:
    with pytest.raises(UnknownReplicaError, match=r"'chat-7'.*known: chat-0, chat-1, embed-0, embed-1"):
        with_replica(TEXT, "chat-7", drained=True)
    with pytest.raises(UnknownReplicaError, match="known: none"):
        with_replica("", "chat-0", drained=True)
    with pytest.raises(UnknownReplicaError):
        with_replica(TEXT, "chat", drained=True)


def test_last_one_is_refused_for_its_own_upstream() -> None:
    text = with_replica(TEXT, "chat-0", drained=True)
    with pytest.raises(LastServerError, match=r"'chat-1' is the last replica of tandem_chat .*chat-0 already drained"):
        with_replica(text, "chat-1", drained=True)
    with pytest.raises(LastServerError, match="embed-1"):
        with_replica(TEXT, "embed-1", drained=True)
    assert drained(with_replica(text, "chat-1", drained=True, allow_empty=True)) == ["chat-0", "chat-1", "embed-0"]


def test_the_only_one_is_said_to_be() -> None:
    with pytest.raises(LastServerError, match="it is the only one"):
        with_replica("upstream a {\n  server h:1; # replica=a-0\n}\n", "a-0", drained=True)


def test_an_empty_upstream_is_not_in_the_way_of_bringing_back() -> None:
    text = with_replica(TEXT, "embed-1", drained=True, allow_empty=True)
    assert drained(with_replica(text, "embed-0", drained=False)) == ["embed-1"]
