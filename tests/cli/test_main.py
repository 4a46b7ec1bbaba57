from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from headrace.cli.main import VERBS, main
from headrace.errors import BudgetError, HeadraceError, UsageError


def headrace(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headrace", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_every_verb_ends_with_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([verb, "--help"])
    assert left.value.code == 0
    assert f"headrace {verb}" in capsys.readouterr().out.split("example")[-1]


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_promises_the_same_in_both_places(verb: str) -> None:
    assert VERBS[verb] == import_module(f"headrace.cli.{verb}").HELP


def test_help_lists_every_verb_and_says_what_exit_codes_mean(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert all(f"    {verb} " in shown for verb in VERBS)
    assert "exit codes" in shown


@pytest.mark.parametrize("arguments", [[], ["tokenise"], ["verify"], ["verify", "x", "--unknown"]])
def test_bad_usage_exits_with_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.startswith("headrace 0.")


@pytest.mark.parametrize(("error", "code"), [(UsageError("no"), 2), (BudgetError("no"), 1)])
def test_a_deliberate_error_is_one_message_and_its_exit_code(
    error: HeadraceError, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr("headrace.cli.verify.run", fail)
    assert main(["verify", "x"]) == code
    assert capsys.readouterr().err == "headrace: no\n"


def test_an_error_cannot_do_anything_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "not\x1b[2J\u202ethere"]) == 2
    told = capsys.readouterr().err
    assert r"not\x1b[2J\u202ethere/manifest.json does not exist" in told
    assert "\x1b" not in told


def test_ctrl_c_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("headrace.cli.verify.run", interrupted)
    assert main(["verify", "x"]) == 130


def test_a_reader_that_leaves_is_told_by_the_exit_code_alone(tmp_path: Path) -> None:
    code = (
        "import sys; from headrace.cli import main, verify\n"
        "verify.run = lambda args: print('x' * 10**7) or 0\n"
        "sys.exit(main.main(['verify', 'x']))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.parametrize("verb", ["tokenize", "verify", "inspect", "plan", "trace", "audit"])
def test_help_imports_nothing_heavy(verb: str) -> None:
    code = (
        "import sys; from headrace.cli.main import main\n"
        f"try: main(['{verb}', '--help'])\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'pyarrow', 'numba', 'tokenizers'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_module_runs_like_the_command() -> None:
    assert headrace("tokenize", "--help").returncode == 0
