# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.engine import kv_cache_tokens, metric, requests_in_engine

# Of a real vLLM 0.32 on CPU.
METRICS = (Path(__file__).resolve().parents[3] / "fixtures" / "engine_logs" / "metrics.txt").read_text("utf-8")
BUSY = """\
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 1.0
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 2.0
"""


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        (METRICS, "vllm:prompt_tokens_total", 72.0),
        (METRICS, "vllm:num_requests_running", 0.0),
        (METRICS, "vllm:kv_cache_usage_perc", 0.0),
        (METRICS, "python_info", 1.0),
        (METRICS, "vllm:prompt_tokens", None),
        (METRICS, "HELP", None),
        (BUSY, "vllm:num_requests_running", 4.0),
        ("process_open_fds 12.0\n", "process_open_fds", 12.0),
        ("process_start_time_seconds 1.7959751e+09", "process_start_time_seconds", 1795975100.0),
        ("", "x", None),
    ],
)
def test_metric(text: str, name: str, value: float | None) -> None:
    assert metric(text, name) == value


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (METRICS, 0),
        (BUSY, 6),
        ("vllm:num_requests_running 2.0\n", 2),
        ("vllm:num_requests_waiting 2.0\n", 2),
        ("vllm:request_success_total 2.0\n", None),
        ('{"error":"Unauthorized"}', None),
    ],
)
def test_requests_in_engine(text: str, count: int | None) -> None:
    assert requests_in_engine(text) == count


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (METRICS, 524288),  # as its log says: "CPU KV cache size: 524,288 tokens"
        ('vllm:cache_config_info{block_size="16",num_gpu_blocks="43823"} 1.0', 701168),
        ('vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1.0', None),
        ("vllm:cache_config_info 1.0", None),
        ("", None),
    ],
)
def test_kv_cache_tokens(text: str, tokens: int | None) -> None:
    assert kv_cache_tokens(text) == tokens
