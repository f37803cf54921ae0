# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the matrix of `nvidia-smi topo -m`: how GPUs and network adapters are connected."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.tandem.vllm.plugins.module_utils.smi.values import plain

DEVICE = r"(?:GPU\d+|NIC\d+|mlx\d+_\w+|ib\w*\d+|hfi\d+_\d+)"
HEADER = re.compile(r"(?:^|\s)" + DEVICE + r"(?:\s+" + DEVICE + r")*(?:\s+CPU Affinity.*)?\s*$")
LINK = re.compile(r"(?:X|NV\d+|SYS|NODE|PHB|PXB|PIX|PIXB?|SOC|OK|NS|N/A|DIS|C2C)$")
NIC_LEGEND = re.compile(r"^\s*(NIC\d+)\s*:\s*(\S+)")


def parse(text: str) -> dict[str, Any]:
    """{"links": {device: {device: link}}, "nics": {NIC: device name}, "gpu_link": "nvlink"|"pcie"|"mixed"|None}.

    Links keep the tool's words: NV18, SYS, NODE, PHB, PXB, PIX.
    """
    columns: list[str] = []
    links: dict[str, dict[str, str]] = {}
    nics: dict[str, str] = {}
    for line in plain(text).split("\n"):
        legend = NIC_LEGEND.match(line)
        if legend:
            nics[legend[1]] = legend[2]
            continue
        words = line.split()
        # A row begins with its device; a prompt or a log's prefix may stand before it.
        at = next((n for n, word in enumerate(words[:-1]) if re.match(DEVICE + "$", word)), None)
        if at is not None and LINK.match(words[at + 1]):
            row = words[at + 1 : at + 1 + len(columns)]
            links[words[at]] = {
                name: link for name, link in zip(columns, row) if LINK.match(link) and link != "X" and name != words[at]
            }
        elif HEADER.search(line):
            columns = re.findall(DEVICE, line.partition("CPU Affinity")[0])
    # Older drivers have the adapter's name in the matrix itself.
    nics.update({name: name for name in links if not re.match(r"(?:GPU|NIC)\d+$", name)})
    return {"links": links, "nics": nics, "gpu_link": _gpu_link(links)}


def _gpu_link(links: dict[str, dict[str, str]]) -> str | None:
    """What connects the GPUs with each other; None with fewer than two."""
    found = {
        "nvlink" if link.startswith("NV") else "pcie"
        for name, row in links.items()
        for other, link in row.items()
        if name.startswith("GPU") and other.startswith("GPU")
    }
    return "mixed" if len(found) > 1 else next(iter(found), None)
