# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible_collections.tandem.vllm.plugins.module_utils.bundle.packages import PackagesError
from ansible_collections.tandem.vllm.plugins.module_utils.host import apt


def debian(argv: Sequence[str]) -> tuple[int, str, str]:
    return 0, "amd64\n" if argv[0] == "dpkg" else "apt 2.6.1 (amd64)\n", ""


@pytest.mark.parametrize("place", ["etc/os-release", "usr/lib/os-release"])
def test_the_system_is_read(tmp_path: Path, place: str) -> None:
    (tmp_path / place).parent.mkdir(parents=True)
    (tmp_path / place).write_text('ID=debian\nVERSION_ID="12"\n')
    assert apt.system(debian, str(tmp_path)).name == "debian-12-amd64"


@pytest.mark.parametrize("lacks", ["dpkg", "apt-get"])
def test_a_system_without_apt(tmp_path: Path, lacks: str) -> None:
    with pytest.raises(PackagesError, match="no apt-get and dpkg"):
        apt.system(lambda argv: (127, "", "") if argv[0] == lacks else debian(argv), str(tmp_path))


def test_a_system_without_os_release(tmp_path: Path) -> None:
    with pytest.raises(PackagesError, match="no ID that tells a release"):
        apt.system(debian, str(tmp_path))
