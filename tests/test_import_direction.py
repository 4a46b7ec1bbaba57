"""Who may import whom: errors <- manifests <- kernels <- dataeng <- tokenize <- convert; train and cli are imported by nobody.

The rule is read off the source, so an import inside a function counts; three exceptions, all named below.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import headrace

PACKAGE = Path(headrace.__file__).parent

MAY_IMPORT = {
    "errors": set[str](),
    "manifests": {"errors"},
    "kernels": {"errors", "manifests"},
    "dataeng": {"errors", "manifests", "kernels"},
    "tokenize": {"errors", "manifests", "kernels", "dataeng"},
    "convert": {"errors", "manifests", "kernels", "dataeng", "tokenize"},
    "train": {"errors", "manifests", "kernels", "dataeng", "tokenize"},
    "cli": {"errors", "manifests", "kernels", "dataeng", "tokenize", "convert"},
    "__main__": {"cli"},
    "__init__": {"errors", "manifests", "dataeng"},  # lazily, by name; the type checker's block names them
}
TORCH_FREE = {
    "errors",
    "manifests",
    "kernels",
    "dataeng",
    "tokenize",
    "convert",
    "cli",
    "__main__",
    "__init__",
}
# `headrace train` needs the trainer and torch, once it is known that a run is wanted: inside a function of this file.
MAY_IMPORT_TRAIN_AND_TORCH_LATE = {"cli/train.py"}
# Kernels for the GPU, which only the trainer imports.
GPU_KERNELS = ("kernels/moe/", "kernels/loss/")


class Import(NamedTuple):
    file: str
    line: int
    module: str
    at_top: bool

    @property
    def layer(self) -> str:
        return self.file.removesuffix(".py").split("/")[0]

    @property
    def target_layer(self) -> str | None:
        """The part of headrace that is imported; None for anything else, '__init__' for the package itself."""
        root, _, rest = self.module.partition(".")
        if root != "headrace":
            return None
        return rest.partition(".")[0] or "__init__"

    def __str__(self) -> str:
        return f"headrace/{self.file}:{self.line} imports {self.module}"


def imports_of(source: str, file: str) -> Iterator[Import]:
    tree = ast.parse(source, file)
    late = {id(node) for outer in ast.walk(tree) if isinstance(outer, _FUNCTIONS) for node in ast.walk(outer)}
    package = ["headrace", *file.split("/")[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, node.module] if node.module else base)
            # `from headrace import kernels` imports a part, `from headrace.errors import X` a name of one.
            modules = [f"headrace.{alias.name}" for alias in node.names] if module == "headrace" else [module]
        else:
            continue
        for module in modules:
            yield Import(file, node.lineno, module, id(node) not in late)


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

ALL_IMPORTS = [
    found
    for path in sorted(PACKAGE.rglob("*.py"))
    for found in imports_of(path.read_text(encoding="utf-8"), path.relative_to(PACKAGE).as_posix())
]


def is_late_and_allowed(found: Import) -> bool:
    return found.file in MAY_IMPORT_TRAIN_AND_TORCH_LATE and not found.at_top


def test_every_part_of_the_package_has_a_place_in_the_order() -> None:
    assert {found.layer for found in ALL_IMPORTS} <= set(MAY_IMPORT)


def test_imports_point_one_way() -> None:
    wrong = [
        str(found)
        for found in ALL_IMPORTS
        if found.target_layer not in (None, found.layer)
        and found.target_layer not in MAY_IMPORT[found.layer]
        and not (found.target_layer == "train" and is_late_and_allowed(found))
        # A public name through the front door is as good as through its home, where that home is allowed.
        and not (found.target_layer in headrace._HOMES or found.module == "headrace.__version__")
    ]
    assert not wrong, "\n".join(wrong)


def test_only_the_trainer_imports_torch() -> None:
    wrong = [
        str(found)
        for found in ALL_IMPORTS
        if found.module.split(".")[0] in ("torch", "triton")
        and found.layer in TORCH_FREE
        and not found.file.startswith(GPU_KERNELS)
        and not is_late_and_allowed(found)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("folder", GPU_KERNELS)
def test_only_the_trainer_imports_kernels_for_the_gpu(folder: str) -> None:
    package = "headrace." + folder.replace("/", ".")
    importers = {found.file for found in ALL_IMPORTS if f"{found.module}.".startswith(package)}
    assert any(file.startswith("train/") for file in importers)
    assert all(file.startswith((folder, "train/")) for file in importers)


def test_the_command_line_imports_its_work_late() -> None:
    heavy = {"numpy", "pyarrow", "numba", "tokenizers", "fsspec", "yaml", "pydantic", "zstandard"}
    wrong = [
        str(found)
        for found in ALL_IMPORTS
        if found.at_top and found.layer in ("cli", "__main__") and found.module.split(".")[0] in heavy
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("source", "module", "at_top"),
    [
        ("import torch.nn", "torch.nn", True),
        ("def f():\n  from headrace import train", "headrace.train", False),
        ("from ..train import loop", "headrace.train", True),
        ("from . import plan", "headrace.dataeng", True),
        ("f = lambda: __import__('x')\nfrom headrace.cli.main import main", "headrace.cli.main", True),
    ],
)
def test_the_reader_of_imports_sees_each_form(source: str, module: str, at_top: bool) -> None:
    (found,) = imports_of(source, "dataeng/plan.py")
    assert (found.module, found.at_top) == (module, at_top)


def modules_loaded_by(*arguments: str) -> set[str]:
    """Top-level modules that `python -X importtime -m headrace ARGUMENTS` loads."""
    command = [sys.executable, "-X", "importtime", "-m", "headrace", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    loaded = {
        line.rpartition("|")[2].strip()
        for line in done.stderr.splitlines()
        if line.startswith("import time:")
    }
    assert "headrace" in loaded
    return {name.split(".")[0] for name in loaded}


@pytest.mark.parametrize(
    "verb",
    [
        "tokenize",
        "adopt",
        "export",
        "merge",
        "filter",
        "versions",
        "verify",
        "inspect",
        "plan",
        "train",
        "trace",
        "audit",
    ],
)
def test_help_is_shown_before_anything_heavy_is_loaded(verb: str) -> None:
    assert not modules_loaded_by(verb, "--help") & {
        "torch",
        "numpy",
        "pyarrow",
        "numba",
        "tokenizers",
        "fsspec",
    }
