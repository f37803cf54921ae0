# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lets plain pytest import `ansible_collections.tandem.vllm` from this checkout, through the link of `make dev`."""

from __future__ import annotations

import os
from pathlib import Path


def use_the_checkout() -> None:
    """Install Ansible's own collection loader, pointed at this checkout; ansible-test has done that itself already."""
    if "ansible_pytest_collections" in os.environ.get("PYTEST_PLUGINS", ""):
        return
    from ansible.plugins.loader import init_plugin_loader
    from ansible.utils.collection_loader import AnsibleCollectionConfig

    collections = Path(__file__).resolve().parent.parent / "collections"
    if not (collections / "ansible_collections/tandem/vllm/galaxy.yml").is_file():
        raise RuntimeError(f"{collections} has no link to this checkout: run `make dev` first")
    if AnsibleCollectionConfig.collection_finder is None:
        init_plugin_loader([str(collections)])


use_the_checkout()
