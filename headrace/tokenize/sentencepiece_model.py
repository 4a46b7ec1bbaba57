"""Turn a SentencePiece BPE model into the `tokenizer.json` that gives the same ids.

The file is a protobuf message; of its fields only these matter here:

    ModelProto     { repeated SentencePiece pieces = 1; TrainerSpec = 2; NormalizerSpec = 3; }
    SentencePiece  { string piece = 1; float score = 2; int32 type = 3; }
    TrainerSpec    { int32 model_type = 3; bool treat_whitespace_as_suffix = 24; bool byte_fallback = 35; }
    NormalizerSpec { bytes precompiled_charsmap = 2; bool add_dummy_prefix = 3; bool remove_extra_whitespaces = 4;
                     bool escape_whitespaces = 5; }

Converted are BPE models that leave text as it is but for the blanks. Everything else is refused with the reason: a
Unigram model above all, whose equal scores are broken otherwise by `tokenizers`, so that ids would differ.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from headrace.errors import InputError, UsageError

_MODEL_TYPES: Final = {1: "Unigram", 2: "BPE", 3: "word", 4: "character"}
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6
_BLANK: Final = "\u2581"


@dataclass(frozen=True, slots=True)
class _Piece:
    text: str
    score: float
    kind: int


def looks_like_model(data: bytes) -> bool:
    """Whether the file begins with a piece, as every SentencePiece model does: field 1, itself beginning with field 1."""
    return len(data) > 8 and data[0] == 0x0A and data[2] == 0x0A and 0 < data[1] < 0x80


def to_tokenizer_json(data: bytes, where: str) -> bytes:
    """The `tokenizer.json`. Raises InputError for what is no model, UsageError for one that cannot be converted exactly."""
    pieces: list[_Piece] = []
    trainer: dict[int, Any] = {}
    normalizer: dict[int, Any] = {}
    try:
        for number, value in _fields(data):
            if number == 1:
                pieces.append(_piece(value))
            elif number == 2:
                trainer = dict(_fields(value))
            elif number == 3:
                normalizer = dict(_fields(value))
    except (ValueError, IndexError, TypeError, struct.error):
        raise InputError(f"{where}: not a SentencePiece model, or a damaged one") from None
    if reason := _why_not(pieces, trainer, normalizer):
        raise UsageError(
            f"{where}: {reason}; convert it with its own tools and check the ids, or use another one"
        )
    return _definition(pieces, add_dummy_prefix=bool(normalizer.get(3, 1)))


def _why_not(pieces: list[_Piece], trainer: dict[int, Any], normalizer: dict[int, Any]) -> str | None:
    model = trainer.get(3, 1)
    if model == 1:
        return (
            "a SentencePiece Unigram model, which tokenizers cannot follow exactly: it breaks ties of equal scores "
            "in another way"
        )
    if model != 2:
        return f"a SentencePiece {_MODEL_TYPES.get(model, model)} model; only BPE can be converted"
    if normalizer.get(2):
        return "its normalizer rewrites characters"
    if normalizer.get(4, 1):
        return "its normalizer removes repeated blanks"
    if not normalizer.get(5, 1) or trainer.get(24, 0):
        return "it does not write a blank as U+2581 before the word"
    kinds = [piece.kind for piece in pieces]
    if not trainer.get(35, 0) or kinds.count(_BYTE) != 256:
        return "it has no pieces for single bytes, so that characters would be lost as unknown"
    if _UNUSED in kinds:
        return "it has pieces that are marked as unused"
    if kinds.count(_UNKNOWN) != 1:
        return "it has no unknown piece, or several"
    if len({piece.text for piece in pieces}) != len(pieces):
        return "two of its pieces are the same"
    return None


def _definition(pieces: list[_Piece], *, add_dummy_prefix: bool) -> bytes:
    ids = {piece.text: number for number, piece in enumerate(pieces)}
    mergeable = {piece.text for piece in pieces if piece.kind == _NORMAL}
    # Joined first is the piece of the highest score. Of equal ones the earlier, as in training.
    by_score = sorted(
        (piece for piece in pieces if piece.kind == _NORMAL and len(piece.text) > 1),
        key=lambda piece: (-piece.score, ids[piece.text]),
    )
    merges = [
        (piece.text[:cut], piece.text[cut:])
        for piece in by_score
        for cut in sorted(
            (
                c
                for c in range(1, len(piece.text))
                if piece.text[:c] in mergeable and piece.text[c:] in mergeable
            ),
            key=lambda c: (ids[piece.text[:c]], ids[piece.text[c:]]),
        )
    ]
    steps: list[dict[str, Any]] = [{"type": "Replace", "pattern": {"String": " "}, "content": _BLANK}]
    if add_dummy_prefix:
        steps.insert(0, {"type": "Prepend", "prepend": _BLANK})
    undo: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": _BLANK}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if add_dummy_prefix:
        undo.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    value = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": ids[piece.text], "content": piece.text, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": piece.kind != _USER_DEFINED,
            }
            for piece in pieces
            if piece.kind in (_UNKNOWN, _CONTROL, _USER_DEFINED)
        ],
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": undo},
        "model": {
            "type": "BPE", "dropout": None, "unk_token": next(p.text for p in pieces if p.kind == _UNKNOWN),
            "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True,
            "ignore_merges": False, "vocab": ids, "merges": merges,
        },
    }  # fmt: skip
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _piece(message: bytes) -> _Piece:
    values = dict(_fields(message))
    return _Piece(values[1].decode(), values.get(2, 0.0), values.get(3, _NORMAL))


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """(number, value) of every field: an int, a float, or bytes."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        wire = key & 7
        if wire == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
        elif wire == 2:
            size, at = _varint(message, at)
            if size > len(message) - at:
                raise ValueError("a field longer than its message")
            yield key >> 3, message[at : at + size]
            at += size
        elif wire == 5:
            yield key >> 3, struct.unpack_from("<f", message, at)[0]
            at += 4
        elif wire == 1:
            yield key >> 3, struct.unpack_from("<d", message, at)[0]
            at += 8
        else:
            raise ValueError("an unknown wire type")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
