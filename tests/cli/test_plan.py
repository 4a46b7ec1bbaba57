import json
from pathlib import Path

import pytest

from headrace.dataeng.plan import Plan
from tests.cli.conftest import Command


def test_a_plan_is_made_shown_and_located(headrace: Command, tokenized: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    assert headrace("plan", tokenized, "--sequence-length", "32", "--seed", "7", "--out", out) == 0
    plan = Plan.load(out)
    assert plan.hash in headrace.out
    assert plan.order.seed == 7
    assert headrace("plan", "--plan", out) == 0
    assert plan.hash in headrace.out
    assert headrace("plan", "--plan", out, "--locate", "0,5,1000000000000", "--json") == 0
    rows = json.loads(headrace.out)
    assert [row["sample"] for row in rows] == [0, 5, 10**12]
    assert [row["shard"] for row in rows] == plan.locate([0, 5, 10**12]).shard.tolist()


def test_every_token_is_in_a_sequence_or_counted_as_unused(headrace: Command, tokenized: Path) -> None:
    assert headrace("plan", tokenized, "--sequence-length", "32", "--json") == 0
    (source,) = json.loads(headrace.out)["sources"]
    assert source["tokens"] == source["sequences"] * 32 + source["unused_tokens"]
    assert 0 < source["unused_tokens"] <= source["shards"] * 32


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no dataset given"),
        (["DATASET"], "--sequence-length is missing"),
        (["DATASET", "--sequence-length", "0"], "sequence_length is 0"),
        (["DATASET", "--sequence-length", "9", "--weights", "1,2"], "2 weights for 1 datasets"),
        (["DATASET", "--sequence-length", "9", "--weights", "x"], "expected numbers"),
        (["DATASET", "--sequence-length", "9", "--weights", "nan"], "weight nan"),
        (["DATASET", "--sequence-length", "99999999"], "no shard holds"),
        (["DATASET", "DATASET", "--sequence-length", "9"], "two sources have the name"),
        (["nowhere", "--sequence-length", "9"], "nowhere/manifest.json does not exist"),
        (
            ["--plan", "nowhere.json"],
            r"make it with `headrace plan DATASET --sequence-length T --out nowhere.json`",
        ),
        (["DATASET", "--plan", "p", "--seed", "3"], "cannot go with a dataset, --seed"),
        (["--plan", "p", "--seed", "0"], "cannot go with --seed"),
        (["DATASET", "--sequence-length", "9", "--locate", "a"], "expected sample ids"),
        (["DATASET", "--sequence-length", "9", "--locate=-1"], "sample ids must be"),
    ],
)
def test_bad_usage_ends_with_2_and_says_what_to_do(
    headrace: Command, tokenized: Path, arguments: list[str], message: str
) -> None:
    assert headrace("plan", *(str(tokenized) if a == "DATASET" else a for a in arguments)) == 2
    assert message in headrace.err
