# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attributes of the modules that read and never change anything."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    support: full
    description: Can run in check mode; it changes nothing in either mode.
  diff_mode:
    support: none
    description: There is nothing to show a difference of.
  idempotent:
    support: full
    description: Runs any number of times with the same result.
"""
