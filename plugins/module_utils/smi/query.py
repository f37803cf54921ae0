# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the text of `nvidia-smi -q`."""

from __future__ import annotations

import re

from ansible_collections.tandem.vllm.plugins.module_utils.smi import tree as smi_tree
from ansible_collections.tandem.vllm.plugins.module_utils.smi.tree import Node
from ansible_collections.tandem.vllm.plugins.module_utils.smi.values import BUS_ID, Reading

HEADING = re.compile(r"(?P<before>^|.*\s)GPU (?P<bus>" + BUS_ID + r")\s*$")
# Where somebody kept only the part below the heading.
FIRST_LABEL = re.compile(r"(?P<before>\s*)Product Name\s*:\s*\S")
LABEL = re.compile(r"(?P<label>\S.*?)\s*:(?:\s+(?P<value>.*?))?\s*$")


def _lines_of(before: str, line: str) -> str:
    """A line with the log prefix that also stood before the heading replaced by blanks."""
    if before.strip() and line.startswith(before):
        return " " * len(before) + line[len(before) :]
    return line


def parse(text: str) -> tuple[Reading, set[int]]:
    """What the text says, and the numbers of the lines that belong to it."""
    reading = Reading()
    used: set[int] = set()
    blocks: list[tuple[str | None, Node]] = []
    before, base = "", -1
    stack: list[tuple[int, Node]] = []
    for number, raw in enumerate(text.split("\n")):
        heading = HEADING.match(raw)
        if heading:
            before, base = heading["before"], len(heading["before"])
            blocks.append((heading["bus"], Node("gpu")))
            stack = [(base, blocks[-1][1])]
            used.add(number)
            continue
        line = _lines_of(before, raw).expandtabs()
        content = line.strip()
        indent = len(line) - len(line.lstrip())
        if stack and content and indent <= base:
            stack = []
        if not stack:
            first = FIRST_LABEL.match(raw)
            if not first:
                continue
            before, base = "", len(first["before"]) - 1
            blocks.append((None, Node("gpu")))
            stack = [(base, blocks[-1][1])]
        if not content:
            continue
        while len(stack) > 1 and indent <= stack[-1][0]:
            stack.pop()
        found = LABEL.match(content)
        node = Node(smi_tree.key(found["label"]), found["value"] or "") if found else Node(smi_tree.key(content))
        stack[-1][1].children.append(node)
        stack.append((indent, node))
        used.add(number)
    for index, (bus_id, node) in enumerate((bus, node) for bus, node in blocks if node.children):
        gpu, processes, model = smi_tree.read_gpu(node, index, bus_id)
        reading.gpus.append(gpu)
        reading.processes += processes
        reading.driver_model = reading.driver_model or model
    return reading, used
