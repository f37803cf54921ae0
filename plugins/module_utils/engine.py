# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a replica's container, log, metrics and answers together say of its engine."""

from __future__ import annotations

import re

SAMPLE = re.compile(r"^(?P<name>[\w:]+)(?:\{(?P<labels>[^}]*)\})?\s+(?P<value>\S+)", re.MULTILINE)


def metric(text: str, name: str) -> float | None:
    """Sum of a metric's samples in Prometheus text; None when it is not there."""
    values = [float(m["value"]) for m in SAMPLE.finditer(text) if m["name"] == name]
    return sum(values) if values else None


def kv_cache_tokens(text: str) -> int | None:
    """Tokens that the KV cache holds, from vLLM's cache_config_info (blocks × block size); None when not told."""
    for match in SAMPLE.finditer(text):
        if match["name"] == "vllm:cache_config_info":
            labels = dict(re.findall(r'(\w+)="([^"]*)"', match["labels"] or ""))
            blocks, size = labels.get("num_gpu_blocks", ""), labels.get("block_size", "")
            if blocks.isdigit() and size.isdigit():
                return int(blocks) * int(size)
    return None


def requests_in_engine(text: str) -> int | None:
    """Requests that an engine runs or has queued, from its metrics; None when they do not say."""
    counts = [metric(text, "vllm:num_requests_running"), metric(text, "vllm:num_requests_waiting")]
    known = [c for c in counts if c is not None]
    return int(sum(known)) if known else None
