"""What `headrace train` says before and beside the training, which tests/train covers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.main import main


@pytest.mark.parametrize("package", ["yaml", "pydantic"])
def test_without_its_extra_it_says_what_to_install(
    package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("headrace.train")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["train", str(tmp_path / "run.yaml")]) == 2
    assert f"needs the package '{package}'" in capsys.readouterr().err
    assert main(["train", str(tmp_path / "run.yaml")]) == 2
    assert "pip install 'headrace[train]'" in capsys.readouterr().err


def test_torchrun_reports_a_deliberate_error_as_its_message_and_without_a_stack(tmp_path: Path) -> None:
    told, config = tmp_path / "error.json", tmp_path / "run.yaml"
    config.write_text("modle: {}")
    done = subprocess.run(
        [sys.executable, "-m", "headrace", "train", str(config)],
        env={**os.environ, "TORCHELASTIC_ERROR_FILE": str(told)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 2
    assert done.stderr.count("modle: unknown key") == 1
    assert "Traceback" not in done.stderr
    message = json.loads(told.read_text())["message"]
    assert "modle: unknown key" in message["message"]
    assert int(message["extraInfo"]["timestamp"]) > 0
    assert "py_callstack" not in message["extraInfo"]
