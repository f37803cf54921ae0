# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules that change the gateway's nginx have in common."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  binary:
    description: The nginx program on the host.
    type: path
    default: /usr/sbin/nginx
  service:
    description: The systemd unit of the nginx instance. It is reloaded when it runs and its configuration changed.
    type: str
    default: tandem-gateway.service
attributes:
  check_mode:
    support: full
    description: The new configuration is validated in check mode as well; nothing is replaced or reloaded.
  diff_mode:
    support: full
    description: Shows the change of each file. The quoted values of secret files are hidden.
  idempotent:
    support: full
    description: Nothing is replaced or reloaded when the files are as wanted.
"""
