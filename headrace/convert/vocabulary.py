"""Which tokenizer adopted ids are of: the one that is given, or only how many ids there are.

An unknown one gets a `tokenizer.json` all the same, in which every id is spelt as its number: what decodes documents
then shows numbers, and the dataset has an identity that only datasets with as many ids share.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final

from headrace.dataeng.sources.location import open_input
from headrace.dataeng.uris import redact
from headrace.errors import UsageError
from headrace.manifests.canonical import sha256_hex
from headrace.manifests.dataset import TokenizerId
from headrace.tokenize.definition import to_definition
from headrace.tokenize.tokenizers import identify

# How text that spells a special token was read is known to who tokenized, and in no file.
SPECIAL_TOKENS_UNKNOWN: Final = "unknown"
_MAX_VOCAB_SIZE: Final = 1 << 22


@dataclass(frozen=True, kw_only=True, slots=True)
class Vocabulary:
    definition: bytes  # tokenizer.json
    identity: TokenizerId


def of_tokenizer(uri: str, *, bos: str, eos: str) -> Vocabulary:
    """bos, eos: "none", or the token with which every document is said to begin, or to end. Raises as `identify`."""
    if "auto" in (bos, eos):
        raise UsageError(
            "--eos auto: what documents of others end with is to be said; name the token, or none"
        )
    with open_input(uri) as file:
        data = file.read()
    definition = to_definition(data, redact(uri), recipe=None)
    identity = identify(definition, redact(uri), bos=bos, eos=eos)
    return Vocabulary(
        definition=definition, identity=replace(identity, special_tokens=SPECIAL_TOKENS_UNKNOWN)
    )


def of_size(vocab_size: int, *, bos: str, eos: str) -> Vocabulary:
    """bos, eos: "none" or an id. Raises UsageError."""
    if not 1 <= vocab_size <= _MAX_VOCAB_SIZE:
        raise UsageError(f"--vocab-size {vocab_size:,}: expected 1 to {_MAX_VOCAB_SIZE:,}")
    definition = _numbers(vocab_size)
    identity = TokenizerId(
        sha256=sha256_hex(definition),
        name=f"unknown-{vocab_size}",
        library="unknown",
        vocab_size=vocab_size,
        bos=None if bos == "none" else bos,
        bos_id=_id(bos, "--bos", vocab_size),
        eos=None if eos == "none" else eos,
        eos_id=_id(eos, "--eos", vocab_size),
        special_tokens=SPECIAL_TOKENS_UNKNOWN,
    )
    return Vocabulary(definition=definition, identity=identity)


def _id(text: str, option: str, vocab_size: int) -> int | None:
    if text == "none":
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) < vocab_size):
        raise UsageError(f"{option} {text!r}: without --tokenizer it is an id below {vocab_size:,}, or none")
    return int(text)


def _numbers(vocab_size: int) -> bytes:
    model = {
        "type": "WordLevel",
        "vocab": {str(number): number for number in range(vocab_size)},
        "unk_token": "0",
    }
    value: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": model,
    }
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"
