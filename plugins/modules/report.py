#!/usr/bin/python
# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name; this file is never run on a host.

from __future__ import annotations

DOCUMENTATION = r"""
---
module: report
short_description: Print a table to the person who runs the playbook
version_added: 0.1.0
description:
  - Prints a title, a table and lines below it as plain text, whatever the verbosity.
  - Runs on the controller and needs no connection to a host.
author:
  - The Tandem contributors (@tandem)
options:
  title:
    description: A line above the table.
    type: str
  columns:
    description: The columns in their order; without any, there is no table.
    type: list
    elements: dict
    default: []
    suboptions:
      key:
        description: Key of the column's values in O(rows).
        type: str
        required: true
      title:
        description: Title of the column; the key when not given.
        type: str
  rows:
    description: The rows; a value that is missing shows as C(-).
    type: list
    elements: dict
    default: []
  footer:
    description: Lines below the table.
    type: list
    elements: str
    default: []
  width:
    description: Longest line, in characters; longer cells are wrapped.
    type: int
    default: 120
attributes:
  action:
    support: full
    description: It is an action plugin.
  check_mode:
    support: full
    description: Prints the same in check mode; it changes nothing in either mode.
  diff_mode:
    support: none
    description: There is nothing to show a difference of.
"""

EXAMPLES = r"""
- name: Show the replicas
  tandem.vllm.report:
    title: Replicas
    columns:
      - {key: name, title: replica}
      - {key: node}
    rows:
      - {name: chat-node1, node: node1}
      - {name: chat-node2, node: node2}
    footer:
      - "endpoint: http://10.0.0.10:8080"
"""

RETURN = r"""
lines:
  description: The lines that were printed.
  returned: success
  type: list
  elements: str
"""
