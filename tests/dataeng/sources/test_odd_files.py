"""Files of other tools: read right, or refused by name. They lie beside the repository, not in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from tests.dataeng.sources.reading import read_all

ODD = Path(__file__).parents[4] / "shared" / "odd"
pytestmark = pytest.mark.skipif(
    not ODD.is_dir(), reason="the collection of odd files is not beside the checkout"
)

# (texts, rejects by reason) where a file reads; a piece of the message where it is refused.
READS: dict[str, tuple[str | None, int, dict[str, int]]] = {
    "pt_binary_truncated_min_max.parquet": ("utf8_full_truncation", 12, {}),
    "pt_alltypes_dictionary.parquet": ("string_col", 2, {}),
    "pt_datapage_v2.snappy.parquet": ("a", 4, {"null": 1}),
    "pt_delta_byte_array.parquet": ("c_birth_country", 969, {"null": 31}),
    "pt_delta_length_byte_array.parquet": ("FRUIT", 1000, {}),
    "pt_hadoop_lz4_compressed.parquet": ("c1", 4, {}),
    "pt_hadoop_lz4_compressed_larger.parquet": ("a", 10_000, {}),
    "pt_non_hadoop_lz4_compressed.parquet": ("c1", 4, {}),
    "pt_nation.dict-malformed.parquet": ("name", 25, {}),
    "fp_nation.plain.parquet": ("name", 25, {}),
    "fp_test-null-dictionary.parquet": ("foo", 6, {"null": 1}),
    "fp_test.parquet": ("hello", 1000, {}),
    "pa_v0.7.1.parquet": ("cut", 10, {}),
    "w_polars_nulls.parquet": (None, 155, {"null": 29, "empty": 16}),
    **{
        f"w_{tool}.parquet": (None, 155, {"null": 29, "empty": 16})
        for tool in (
            "duckdb_zstd", "duckdb_gzip", "duckdb_brotli", "duckdb_v2", "fastparquet_gzip",
            "fastparquet_snappy", "fastparquet_zstd", "fastparquet_brotli", "fastparquet_lz4",
        )
    },
    "w_fastparquet_json.parquet": (None, 20, {}),  # the JSON type is text with a promise; the text is kept
    "w_dict.parquet": (None, 600, {}),
    **{
        f"w_{kind}.parquet": (None, 200, {})
        for kind in ("large_string", "v2_delta", "delta_length", "tiny_pages", "time_zone")
    },
    "w_binary.parquet": ("text", 200, {}),
    "w_large_binary_latin1.parquet": ("text", 99, {"not_utf8": 101}),
    "w_invalid_utf8.parquet": (None, 1, {"not_utf8": 4}),
    "w_no_text.parquet": ("content", 200, {}),
    "w_zero_rows.parquet": (None, 0, {}),
    "w_null_type.parquet": (None, 0, {"null": 100}),
    "w_big_row.parquet": (None, 3, {}),
    "w_control_chars.parquet": (None, 7, {"blank": 1}),
    "w_hyparquet.parquet": (None, 60, {}),
    "w_parquetjs.parquet": (None, 60, {}),
    "fp_empty.parquet": ("a", 0, {}),
    "t_empty_records.tfrecord": (None, 1, {"no_text": 2}),
    "t_missing_text.tfrecord": (None, 1, {"no_text": 1}),
    "t_latin1.tfrecord": (None, 1, {"not_utf8": 1}),
    "t_not_example.tfrecord": (None, 1, {"not_example": 1}),
    "t_unknown_field.tfrecord": (None, 1, {}),
    "t_sequence_example.tfrecord": ("text", 0, {"no_text": 1}),
    "t_zlib.tfrecord.zz": (None, 200, {}),
    "t_gzip_no_ext.tfrecord": (None, 200, {}),
    "j_escaped_nul.jsonl": (None, 1, {}),
    "j_dup_keys.jsonl": (None, 1, {}),
    "j_zst_frames.jsonl.zst": (None, 200, {}),
    "j_zst_skippable.jsonl.zst": (None, 200, {}),
    "j_empty.jsonl": (None, 0, {}),
}  # fmt: skip
REFUSED: dict[str, tuple[str | None, str]] = {
    "pt_large_string_map.brotli.parquet": ("arr", "is map<"),
    "pt_datapage_v2_empty_datapage.snappy.parquet": (None, "none of them is text"),
    "pt_page_v2_empty_compressed.parquet": (None, "none of them is text"),
    "pt_datapage_v1-corrupt-checksum.parquet": (None, "none of them is text"),
    "pt_rle-dict-uncompressed-corrupt-checksum.parquet": ("binary_field", "row group 0"),
    "pt_concatenated_gzip_members.parquet": (None, "none of them is text"),
    "pt_null_list.parquet": ("emptylist", "is list<"),
    "pt_old_list_structure.parquet": ("a", "is list<"),
    "pt_repeated_no_annotation.parquet": (None, "damaged"),
    "pt_nulls.snappy.parquet": ("b_struct", "is struct<"),
    "pt_dict-page-offset-zero.parquet": (None, "none of them is text"),
    "pt_column_chunk_key_value_metadata.parquet": (None, "none of them is text"),
    "pt_encrypt_columns_plaintext_footer.parquet.encrypted": ("double_field", "is double"),
    "pt_uniform_encryption.parquet.encrypted": (None, "encrypted"),
    "pt_ARROW-RS-GH-6229-DICTHEADER.parquet": ("comment_col", "row group 0 (25 rows) cannot be read"),
    "pt_ARROW-GH-41321.parquet": (None, "name the text with --text-column"),
    "fp_nested1.parquet": (None, "--text-column: one of '_ad"),
    "fp_spark-date-empty-rg_parq.parquet": (None, "none of them is text"),
    "fp_baz_parquet.parquet": (None, "none of them is text"),
    "w_polars_list.parquet": ("text", "is large_list<"),
    "w_encrypted.parquet": (None, "encrypted"),
    "d_truncated_half.parquet": (None, "does not end as it"),
    "d_zero_bytes.parquet": (None, "zero bytes"),
    "d_magic_only.parquet": (None, "too short"),
    "d_huge_footer_len.parquet": (None, "the footer claims"),
    "d_zero_footer_len.parquet": (None, "the footer claims 0"),
    "d_garbage_after.parquet": (None, "does not end as it"),
    "d_xml_error.parquet": (None, "XML"),
    "d_zero_hole.parquet": (None, "row group 0 (200 rows) cannot be read"),
    "d_gzipped.parquet.gz": (None, "gzip"),
    "j_nan.jsonl": (None, "line 0 at byte 0 is not one JSON value"),
    "j_deep.jsonl": (None, "nested too deep"),
    "j_gz_truncated.jsonl.gz": (None, "ends inside a member, at byte 228,680"),
    "j_gz_trailing.jsonl.gz": (None, "are other bytes"),
    "j_zst_long30.jsonl.zst": (None, "a window of 1,073,741,824 bytes, at most 134,217,728 are allowed"),
    "j_zst_bad_checksum.jsonl.zst": (None, "zstd frame 0 at byte 0 is damaged"),
    "t_truncated_header.tfrecord": (None, "record 1 at byte 577"),
    "t_int_text.tfrecord": (None, "'text' (integer)"),
}


@pytest.mark.parametrize("name", READS)
def test_it_is_read_right(name: str) -> None:
    column, documents, rejects = READS[name]
    rows = read_all(ODD / name, text_column=column)
    found: dict[str, int] = {}
    for reason in rows.rejects.values():
        found[reason] = found.get(reason, 0) + 1
    assert (len(rows.texts), found) == (documents, rejects)


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_by_name(name: str) -> None:
    column, reason = REFUSED[name]
    with pytest.raises(HeadraceError) as caught:
        read_all(ODD / name, text_column=column)
    assert name in str(caught.value)
    assert reason in str(caught.value)


def test_every_odd_file_has_its_verdict() -> None:
    there = {path.name for path in ODD.iterdir()} - {"INDEX.md"}
    assert there == {*READS, *REFUSED}
