"""`headrace.__all__` is what is really there, and what a type checker is told is there."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import headrace


def test_every_exported_name_exists_and_lives_where_the_package_says() -> None:
    for name in headrace.__all__:
        value = getattr(headrace, name)
        if name != "__version__":
            assert value.__module__ == headrace._HOMES[name], name


def test_exports_are_sorted_complete_and_the_same_for_a_type_checker() -> None:
    assert headrace.__all__ == sorted(headrace.__all__)
    assert set(headrace.__all__) == set(headrace._HOMES) | {"__version__"}
    assert set(headrace.__all__) <= set(dir(headrace))
    tree = ast.parse(Path(headrace.__file__).read_text(encoding="utf-8"))
    checked = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert checked == headrace._HOMES


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(headrace, "Lodaer")


def test_importing_headrace_imports_none_of_its_parts() -> None:
    code = "import headrace, sys; print([m for m in sys.modules if m.startswith('headrace.')])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
