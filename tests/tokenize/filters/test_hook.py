from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.errors import UsageError
from headrace.tokenize.filters.config import FilterConfig
from headrace.tokenize.filters.hook import Hook, HookSource, find_hook, load_hook
from headrace.tokenize.filters.prepare import prepare


@pytest.fixture(autouse=True)
def in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules that a test loads are gone behind it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.setattr(sys, "modules", sys.modules.copy())


def write(source: str, path: str = "pii.py") -> Path:
    file = Path.cwd() / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(source)
    return file


def applied(source: str, texts: list[str]) -> list[str | None]:
    """What is made of `texts`; None where one is left out."""
    write(source)
    column, left_out = Hook(find_hook("pii:clean")).apply(pa.array(texts, pa.large_string()), "row {}".format)
    return [None if out else text for text, out in zip(column.to_pylist(), left_out.tolist(), strict=True)]


def test_texts_come_back_as_they_are_or_changed_or_not_at_all() -> None:
    source = "def clean(texts):\n    return [None if 'drop' in text else text.upper() for text in texts]\n"
    assert applied(source, ["a", "drop it", "ß\0"]) == ["A", None, "SS\0"]


@pytest.mark.parametrize("nothing", ["", " ", "\t\n\r\x0b\x0c "])
def test_a_text_of_which_nothing_is_left_is_left_out(nothing: str) -> None:
    assert applied(f"def clean(texts):\n    return [{nothing!r}, texts[1]]\n", ["a", "b"]) == [None, "b"]


