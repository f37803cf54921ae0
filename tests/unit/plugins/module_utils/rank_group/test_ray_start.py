# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import ast

from ansible_collections.tandem.vllm.plugins.module_utils.rank_group.ray_start import (
    ENTRYPOINT,
    GATE,
    GATE_KILL_SECONDS,
    GATE_SECONDS,
    gate_argv,
    start_argv,
)


def test_head() -> None:
    assert start_argv("10.0.0.1", "10.0.0.1", 4, 2147483648) == [
        "ray",
        "start",
        "--block",
        "--head",
        "--port=6379",
        "--node-ip-address=10.0.0.1",
        "--num-gpus=4",
        "--object-store-memory=2147483648",
        "--disable-usage-stats",
        "--node-manager-port=6380",
        "--object-manager-port=6381",
        "--runtime-env-agent-port=6382",
        "--dashboard-agent-listen-port=6383",
        "--dashboard-agent-grpc-port=6384",
        "--metrics-export-port=6385",
        "--min-worker-port=10002",
        "--max-worker-port=10999",
        "--include-dashboard=false",
        "--ray-client-server-port=6386",
    ]


def test_worker() -> None:
    assert start_argv("10.0.0.2", "10.0.0.1", 1, 1000) == [
        "ray",
        "start",
        "--block",
        "--address=10.0.0.1:6379",
        "--node-ip-address=10.0.0.2",
        "--num-gpus=1",
        "--object-store-memory=1000",
        "--disable-usage-stats",
        "--node-manager-port=6380",
        "--object-manager-port=6381",
        "--runtime-env-agent-port=6382",
        "--dashboard-agent-listen-port=6383",
        "--dashboard-agent-grpc-port=6384",
        "--metrics-export-port=6385",
        "--min-worker-port=10002",
        "--max-worker-port=10999",
    ]


def test_the_entry_point_becomes_what_it_is_given() -> None:
    assert ENTRYPOINT[:2] == ["/bin/sh", "-c"]
    assert ENTRYPOINT[2].endswith('exec "$@"')
    # The shell's own name, so that no argument is taken for it.
    assert ENTRYPOINT[3:] == ["sh"]


def test_gate() -> None:
    assert gate_argv("tandem-chat-gpu1-x2.ray", ["10.0.0.1", "10.0.0.2"], 8) == [
        "docker",
        "exec",
        "tandem-chat-gpu1-x2.ray",
        "timeout",
        "-k",
        "2",
        "60",
        "python3",
        "-c",
        GATE,
        "10.0.0.1,10.0.0.2",
        "8",
        "30",
    ]
    assert GATE_SECONDS < GATE_KILL_SECONDS


def test_the_gate_is_python_3_9() -> None:
    ast.parse(GATE, feature_version=(3, 9))
