# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the house tests look at: the files of this checkout that git tracks or is about to."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def tracked(*patterns: str) -> list[Path]:
    """Files that git tracks, has staged, or would add, relative to the root; `patterns` are git's."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate", "--", *patterns]
    listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted(Path(name) for name in listing.split("\0") if name and (ROOT / name).is_file())


def ids(paths: list[Path]) -> list[str]:
    """Readable names for pytest's parameters."""
    return [str(path) for path in paths]