def test_any_callable_that_gives_back_a_tuple_will_do() -> None:
    source = (
        "class Clean:\n    def __call__(self, texts):\n        return tuple(texts)\n\n\nclean = Clean()\n"
    )
    assert applied(source, ["a"]) == ["a"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "return texts[1:]",
            r"for row 0 and 2 more, a list of 2; expected a list with a str or None for each",
        ),
        ("return None", r"a NoneType; expected a list"),
        ("return 'abc'", r"a str; expected a list"),
        ("return ['a', 5, 'b']", r"for row 1, a int; expected a str, or None to leave"),
        ("return [b'a', 'a', 'b']", r"for row 0, a bytes; expected a str"),
        ("return ['a', 'b', '\\ud800']", r"for row 2, a text with half of a surrogate pair"),
    ],
)
def test_what_is_not_a_text_for_each_is_refused_and_the_row_named(body: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        applied(f"def clean(texts):\n    {body}\n", ["x", "y", "z"])


@pytest.mark.parametrize("error", ["ValueError('no')", "SystemExit('no')", "MemoryError('no')"])
def test_an_exception_names_the_document_for_which_it_is_raised_and_the_line(error: str) -> None:
    source = f"def clean(texts):\n    if 'bad' in texts:\n        raise {error}\n    return texts\n"
    kind = error.partition("(")[0]
    with pytest.raises(UsageError, match=rf"--hook pii:clean for row 2: {kind}: no \(.*pii\.py:3\)"):
        applied(source, ["a", "b", "bad", "c"])


def test_an_exception_for_no_text_alone_names_them_all() -> None:
    source = "def clean(texts):\n    assert len(texts) == 1\n    return texts\n"
    with pytest.raises(UsageError, match="for 2 texts together, first row 0: AssertionError"):
        applied(source, ["a", "b"])


@pytest.mark.parametrize(
    "source",
    [
        "def clean(texts):\n    return [f'{n} {text}' for n, text in enumerate(texts)]\n",
        "calls = []\ndef clean(texts):\n    calls.append(0)\n    return [text + str(len(calls)) for text in texts]\n",
    ],
    ids=["by its place in the batch", "by what was before"],
)
def test_a_hook_whose_result_depends_on_more_than_the_text_is_caught(source: str) -> None:
    with pytest.raises(UsageError, match="another result alone than together with others"):
        applied(source, ["text"] * 64)


def test_its_hash_is_that_of_the_file_and_stands_beside_its_name() -> None:
    path = write("def clean(texts):\n    return texts\n")
    described = prepare(FilterConfig(hook="pii:clean")).described()
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    assert described == {"hook": "pii:clean", "hook_sha256": sha256}


def test_what_runs_is_what_was_read_though_the_file_has_changed_or_gone() -> None:
    path = write("def clean(texts):\n    return ['as read' for _ in texts]\n")
    hook = find_hook("pii:clean")
    path.unlink()
    assert load_hook(hook)(["a"]) == ["as read"]


def test_a_module_of_a_package_finds_its_neighbours_and_what_lies_beside_the_package() -> None:
    write("", "tools/__init__.py")
    write("SIGN = '!'\n", "tools/signs.py")
    write("def shout(text):\n    return text.upper()\n", "shouting.py")
    write(
        "from shouting import shout\nfrom .signs import SIGN\n\n"
        "def clean(texts):\n    return [shout(text) + SIGN for text in texts]\n",
        "tools/pii.py",
    )
    assert load_hook(find_hook("tools.pii:clean"))(["a"]) == ["A!"]


def test_a_module_on_the_python_path_is_found_from_any_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("def clean(texts):\n    return texts\n", "elsewhere/on_the_path.py")
    monkeypatch.syspath_prepend(str(path.parent))
    assert find_hook("on_the_path:clean").path == str(path)


def test_a_dataclass_in_the_module_works_as_in_any_module() -> None:
    source = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n\n@dataclass\nclass Mark:\n    sign: str\n\n"
        "def clean(texts):\n    return [text + Mark('.').sign for text in texts]\n"
    )
    assert applied(source, ["a"]) == ["a."]


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        ("pii", "", "expected module:function"),
        ("pii.py:clean:x", "", "expected module:function"),
        ("../pii:clean", "", "expected module:function"),
        ("nowhere:clean", "", "no module 'nowhere' with a source file in"),
        ("sys:exit", "", "no module 'sys' with a source file"),
        ("no.such.package:clean", "", "ModuleNotFoundError: No module named 'no'"),
        ("pii:clean", "def other(texts): ...\n", "has no function 'clean'"),
        ("pii:clean", "clean = 5\n", "has no function 'clean'"),
        ("pii:clean", "def clean(:\n", "cannot be run: SyntaxError"),
        ("pii:clean", "import not_installed\n", "cannot be run: ModuleNotFoundError"),
        ("pii:clean", "raise SystemExit(0)\n", "cannot be run: SystemExit"),
    ],
)
def test_what_cannot_be_a_hook_is_said_before_any_work(name: str, source: str, message: str) -> None:
    write(source)
    with pytest.raises(UsageError, match=message):
        find_hook(name)


def test_a_hook_is_not_put_in_the_place_of_a_module_that_is_in_use() -> None:
    write("def clean(texts):\n    return texts\n", "json.py")
    json: Any = sys.modules["json"] if "json" in sys.modules else __import__("json")
    with pytest.raises(UsageError, match="a module 'json' is in use already"):
        find_hook("json:clean")
    assert sys.modules["json"] is json
    write("def clean(texts):\n    return texts\n", "time.py")  # built in: it comes from no file
    time = sys.modules["time"]
    with pytest.raises(UsageError, match=r"a module 'time' is in use already \(a part of Python\)"):
        find_hook("time:clean")
    assert sys.modules["time"] is time


def test_a_source_does_not_show_in_what_is_printed_of_it() -> None:
    assert "secret" not in repr(HookSource(name="a:b", path="a.py", root=".", source=b"secret"))


def test_the_example_of_the_documentation_does_what_it_says() -> None:
    page = (Path(__file__).parents[3] / "docs" / "filters.md").read_text()
    example = page.partition("```python\n")[2].partition("```")[0]
    texts = [
        "write to Ann.B+c@mail.example.org, or 10.0.0.255; version 1.2.3 of 2024.10.300.1",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nabc",
        "nothing to hide",
    ]
    assert applied(example, texts) == [
        "write to <EMAIL>, or <IP>; version 1.2.3 of 2024.10.300.1",
        None,
        "nothing to hide",
    ]
