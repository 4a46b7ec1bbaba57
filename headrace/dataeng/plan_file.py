"""A plan's bytes and its identity (docs/formats/plan.md).

The hash is a chain: H(0) covers the algorithm, the order's settings and the tokenizer, H(k) covers H(k - 1) and
stage k. A plan that only adds stages therefore has every earlier hash inside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from headrace.dataeng.mixture import check_weight
from headrace.dataeng.source import TokenizerKey
from headrace.errors import InputError
from headrace.manifests.canonical import canonical_json, parse_json_object, pretty_json, sha256_hex
from headrace.manifests.typed import build

if TYPE_CHECKING:
    from headrace.dataeng.plan import Plan, StreamOrder

FORMAT = "headrace.plan"
VERSION = 1


@dataclass(frozen=True, slots=True)
class StageRecord:
    """What a stage adds to the hash: its start and (content hash, weight) of the sources it draws from."""

    start: int
    mixture: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class SourceRecord:
    name: str
    uri: str
    content_hash: str


@dataclass(frozen=True, slots=True)
class ParsedPlan:
    order: dict[str, Any]
    sources: list[SourceRecord]
    stages: list[tuple[int, tuple[float, ...]]]
    hash: str


def identity(
    algorithm: int, order: StreamOrder, tokenizer: TokenizerKey, stages: Sequence[StageRecord]
) -> tuple[list[str], dict[str, str]]:
    """(hash after each stage, short fingerprints of the parts for messages)."""
    base = {"algorithm": algorithm, "order": asdict(order), "tokenizer": asdict(tokenizer)}
    running = sha256_hex(canonical_json(base))
    hashes = []
    for stage in stages:
        record = {"start": stage.start, "mixture": [[h, float(w)] for h, w in stage.mixture]}
        running = sha256_hex(canonical_json({"before": running, "stage": record}))
        hashes.append(running)
    parts = {name: str(value).lower() for name, value in asdict(order).items()}
    parts["algorithm"] = str(algorithm)
    parts["tokenizer"] = sha256_hex(canonical_json(asdict(tokenizer)))[:12]
    datasets = sorted({content for stage in stages for content, _ in stage.mixture})
    parts["datasets"] = f"{len(datasets)}:{sha256_hex(canonical_json(datasets))[:12]}"
    parts["stages"] = f"{len(stages)}:{running[:12]}"
    return hashes, parts


def plan_to_bytes(plan: Plan, algorithm: int) -> bytes:
    return pretty_json(
        {
            "format": FORMAT,
            "version": VERSION,
            "algorithm": algorithm,
            "order": asdict(plan.order),
            "sources": [{"name": s.name, "uri": s.uri, "content_hash": s.content_hash} for s in plan.sources],
            "stages": [{"start": stage.start, "weights": list(stage.weights)} for stage in plan.stages],
            "hash": plan.hash,
        }
    )


def plan_from_bytes(data: bytes, where: str, algorithm: int) -> ParsedPlan:
    """Raises `InputError` for anything that `plan_to_bytes` does not write."""
    value = parse_json_object(data, where)
    if value.get("format") != FORMAT:
        raise InputError(f"{where}: not a headrace plan (format {value.get('format')!r})")
    for name, known in (("version", VERSION), ("algorithm", algorithm)):
        if value.get(name) != known:
            raise InputError(f"{where}: {name} {value.get(name)!r}; this headrace knows {name} {known}")
    try:
        sources = [build(SourceRecord, source, f"{where}: a source") for source in value["sources"]]
        stages = [
            (int(s["start"]), tuple(check_weight(float(w), f"{where}: a stage") for w in s["weights"]))
            for s in value["stages"]
        ]
        order, plan_hash = dict(value["order"]), str(value["hash"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{where}: a part is missing or has the wrong type ({error})") from None
    expected = {"sequence_length", "seed", "lanes", "window", "mask_document_labels"}
    if set(order) != expected or not sources or not stages:
        raise InputError(f"{where}: expected order {sorted(expected)}, at least one source and one stage")
    if any(len(weights) > len(sources) for _, weights in stages):
        raise InputError(f"{where}: a stage has more weights than there are sources")
    return ParsedPlan(order, sources, stages, plan_hash)
