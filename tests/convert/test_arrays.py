from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.convert import arrays
from headrace.convert.flat import Every, Separated
from headrace.convert.token_file import INTEGERS
from headrace.errors import HeadraceError, InputError, UsageError
from tests.convert.readers import read_all


def saved(path: Path, array: Any, **options: Any) -> str:
    np.save(path, array, **options)
    return str(path)


@pytest.mark.parametrize("dtype", [*INTEGERS, ">i4", ">u2"])
def test_rows_of_a_matrix_are_documents(dtype: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "a.npy", np.arange(12).reshape(4, 3).astype(dtype))
    assert read_all(arrays.open_npy(path, 0, None)) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]


def test_one_row_needs_to_be_told_where_documents_end(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.npy", np.array([1, 0, 2, 3, 0, 4], np.int32))
    assert read_all(arrays.open_npy(path, 0, Separated(0))) == [[1, 0], [2, 3, 0], [4]]
    assert read_all(arrays.open_npy(path, 0, Every(4))) == [[1, 0, 2, 3], [0, 4]]
    with pytest.raises(UsageError, match="--split-after ID"):
        arrays.open_npy(path, 0, None)


def test_a_file_of_objects_is_never_unpickled(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return (Path(tmp_path / "exploded").write_text, ("",))

    path = saved(tmp_path / "a.npy", np.array([Bomb()], object), allow_pickle=True)
    with pytest.raises(InputError, match="token ids are integers"):
        arrays.open_npy(path, 0, Every(1))
    assert not (tmp_path / "exploded").exists()


def header(text: str) -> bytes:
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"), "'float32'; token ids are integers"),
        (header("{'descr': '<u2', 'fortran_order': False, 'shape': (2, 2, 2)}"), "expected one row or a matrix"),
        (header("{'descr': '<u2', 'fortran_order': False, 'shape': ()}"), "expected one row or a matrix"),
        (header("{'descr': '<u2', 'fortran_order': False, 'shape': (0,)}"), "expected one row or a matrix"),
        (header("{'descr': '<u2', 'fortran_order': True, 'shape': (2, 2)}"), "stored by columns"),
        (header("{'descr': '<u2', 'fortran_order': False, 'shape': (99999999999999, 99999999999)}"), "cut short"),
        (header("{'descr': '<u2', 'fortran_order': False, 'shape': (-1, 4)}"), "array of shape"),
        (header("{'descr': '<u2', 'fortran_order': False, 'shape': (2,)} "), "cut short or damaged"),
        (header("__import__('os').system('false')"), "not a .npy file that can be read"),
        (header("(" * 5000), "not a .npy file that can be read"),
        (b"\x93NUMPY\x09\0xxxxxx", "not a .npy file that can be read"),
        (b"\x93NUMPY", "not a .npy file that can be read"),
    ],
)  # fmt: skip
def test_a_header_that_cannot_be_is_refused(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(data)
    with pytest.raises(InputError, match=message):
        arrays.open_npy(str(path), 0, None)


def test_separators_are_not_for_a_matrix(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.npy", np.ones((2, 2), np.uint8))
    with pytest.raises(UsageError, match="each row of which is a document"):
        arrays.open_npy(path, 0, Separated(0))


def llmc(tokens: Any, magic: int, version: int, count: int | None = None) -> bytes:
    head = np.zeros(256, "<i4")
    head[:3] = magic, version, len(tokens) if count is None else count
    return head.tobytes() + bytes(tokens.tobytes())


@pytest.mark.parametrize(("dtype", "magic", "version"), [("<u2", 20240520, 1), ("<u4", 20240801, 7)])
def test_files_of_llm_c_say_their_type_and_length(
    dtype: str, magic: int, version: int, tmp_path: Path
) -> None:
    path = tmp_path / "fineweb_train_000001.bin"
    tokens = np.array([9, 1, 2, 9, 3], dtype)
    path.write_bytes(llmc(tokens, magic, version))
    assert read_all(arrays.open_raw(str(path), 0, Separated(9, before=True), None)) == [[9, 1, 2], [9, 3]]
    path.write_bytes(llmc(tokens, magic, version, count=6))
    with pytest.raises(InputError, match="5 tokens, but its header says 6"):
        arrays.open_raw(str(path), 0, Every(1), None)
    with pytest.raises(InputError, match="and --dtype says int64"):
        arrays.open_raw(str(path), 0, Every(1), "int64")


@pytest.mark.parametrize(
    ("data", "dtype", "error", "message"),
    [
        (b"\1\2", None, UsageError, "give --dtype"),
        (b"\1\2\3", "uint16", InputError, "3 bytes of tokens"),
        (b"", "uint16", InputError, "empty, cut short"),
    ],
)
def test_raw_integers_have_to_be_told_apart(
    data: bytes, dtype: str | None, error: type[HeadraceError], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "train.bin"
    path.write_bytes(data)
    with pytest.raises(error, match=message):
        arrays.open_raw(str(path), 0, Every(1), dtype)
