# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program that tries imports in the Python that runs it. Its text is handed to that Python with `-c`.

So it imports the standard library only, and has to run on any Python since 3.8. What it prints is read by
module_utils/bundle/target_proof.py: modules print what they like, so the answer has a mark; and a library that does not
fit may end the process, so each import is told before it is tried.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import sys
from collections.abc import Iterable
from importlib import machinery
from typing import Any

ANSWER = "tandem-imports:"
TRYING = "tandem-imports-now:"
# Packages that are not meant to be imported, though some projects leave them at the top.
ASIDE = {"benchmarks", "doc", "docs", "example", "examples", "scripts", "test", "testing", "tests"}


def topmost(files: Iterable[tuple[str, ...]]) -> list[str]:
    """Dotted names of the topmost packages and modules among files, given as parts of their paths.

    Of a namespace package, which has no __init__.py, the packages right below it.
    """
    found = set()
    for parts in files:
        if parts[-1] == "__init__.py":
            found.add(parts[:-1])
        elif len(parts) == 1:
            suffix = next((end for end in machinery.all_suffixes() if parts[0].endswith(end)), None)
            if suffix:
                found.add((parts[0][: -len(suffix)],))
    tops = [parts for parts in found if parts and not any(parts[:n] in found for n in range(1, len(parts)))]
    return sorted(".".join(parts) for parts in tops if _is_public(parts) and not ASIDE.intersection(parts))


def _is_public(parts: tuple[str, ...]) -> bool:
    return all(part.isidentifier() and not part.startswith("_") for part in parts)


def names_of(project: str) -> list[str] | None:
    """What a project brings to be imported; None where it is not installed."""
    try:
        files = importlib.metadata.distribution(project).files or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return topmost(file.parts for file in files)


def attempt(modules: Iterable[str], projects: Iterable[str]) -> dict[str, str | None]:
    """None or the error, by module; by project where one is not installed."""
    answer: dict[str, str | None] = {}
    names = list(modules)
    for project in projects:
        found = names_of(project)
        if found is None:
            answer[project] = "is not installed"
        else:
            names += found
    for name in dict.fromkeys(names):
        sys.stderr.write(f"{TRYING} {name}\n")
        sys.stderr.flush()
        try:
            importlib.import_module(name)
            answer[name] = None
        except BaseException as error:  # a module may even call sys.exit
            answer[name] = f"{type(error).__name__}: {error}"
    return answer


def main(argument: str) -> None:
    """Try what a JSON text lists: [modules, projects]."""
    listed: Any = json.loads(argument)
    sys.stdout.write("\n" + ANSWER + json.dumps(attempt(*listed)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    # `python -c` would look for modules in the current folder.
    if sys.path and sys.path[0] in ("", os.getcwd()):
        del sys.path[0]
    main(sys.argv[1])
    # What a module leaves running is not waited for.
    os._exit(0)
