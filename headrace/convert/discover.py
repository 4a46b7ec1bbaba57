"""From places to token files: which format each is of, told by its names and its first bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.convert import arrays, datatrove, megatron, mosaic
from headrace.convert.flat import Borders
from headrace.convert.token_file import TokenFile, integer_dtype
from headrace.dataeng.mds import INDEX
from headrace.dataeng.sources.location import expand_glob, is_file, list_directory, open_input
from headrace.dataeng.uris import redact
from headrace.errors import InputError

_GLOB: Final = "*?["
_KNOWN: Final = "a directory with the index.json of an MDS dataset, PREFIX.idx or PREFIX.bin of Megatron, .ds, .npy, or raw integers as .bin"


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """What the caller says of the files; see `AdoptConfig`."""

    column: str | None = None
    dtype: str | None = None
    borders: Borders | None = None


def find(places: Sequence[str], chosen: Chosen) -> list[TokenFile]:
    """Every token file of the places, in their order; files of directories and globs sorted by name.

    Raises:
        InputError: a place with nothing that can be adopted.
        UsageError: a file that does not say enough, with the option that does.
    """
    if chosen.dtype is not None:
        integer_dtype(chosen.dtype, "--dtype")
    files: list[TokenFile] = []
    for place in places:
        before = len(files)
        for path in _paths(place):
            files += _open(path, len(files), chosen)
        if len(files) == before:
            raise InputError(f"{redact(place)}: no file of tokens is there; expected {_KNOWN}")
    return files


def _paths(place: str) -> Iterator[str]:
    """Files that are opened each by itself; the others go with one of them."""
    if not is_file(place) and any(character in place.rpartition("://")[2] for character in _GLOB):
        yield from _leaders(expand_glob(place))
    elif (names := list_directory(place)) is None:
        yield place
    else:
        yield from _leaders(names)


def _leaders(names: list[str]) -> Iterator[str]:
    """Of a listing, the files by which a source is opened: shards of MDS go with their index, .bin with their .idx.

    An index is for all that lies below it: that of a directory of streams, which mosaicml-streaming merges from those of
    the streams, lists the same shards as they do.
    """
    known = set(names)
    indexed = {_parent(name) for name in names if name.rpartition("/")[2] == INDEX}
    for name in names:
        is_index = name.rpartition("/")[2] == INDEX
        if _lies_in(_parent(name) if is_index else name, indexed):
            continue
        has_index = f"{name.removesuffix('.bin')}.idx" in known
        if is_index or name.endswith((".idx", ".ds", ".npy")) or (name.endswith(".bin") and not has_index):
            yield name


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _lies_in(path: str, directories: Collection[str]) -> bool:
    """Whether any directory above `path` is one of them."""
    while "/" in path:
        path = _parent(path)
        if path in directories:
            return True
    return False


def _open(path: str, first: int, chosen: Chosen) -> list[TokenFile]:
    name = path.rpartition("/")[2]
    stem = path.removesuffix(".idx").removesuffix(".bin")
    if name == INDEX:
        directory = path.removesuffix(f"/{INDEX}") if "/" in path else "."
        return list(mosaic.open_dataset(directory, first, column=chosen.column, dtype=chosen.dtype))
    if name.endswith((".idx", ".bin")) and is_file(f"{stem}.idx"):
        return [megatron.open_file(stem, first)]
    if not is_file(path):
        if is_file(f"{path}.idx"):
            return [megatron.open_file(path, first)]
        raise InputError(f"{redact(path)}: no such file or directory; expected {_KNOWN}")
    if name.endswith(".ds"):
        return [datatrove.open_file(path, first, dtype=chosen.dtype)]
    with open_input(path) as file:
        head = file.read(16)
    if head.startswith(arrays.NPY_MAGIC):
        return [arrays.open_npy(path, first, chosen.borders)]
    if head.startswith(b"PK"):
        raise InputError(
            f"{redact(path)}: an archive, as numpy.savez writes; unpack it (`unzip {name}`) and give the .npy files in it"
        )
    if head.startswith(megatron.MAGIC):
        raise InputError(
            f"{redact(path)}: a Megatron index that is not called .idx; rename it beside its .bin"
        )
    return [arrays.open_raw(path, first, chosen.borders, chosen.dtype)]
