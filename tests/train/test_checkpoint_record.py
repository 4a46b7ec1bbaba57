from __future__ import annotations

import json

import pytest

from headrace.errors import DamageError, InputError
from headrace.manifests.canonical import canonical_json, pretty_json, sha256_hex
from headrace.manifests.cursor import Cursor
from headrace.train.checkpoint_record import CheckpointRecord, StoredFile

RECORD = CheckpointRecord(
    step=10,
    cursor=Cursor(next_sample=80, plan_hash="ab" * 32),
    attempt=2,
    world_size=4,
    global_batch_size=8,
    config_hash="cd" * 32,
    model={"width": 32},
    files={".metadata": StoredFile(bytes=3, sha256="ef" * 32)},
)


def resealed(**changes: object) -> bytes:
    """The record with other values and a hash that fits them."""
    body = json.loads(RECORD.to_bytes())
    del body["sha256"]
    body |= changes
    return pretty_json({**body, "sha256": sha256_hex(canonical_json(body))})


def test_bytes_and_back_is_the_identity() -> None:
    again = CheckpointRecord.from_bytes(RECORD.to_bytes(), "here")
    assert again == RECORD
    assert again.to_bytes() == RECORD.to_bytes()


def test_every_flipped_bit_is_found() -> None:
    data = RECORD.to_bytes()
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 1
        try:
            same = json.loads(changed) == json.loads(data)
        except ValueError:
            same = False
        if same:  # a space became another space: still the same record
            continue
        with pytest.raises(DamageError, match="here"):
            CheckpointRecord.from_bytes(bytes(changed), "here")


def test_a_record_without_a_cursor_is_refused_not_passed_over() -> None:
    """C21, B22: where to continue stands in the checkpoint or nowhere."""
    with pytest.raises(InputError, match="has no cursor, so the next sample is unknown"):
        CheckpointRecord.from_bytes(resealed(cursor=None), "here")


def test_another_version_is_refused_by_its_number() -> None:
    with pytest.raises(InputError, match=r"version 2; this headrace reads 'headrace[.]checkpoint' version 1"):
        CheckpointRecord.from_bytes(resealed(version=2), "here")


def test_a_record_of_another_shape_is_refused() -> None:
    with pytest.raises(InputError, match="not a checkpoint record"):
        CheckpointRecord.from_bytes(resealed(files={"a": {"size": 1}}), "here")
