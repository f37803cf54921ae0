# Copyright: (c) 2026, the Tandem contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arrows go one way: the pure layer knows nothing of Ansible or the machine; target-side code runs on old Pythons."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from ansible_collections.tandem.vllm.tests.unit.house.tree import ROOT, ids, tracked

COLLECTION = "ansible_collections.tandem.vllm.plugins."
# What the pure layer may import: values and mathematics. The rest reads or changes the world, or needs Ansible.
# fmt: off
PURE = {
    "__future__", "abc", "base64", "bisect", "collections", "copy", "dataclasses", "datetime", "decimal",
    "difflib", "enum", "fractions", "functools", "hashlib", "hmac", "ipaddress", "itertools", "json", "math",
    "numbers", "operator", "re", "shlex", "statistics", "string", "struct", "textwrap", "typing", "unicodedata",
    "urllib.parse", "uuid", "xml.etree",
}
# fmt: on
IMPURE_CALLS = {"open", "input", "print", "exec", "eval", "__import__"}
IMPURE_ATTRIBUTES = {"datetime.now", "datetime.today", "datetime.utcnow", "date.today", "uuid.uuid1", "uuid.uuid4"}

PURE_FILES = [path for path in tracked("plugins/module_utils/*.py") if path.parent.name != "host"]
TARGET_FILES = tracked("plugins/modules/*.py", "plugins/module_utils/*.py")


def imports(tree: ast.AST) -> list[str]:
    """Full names of the modules that a file imports."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [("." * node.level) + (node.module or "")]
    return names


def is_pure(name: str) -> bool:
    if name.startswith(COLLECTION + "module_utils"):
        return not name.startswith(COLLECTION + "module_utils.host")
    return name in PURE or name.split(".")[0] in PURE


def impurities(source: str) -> list[str]:
    """What in a file's text reaches out of the pure layer."""
    tree = ast.parse(source)
    found = [f"import {name}" for name in imports(tree) if not is_pure(name)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
            found.append(f"{node.func.id}()")
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in IMPURE_ATTRIBUTES:
            found.append(ast.unparse(node))
    return found


@pytest.mark.parametrize("path", PURE_FILES, ids=ids(PURE_FILES))
def test_the_pure_layer_is_pure(path: Path) -> None:
    assert impurities((ROOT / path).read_text()) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import os.path", "import os.path"),
        ("from ansible.module_utils.basic import AnsibleModule", "import ansible.module_utils.basic"),
        ("def f():\n    import socket", "import socket"),
        (f"from {COLLECTION}module_utils.host import docker", f"import {COLLECTION}module_utils.host"),
        ("from . import x", "import ."),
        ("import urllib.request", "import urllib.request"),
        ("x = open('f')", "open()"),
        ("x = datetime.now()", "datetime.now"),
    ],
)
def test_an_impurity_is_seen(source: str, found: str) -> None:
    assert impurities(source) == [found]


@pytest.mark.parametrize("path", TARGET_FILES, ids=ids(TARGET_FILES))
def test_target_side_code_parses_on_python_3_9(path: Path) -> None:
    ast.parse((ROOT / path).read_text(), filename=str(path), feature_version=(3, 9))


def test_newer_syntax_is_seen() -> None:
    with pytest.raises(SyntaxError):
        ast.parse("match x:\n    case 1: pass", feature_version=(3, 9))


@pytest.mark.parametrize("path", tracked("plugins/modules/*.py"), ids=ids(tracked("plugins/modules/*.py")))
def test_modules_reach_into_module_utils_only(path: Path) -> None:
    ours = [name for name in imports(ast.parse((ROOT / path).read_text())) if name.startswith(COLLECTION)]
    assert [name for name in ours if not name.startswith(COLLECTION + "module_utils")] == []
