r"""Turn a tiktoken rank file into the `tokenizer.json` that gives the same ids.

A rank file is lines of `BASE64 RANK`: the tokens of a byte-level BPE and when each may be merged. It says neither how
text is cut into pieces before the merges, nor the special tokens. Those come from a *recipe*: a known one by the
file's name, or a JSON file.

    {"pattern": "...", "special_tokens": {"<|endoftext|>": 100257}, "normalizer": null}

`pattern` is a regular expression as `tokenizers` reads it (Oniguruma), which isolates the pieces; `normalizer` is null
or one of NFC, NFD, NFKC, NFKD.

The rule. BPE by ranks joins, of all neighbours whose concatenation is a token, those of the lowest rank first. So
every split of a token into two tokens is a merge, and merges are ordered by the rank of what they make. A piece that
is a token is that token without any merge (`ignore_merges`).
"""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from headrace.errors import InputError, UsageError
from headrace.manifests.canonical import parse_json_object

_NORMALIZERS: Final = (None, "NFC", "NFD", "NFKC", "NFKD")
_CONTRACTION: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_UPPER: Final = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER: Final = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_BLANKS: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"
# The possessive interval of other dialects: here it would mean "one or more times the interval".
_POSSESSIVE_INTERVAL: Final = re.compile(r"(?<!\\)\{\d+(,\d*)?\}\+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """What a rank file leaves unsaid. Special tokens have the ids given."""

    pattern: str
    special_tokens: Mapping[str, int] = field(default_factory=dict)
    normalizer: str | None = None


_GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_QWEN_TOKENS: Final = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
KNOWN: Final = {
    "r50k_base": Recipe(pattern=_GPT2, special_tokens={"<|endoftext|>": 50256}),
    "p50k_base": Recipe(pattern=_GPT2, special_tokens={"<|endoftext|>": 50256}),
    "cl100k_base": Recipe(
        pattern=_CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _BLANKS,
        special_tokens={
            "<|endoftext|>": 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            "<|endofprompt|>": 100276,
        },
    ),
    "o200k_base": Recipe(
        pattern=rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTION}?|"
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTION}?|"
        r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _BLANKS,
        special_tokens={"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
    ),
    "qwen": Recipe(
        pattern=_CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _BLANKS,
        special_tokens={token: 151643 + number for number, token in enumerate(_QWEN_TOKENS)},
        normalizer="NFC",
    ),
}


def looks_like_rank_file(data: bytes) -> bool:
    """Whether the first line is `BASE64 RANK`."""
    head = data[:400].split(b"\n", 1)[0].split()
    return (
        len(head) == 2 and head[1].isdigit() and re.fullmatch(rb"[A-Za-z0-9+/]+={0,2}", head[0]) is not None
    )


def recipe_for(name: str, recipe_file: bytes | None, where: str) -> Recipe:
    """The recipe in a JSON file, or the known one whose name the rank file bears. Raises InputError, UsageError."""
    if recipe_file is not None:
        return _recipe(parse_json_object(recipe_file, where), where)
    stem = re.split(r"[/\\]", name)[-1].removesuffix(".tiktoken")
    if stem not in KNOWN:
        raise UsageError(
            f"{name}: a tiktoken rank file, which does not say how text is cut into pieces. Name it after a known one "
            f"({', '.join(f'{known}.tiktoken' for known in KNOWN)}) or give a recipe with --tokenizer-recipe FILE.json: "
            '{"pattern": "...", "special_tokens": {"<|endoftext|>": 100257}, "normalizer": null}'
        )
    return KNOWN[stem]


def _recipe(value: dict[str, Any], where: str) -> Recipe:
    unknown = set(value) - {"pattern", "special_tokens", "normalizer"}
    if unknown or not isinstance(value.get("pattern"), str):
        raise InputError(
            f'{where}: a recipe has a text "pattern", and perhaps "special_tokens" and "normalizer"'
            + (f"; found {sorted(unknown)}" if unknown else "")
        )
    if found := _POSSESSIVE_INTERVAL.search(value["pattern"]):
        raise InputError(
            f"{where}: {found[0]!r} in the pattern is possessive in other dialects, but means a repetition of the "
            "interval to tokenizers; leave the + out"
        )
    if value.get("normalizer") not in _NORMALIZERS:
        raise InputError(
            f"{where}: normalizer {value['normalizer']!r}; expected null, NFC, NFD, NFKC or NFKD"
        )
    special = value.get("special_tokens", {})
    if not isinstance(special, dict) or not all(
        type(number) is int and number >= 0 for number in special.values()
    ):
        raise InputError(f"{where}: special_tokens is not an object of ids by token")
    return Recipe(pattern=value["pattern"], special_tokens=special, normalizer=value.get("normalizer"))


def parse_ranks(data: bytes, where: str) -> dict[bytes, int]:
    """Rank by token, in the order of ranks. Raises InputError naming the line that is not one."""
    ranks: dict[bytes, int] = {}
    taken: set[int] = set()
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            token, rank = line.split()
            decoded, value = base64.b64decode(token, validate=True), int(rank)
        except (ValueError, binascii.Error):
            raise InputError(f"{where}: line {number}: expected BASE64 RANK, found {line[:60]!r}") from None
        if not decoded or decoded in ranks or value in taken or value < 0:
            raise InputError(f"{where}: line {number}: a token or a rank that is empty or given twice")
        ranks[decoded] = value
        taken.add(value)
    missing = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if missing:
        raise InputError(
            f"{where}: no rank for {len(missing)} single bytes ({missing[0]:#04x} is the first); texts with them could "
            "not be written"
        )
    if max(taken) > 2 * len(taken):
        raise InputError(f"{where}: the rank {max(taken):,} among {len(taken):,} tokens; the file is damaged")
    return dict(sorted(ranks.items(), key=lambda item: item[1]))


def to_tokenizer_json(ranks: Mapping[bytes, int], recipe: Recipe, where: str) -> bytes:
    """The `tokenizer.json`: the same bytes for the same ranks and recipe."""
    spelt = {token: _spell(token) for token in ranks}
    vocabulary, added = _with_special(
        {spelt[token]: rank for token, rank in ranks.items()}, recipe.special_tokens, where
    )
    merges = [(spelt[token[:cut]], spelt[token[cut:]]) for token in ranks for cut in _cuts(token, ranks)]
    split = {"type": "Split", "pattern": {"Regex": recipe.pattern}, "behavior": "Isolated", "invert": False}
    to_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    value = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": number, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": True,
            }
            for token, number in added.items()
        ],
        "normalizer": None if recipe.normalizer is None else {"type": recipe.normalizer},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, to_bytes]},
        "post_processor": None,
        "decoder": to_bytes,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": True,
            "vocab": vocabulary, "merges": merges,
        },
    }  # fmt: skip
    return orjson.dumps(value) + b"\n"


def _with_special(
    ranks: Mapping[str, int], special: Mapping[str, int], where: str
) -> tuple[dict[str, int], dict[str, int]]:
    """The model's vocabulary and the added tokens, each by rising id and without holes.

    tokenizers does not heed the id of an added token that is not in the vocabulary: it takes the next one. So a hole
    is filled with a name that no text spells, since none is spelt with a blank in a byte-level vocabulary.
    """
    taken = {rank: token for token, rank in ranks.items()}
    for token, number in special.items():
        if number in taken:
            raise InputError(f"{where}: the id {number} of {token!r} is the id of another token")
        taken[number] = token
    size = max(ranks.values()) + 1
    names = {taken.get(number, f"<unused {number}>"): number for number in range(max(taken) + 1)}
    if len(names) != max(taken) + 1:
        raise InputError(f"{where}: a special token is spelt as another token is")
    vocabulary = {name: number for name, number in names.items() if number < size}
    added = {name: number for name, number in names.items() if number >= size or name in special}
    return vocabulary, added


def _cuts(token: bytes, ranks: Mapping[bytes, int]) -> list[int]:
    """Where the token can be cut into two tokens; of several, the pair whose left part has the lower rank is first."""
    cuts = [cut for cut in range(1, len(token)) if token[:cut] in ranks and token[cut:] in ranks]
    return cuts if len(cuts) < 2 else sorted(cuts, key=lambda cut: (ranks[token[:cut]], ranks[token[cut:]]))


def _spell(token: bytes) -> str:
    return codecs.charmap_decode(token, "strict", _BYTE_LETTERS)[0]


def _byte_letters() -> str:
    """The printable letters that stand for the 256 bytes in a byte-level vocabulary."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return "".join(chr(byte if byte in printable else next(others)) for byte in range(256))


_BYTE_LETTERS: Final = _byte_letters()
