"""The same converters between prefixes of a real S3 server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.convert.megatron_out import export_megatron
from headrace.dataeng.dataset import Dataset
from headrace.dataeng.mds import INDEX
from headrace.dataeng.storage import Store
from headrace.tokenize.verify import verify
from tests.convert.files import take_in, write_datatrove, write_megatron
from tests.datasets import random_documents, write_dataset

DOCUMENTS = random_documents(9, 60)

pytestmark = pytest.mark.s3


def test_token_files_on_a_store_become_a_dataset_on_it(
    s3_bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "cache"))
    local = tmp_path / "in"
    local.mkdir()
    write_megatron(local / "m", DOCUMENTS, "uint16")
    write_datatrove(local / "t.ds", DOCUMENTS, 2)
    # A shard of ours is MDS like any other.
    mds = write_dataset(local / "mds", [DOCUMENTS])
    raw = (mds / "shard.000000-000.mds").stat().st_size
    shard = {
        "column_encodings": ["ndarray:uint16"], "column_names": ["tokens"], "column_sizes": [None], "compression": None,
        "format": "mds", "hashes": [], "raw_data": {"basename": "shard.000000-000.mds", "bytes": raw, "hashes": {}},
        "samples": len(DOCUMENTS), "size_limit": 1 << 20, "version": 2, "zip_data": None,
    }  # fmt: skip
    (mds / INDEX).write_text(json.dumps({"shards": [shard], "version": 2}))
    store = Store(f"{s3_bucket}/in")
    for path in sorted(local.rglob("*")):
        if (path.is_file() and not path.name.endswith((".json", ".parquet"))) or path.name == INDEX:
            store.write(path.relative_to(local).as_posix(), path.read_bytes())
    take_in(f"{s3_bucket}/out", f"{s3_bucket}/in", vocab_size=1000)  # type: ignore[arg-type]
    assert verify(f"{s3_bucket}/out").ok
    export_megatron(Dataset.open(f"{s3_bucket}/out"), str(tmp_path / "m"))
    write_megatron(tmp_path / "wanted", DOCUMENTS * 3, "uint16")
    for kind in ("bin", "idx"):
        assert (tmp_path / f"m.{kind}").read_bytes() == (tmp_path / f"wanted.{kind}").read_bytes()
