import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import headrace
from headrace.kernels.locate import epoch_position

_ASK = (
    "import numpy as np\n"
    "from headrace.kernels.locate import epoch_position\n"
    "print([epoch_position(d, 3, 12, 1000, 32, np.uint64(7)) for d in range(20)])\n"
    "print(sum(epoch_position.stats.cache_hits.values()))\n"
)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package without machine code."""
    package = Path(headrace.__file__).parent
    shutil.copytree(package, tmp_path / "headrace", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def ask(root: Path, **environment: str) -> list[str]:
    asked = subprocess.run(
        [sys.executable, "-c", _ASK],
        env={**os.environ, **environment, "PYTHONPATH": str(root)},
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    return asked.stdout.splitlines()


def test_law_1_machine_code_of_another_version_is_not_used(copy: Path) -> None:
    """numba looks only at the file of the function itself; locate.py compiles mix.py and feistel.py into its own."""
    first, again = ask(copy), ask(copy)
    assert (first[1], again[1]) == ("0", "1")
    mix = copy / "headrace" / "kernels" / "mix.py"
    mix.write_text(mix.read_text().replace("0xBF58476D1CE4E5B9", "0xBF58476D1CE4E5BB"))
    changed = ask(copy)
    assert changed[1] == "0"
    assert changed[0] != first[0] == again[0]


def test_a_machine_without_a_directory_for_machine_code_compiles_in_each_process(copy: Path) -> None:
    (copy / "headrace" / "kernels" / "__pycache__").write_text("in the way, as a read-only installation is")
    nowhere = {"HOME": "/dev/null/x", "XDG_CACHE_HOME": "/dev/null/x", "PYTHONDONTWRITEBYTECODE": "1"}
    assert ask(copy, **nowhere)[0] == ask(copy, NUMBA_CACHE_DIR=str(copy / "c"))[0]


def test_machine_code_is_kept_between_processes() -> None:
    """With any numba that is allowed: starting would take seconds more without it."""
    assert type(epoch_position._cache).__name__ == "FunctionCache"  # type: ignore[attr-defined]
