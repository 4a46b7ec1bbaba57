"""Turn text into ids exactly as the tokenizer file says, and documents into framed runs of ids.

HF `tokenizers` is the definition of the ids. Three things are ours to decide, and are recorded with the dataset: the
post-processor is off, so that nothing is added that was not asked for; the tokens before and after each document are
chosen by name; and text that spells a special token stays text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from headrace.dataeng.mds import Lengths, Tokens
from headrace.errors import InputError, UsageError
from headrace.manifests.canonical import sha256_hex
from headrace.manifests.dataset import TokenizerId
from headrace.tokenize.backends import Encoded, Reference

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# What `--eos auto` looks for, in this order.
KNOWN_EOS: Final = ("<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>", "</s>", "<eos>")
SPECIAL_TOKENS_POLICY: Final = "as-text"


def load(data: bytes, name: str) -> Tokenizer:
    """The tokenizer of a `tokenizer.json`, without truncation, padding, or ids for text that spells a special token.

    Raises InputError if `data` is not one.
    """
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_buffer(data)
    except Exception as error:  # noqa: BLE001 the library raises bare Exception
        raise InputError(
            f"{name}: not a tokenizer.json that tokenizers can read ({str(error)[:200]})"
        ) from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer


def identify(data: bytes, name: str, *, bos: str = "none", eos: str = "auto") -> TokenizerId:
    """Resolves the document frame and checks that text cannot forge it.

    Args:
        data: the bytes of the tokenizer file.
        name: for messages only; a dataset does not depend on what the file was called.
        bos: "none" or the token put before every document.
        eos: "auto" (the first of KNOWN_EOS that exists), "none", or the token put after every document.

    Raises:
        InputError: not a tokenizer file.
        UsageError: a token that does not exist, or text that would become a special token.
    """
    import tokenizers

    tokenizer = load(data, name)
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    if not vocabulary:
        raise InputError(f"{name}: a tokenizer without a vocabulary")
    bos_token = _named(bos, "--bos", vocabulary, name)
    eos_token = _auto_eos(vocabulary, name) if eos == "auto" else _named(eos, "--eos", vocabulary, name)
    _refuse_forgeable(
        tokenizer, data, name, {token: vocabulary[token] for token in (bos_token, eos_token) if token}
    )
    vocab_size = max(vocabulary.values()) + 1
    return TokenizerId(
        sha256=sha256_hex(data),
        name=f"{type(tokenizer.model).__name__}-{vocab_size}",
        library=f"tokenizers {tokenizers.__version__}",
        vocab_size=vocab_size,
        bos=bos_token,
        bos_id=vocabulary[bos_token] if bos_token else None,
        eos=eos_token,
        eos_id=vocabulary[eos_token] if eos_token else None,
        special_tokens=SPECIAL_TOKENS_POLICY,
    )


class Encoder:
    """Puts each document into its frame: one flat array of tokens from one flat array of ids."""

    def __init__(self, tokenizer: Tokenizer, identity: TokenizerId, dtype: str) -> None:
        self.reference = Reference(tokenizer)
        self._dtype = np.dtype(dtype)
        self._bos = -1 if identity.bos_id is None else identity.bos_id
        self._eos = -1 if identity.eos_id is None else identity.eos_id

    def encode(self, texts: Sequence[str]) -> tuple[Tokens, Lengths]:
        """Tokens [sum of lengths] and the length of each document, frame included, by the definition.

        A text of which the tokenizer makes nothing has length 0, without a frame.
        """
        return self.frame(self.reference.encode(texts))

    def frame(self, encoded: Encoded) -> tuple[Tokens, Lengths]:
        """`encode`, of ids that are already there."""
        from headrace.kernels.pack import frame_documents

        ids, offsets, _ = encoded
        num_documents = len(offsets) - 1
        frame = (self._bos >= 0) + (self._eos >= 0)
        tokens: Tokens = np.empty(len(ids) + frame * num_documents, self._dtype)
        lengths = np.empty(num_documents, np.int64)
        return tokens[: frame_documents(ids, offsets, self._bos, self._eos, tokens, lengths)], lengths


def _named(token: str, option: str, vocabulary: dict[str, int], name: str) -> str | None:
    if token == "none":
        return None
    if token not in vocabulary:
        raise UsageError(
            f"{option} {token!r} is not in the vocabulary of {name}; name one that is, or 'none'"
        )
    return token


def _auto_eos(vocabulary: dict[str, int], name: str) -> str:
    for token in KNOWN_EOS:
        if token in vocabulary:
            return token
    raise UsageError(
        f"{name} has none of {', '.join(KNOWN_EOS)}; say which token ends a document with --eos TOKEN, "
        "or that none does with --eos none"
    )


def _refuse_forgeable(tokenizer: Tokenizer, data: bytes, name: str, frame: dict[str, int]) -> None:
    """Raises UsageError if text could produce a frame token or any other special token (but for "unknown")."""
    special = {t.content: i for i, t in tokenizer.get_added_tokens_decoder().items() if t.special} | frame
    unknown = _unknown_token(tokenizer, data)
    for token, token_id in special.items():
        if token == unknown and token not in frame:
            continue
        for text in (token, f"a{token}b", f"a {token} b"):
            if token_id in tokenizer.encode(text, add_special_tokens=False).ids:
                raise UsageError(
                    f"{name}: the text {token!r} inside a document would become the special token {token_id}; "
                    "mark it as special in the tokenizer file, take it out of the model's own vocabulary, "
                    "or choose another token for --bos and --eos"
                )


def _unknown_token(tokenizer: Tokenizer, data: bytes) -> str | None:
    """The token that stands for what the model does not know: text may well produce it."""
    if hasattr(tokenizer.model, "unk_token"):
        token: str | None = tokenizer.model.unk_token
        return token
    model = json.loads(data)["model"]  # Unigram's is only in the file
    return None if model.get("unk_id") is None else str(model["vocab"][model["unk_id"]][0])
