"""Who turns text into ids: the definition, or a faster library that has shown to give the same ids.

`tokenizers` is the definition (`Reference`). `fastokens` (`Fast`) is used where it agrees with it on the torture set,
once a process, and on a keyed sample of the documents of each file (`Gate`); everything else falls back. What is
published does not depend on which of the two was at work.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.tokenize.torture import torture_set

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# A text with a longer run of only white space, or of none, goes to the definition: its regular expressions give up on
# some such runs, and then the document is to be rejected whichever library was at work.
LONGEST_RUN: Final = 1 << 20
_SAMPLED: Final = 1024  # one document in so many
_SAMPLE_CHARACTERS: Final = 1 << 15  # of a sampled document
# Of the first document of a file, which is always in the sample: a 256th of the text it comes with, which is all of a small
# file. Otherwise a corpus of very many files would be encoded by the definition for the most part.
_FIRST_SHARE: Final = 256
_FIRST_CHARACTERS: Final = (64, 1 << 11)  # at least and at most
_MOST_IDS: Final = 1 << 22  # with names for holes: a file of a few bytes may have the id 2^32 - 1
_WHITE: Final = np.isin(np.arange(256), list(b" \t\n\r\x0b\x0c"))


class Encoded(NamedTuple):
    """Ids of texts one after another: uint32 ids, int64 offsets [texts + 1]; `failed` are texts without ids to be had."""

    ids: NDArray[np.uint32]
    offsets: NDArray[np.int64]
    failed: tuple[int, ...] = ()


class BackendError(Exception):
    """A library raised or panicked: this text, or this tokenizer, is beyond it."""


class Disagreement(Exception):
    """The fast backend and the definition differ on a document, or the fast one failed; the message says where."""


class Reference:
    """The definition."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def encode(self, texts: Sequence[str]) -> Encoded:
        try:
            return _flat(self._ids(texts))
        except BackendError:
            return self._one_by_one(texts)

    def _one_by_one(self, texts: Sequence[str]) -> Encoded:
        found: list[list[int]] = []
        failed: list[int] = []
        for number, text in enumerate(texts):
            try:
                found += self._ids([text])
            except BackendError:
                failed.append(number)
                found.append([])
        return _flat(found)._replace(failed=tuple(failed))

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        with _library_errors():
            encodings = self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]


@contextmanager
def _library_errors() -> Iterator[None]:
    """Turns what the libraries raise into BackendError: bare Exceptions, and panics, which are BaseExceptions."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 there is no narrower class
        raise BackendError(str(error)[:200]) from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # a class that cannot be imported
            raise
        raise BackendError(str(error)[:200]) from None


def _flat(documents: Sequence[Sequence[int]]) -> Encoded:
    offsets = np.zeros(len(documents) + 1, np.int64)
    np.cumsum([len(ids) for ids in documents], out=offsets[1:])
    ids = np.empty(int(offsets[-1]), np.uint32)
    for begin, end, document in zip(offsets[:-1].tolist(), offsets[1:].tolist(), documents, strict=True):
        ids[begin:end] = document
    ids.flags.writeable = (
        False  # as what comes from the fast backend, so that kernels are compiled for one type
    )
    return Encoded(ids, offsets)


class Fast:
    """fastokens. Construct with `fast_backend`, which asks whether it may be used."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Raises Disagreement if the library fails."""
        try:
            with _library_errors():
                ids, offsets = self._library.encode_batch_flat(texts, False, True)
        except BackendError as error:
            raise Disagreement(f"fastokens failed ({str(error)[:100]})") from None
        return Encoded(np.frombuffer(ids, np.uint32), np.frombuffer(offsets, np.int64))


@dataclass(frozen=True, slots=True)
class Refused:
    """Why the fast backend is not used."""

    reason: str


def fast_backend(data: bytes, reference: Reference) -> Fast | Refused:
    """The fast backend for a tokenizer file if it is installed, supports the file and passes the torture set."""
    return checked(load_fast(data), reference)


def load_fast(data: bytes) -> Fast | Refused:
    """The fast backend, not to be used before it is `checked`. Most of its time is spent outside the interpreter's lock."""
    try:
        import fastokens  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return Refused(
            "fastokens is not installed; pip install 'headrace[fast]' makes this several times faster"
        )
    try:
        return Fast(_loaded(fastokens.Tokenizer.from_json_str, data))
    except BackendError as error:
        return Refused(f"fastokens does not support this tokenizer ({str(error)[:100]})")


def checked(fast: Fast | Refused, reference: Reference) -> Fast | Refused:
    """Holds a fast backend to the torture set, once it has started its threads."""
    if isinstance(fast, Refused):
        return fast
    texts = torture_set(added_tokens(reference))
    try:
        with _one_thread():
            fast.encode(["starts the library's threads"] * 2)
        found = fast.encode(texts)
    except Disagreement as error:
        return Refused(str(error))
    different = differences(found, reference.encode(texts))
    if different:
        return Refused(
            f"fastokens gives other ids for {len(different)} of {len(texts)} texts that tokenizers differ on, such as "
            f"{ascii(texts[different[0]])[:60]}"
        )
    return fast


