import pytest

from headrace.errors import InputError
from headrace.manifests.names import checked_name, unit_of


@pytest.mark.parametrize("name", ["a", "shard.000000-000.mds.zstd", "_units/000012.json", "a/b/c.d"])
def test_plain_names_pass(name: str) -> None:
    assert checked_name(name, "manifest") == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a//b",
        "a/",
        "C:\\x",
        "s3://b/k",
        "a\n",
        "a\0",
        ".hidden",
        "-rf",
        "a" * 300,
        None,
        7,
    ],
)
def test_names_that_could_leave_the_root_are_refused(name: object) -> None:
    with pytest.raises(InputError, match="manifest"):
        checked_name(name, "manifest")


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("shard.000012-003.mds", 12),
        ("shard.1234567-000.mds.zstd", 1234567),
        ("shard.000000-000.lineage.parquet", 0),
        ("shards.parquet", None),
        ("shard.x-000.mds", None),
        ("_units/shard.000012-003.mds", None),
    ],
)
def test_a_shard_and_its_lineage_say_their_unit(name: str, unit: int | None) -> None:
    assert unit_of(name) == unit
