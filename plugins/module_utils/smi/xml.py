# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads `nvidia-smi -q -x` (XML), also when it is cut off or stands between other lines."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from ansible_collections.tandem.vllm.plugins.module_utils.smi import tree as smi_tree
from ansible_collections.tandem.vllm.plugins.module_utils.smi import values as smi_values
from ansible_collections.tandem.vllm.plugins.module_utils.smi.tree import Node
from ansible_collections.tandem.vllm.plugins.module_utils.smi.values import Reading

DOCUMENT = re.compile(r"(?:<\?xml[^>]*\?>\s*)?(?:<!DOCTYPE[^>]*>\s*)?<nvidia_smi_log>.*?(?:</nvidia_smi_log>|\Z)", re.S)
CUT_OFF = "the XML of nvidia-smi is cut off or damaged"


def take_out(text: str) -> tuple[list[str], str]:
    """The XML documents in a text, and the text without them."""
    return [found.group() for found in DOCUMENT.finditer(text)], DOCUMENT.sub("\n", text)


def _node(element: ElementTree.Element) -> Node:
    """An element as a node of the tree."""
    return Node(element.tag.lower(), (element.text or "").strip(), [_node(child) for child in element])


class _Builder(ElementTree.TreeBuilder):
    """Keeps the root and the complete GPUs, for documents that end early."""

    def __init__(self) -> None:
        super().__init__()
        self.root: ElementTree.Element | None = None
        self.complete: list[ElementTree.Element] = []

    def start(self, tag: str, attrs: dict[str, str]) -> ElementTree.Element:
        """Begin an element."""
        element = super().start(tag, attrs)
        self.root = element if self.root is None else self.root
        return element

    def end(self, tag: str) -> ElementTree.Element:
        """End an element."""
        element = super().end(tag)
        if tag == "gpu":
            self.complete.append(element)
        return element


def parse(document: str) -> Reading:
    """What one document says. What stands before a cut is read, and the cut told among the errors."""
    reading = Reading()
    # The document type is only a name; without it no entity can be defined.
    body = document[document.index("<nvidia_smi_log>") :]
    builder = _Builder()
    # Entities, which make XML dangerous, need the document type that was cut off.
    parser = ElementTree.XMLParser(target=builder)  # noqa: S314
    try:
        parser.feed(body)
        parser.close()
    except ElementTree.ParseError:
        reading.errors.append(CUT_OFF)
    root = builder.root
    if root is None:
        return reading
    reading.driver = smi_values.known(root.findtext("driver_version"))
    reading.cuda = smi_values.known(root.findtext("cuda_version"))
    for index, element in enumerate(builder.complete):
        gpu, processes, model = smi_tree.read_gpu(_node(element), index, element.get("id"))
        reading.gpus.append(gpu)
        reading.processes += processes
        reading.driver_model = reading.driver_model or model
    return reading
