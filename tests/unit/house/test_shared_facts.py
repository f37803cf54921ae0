# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts that Python and YAML must both state, as neither can read the other: they are held together here."""

from __future__ import annotations

import yaml
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.packages import GATEWAY_PACKAGE
from ansible_collections.tandem.vllm.plugins.module_utils.contract import TOPOLOGIES
from ansible_collections.tandem.vllm.plugins.module_utils.placement import DEFAULT_GATEWAY_PORT, GATEWAY_UNIT
from ansible_collections.tandem.vllm.tests.unit.house.tree import ROOT


def test_the_gateways_unit_and_port() -> None:
    role = ROOT / "roles/nginx_gateway"
    assert yaml.safe_load((role / "vars/main.yml").read_text())["__nginx_gateway_unit"] == GATEWAY_UNIT
    assert yaml.safe_load((role / "defaults/main.yml").read_text())["nginx_gateway_port"] == DEFAULT_GATEWAY_PORT


def test_what_a_bundle_fetches_is_what_the_gateway_installs() -> None:
    role = yaml.safe_load((ROOT / "roles/nginx_gateway/vars/main.yml").read_text())
    assert role["__nginx_gateway_distributions"]["Debian"]["package"] == GATEWAY_PACKAGE


def test_the_role_offers_every_topology() -> None:
    spec = yaml.safe_load((ROOT / "roles/contract/meta/argument_specs.yml").read_text())
    assert spec["argument_specs"]["main"]["options"]["contract_topology"]["choices"] == sorted(TOPOLOGIES)