def added_tokens(reference: Reference) -> list[str]:
    return [token.content for token in reference.tokenizer.get_added_tokens_decoder().values()]


def differences(one: Encoded, other: Encoded) -> list[int]:
    """Positions of texts for which two backends gave other ids, or none."""
    lengths = np.diff(one.offsets), np.diff(other.offsets)
    if np.array_equal(*lengths) and np.array_equal(one.ids, other.ids) and one.failed == other.failed:
        return []
    bounds = zip(one.offsets[:-1], one.offsets[1:], other.offsets[:-1], other.offsets[1:], strict=True)
    return [
        number
        for number, (a, b, c, d) in enumerate(bounds)
        if not np.array_equal(one.ids[a:b], other.ids[c:d])
        or (number in one.failed) != (number in other.failed)
    ]


def _loaded(load: Callable[[str], Any], data: bytes) -> Any:
    """The library's tokenizer. Raises BackendError."""
    try:
        with _library_errors():
            return load(data.decode())
    except BackendError:
        filled = _without_holes(data)
        if filled is None:
            raise
        with _library_errors():
            return load(filled)


def _without_holes(data: bytes) -> str | None:
    """The tokenizer file with a name for every id: fastokens takes no vocabulary with ids that nobody has.

    None if there are no holes. The names are made of characters that Unicode will never assign, several at a time; the definition is not touched.
    """
    value = json.loads(data)
    vocabulary = value.get("model", {}).get("vocab")
    if not isinstance(vocabulary, dict):
        return None
    largest = max(vocabulary.values(), default=-1)
    if len(vocabulary) == largest + 1 or largest >= _MOST_IDS:
        return None
    missing = set(range(largest)) - set(vocabulary.values())
    vocabulary |= {f"\ufdd0\U0010ffff\ufdd1{number}": number for number in missing}
    return json.dumps(value, ensure_ascii=False)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Lets the library see one core while it starts its threads: one is faster than several that share its caches.

    (Measured: docs/decisions/0014-fast-tokenizer.md.) The threads may run on any core afterwards.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        for thread in os.listdir("/proc/self/task") if os.path.isdir("/proc/self/task") else ["0"]:  # noqa: PTH112, PTH208
            try:
                os.sched_setaffinity(int(thread), allowed)
            except OSError:  # it has just ended
                continue


class Gate:
    """Encodes the documents of one file of one unit, and holds the fast backend to the definition on a sample of them.

    Which documents are in the sample follows from the file's fingerprint and the row, so that every run draws the same
    ones and comes to the same verdict.
    """

    def __init__(self, reference: Reference, fast: Fast | None, fingerprint: str, *, full: bool) -> None:
        self._reference, self._fast, self._full = reference, fast, full
        digest = hashlib.sha256(f"exact:{fingerprint}".encode()).digest()
        self._key = np.uint64(int.from_bytes(digest[:8], "little"))

    @property
    def backend(self) -> Reference | Fast:
        return self._fast or self._reference

    def encode(self, texts: list[str], rows: NDArray[np.int64], data: memoryview, *, first: bool) -> Encoded:
        """Ids of `texts`, whose UTF-8 bytes are `data` one after another.

        rows: int64 [texts], the row of each. first: whether `texts[0]` is the first document of the file here.
        Raises Disagreement.
        """
        if self._fast is None or has_long_run(texts, data):
            return self._reference.encode(texts)
        found = self._fast.encode(texts)
        if self._full:
            if different := differences(found, self._reference.encode(texts)):
                raise Disagreement(f"fastokens gives other ids in row {rows[different[0]]:,}")
            return found
        chosen = [int(number) for number in np.flatnonzero(_mix(rows, self._key) % _SAMPLED == 0)]
        sample = [texts[number][:_SAMPLE_CHARACTERS] for number in chosen]
        if first:
            chosen.append(0)
            least, most = _FIRST_CHARACTERS
            sample.append(texts[0][: max(least, min(most, len(data) // _FIRST_SHARE))])
        if sample and (different := differences(self._fast.encode(sample), self._reference.encode(sample))):
            raise Disagreement(f"fastokens gives other ids in row {rows[chosen[different[0]]]:,}")
        return found


def _mix(rows: NDArray[np.int64], key: np.uint64) -> NDArray[np.uint64]:
    mixed = (rows.astype(np.uint64) + key) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    return np.asarray(mixed ^ mixed >> np.uint64(32), np.uint64)


def has_long_run(texts: Sequence[str], data: memoryview) -> bool:
    """Whether a text has more than LONGEST_RUN bytes with no border between white space and anything else."""
    if len(data) <= LONGEST_RUN:
        return False
    borders = np.flatnonzero(np.diff(_WHITE[np.frombuffer(data, np.uint8)]))
    return (
        len(texts) == 1 and int(np.diff(np.concatenate([[-1], borders, [len(data) - 1]])).max()) > LONGEST_RUN
    )
