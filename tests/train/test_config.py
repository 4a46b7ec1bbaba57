from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.dataeng.plan import Plan
from headrace.errors import UsageError
from headrace.train.config import DataConfig, RunConfig, load_config, parse_config
from tests.train.tiny import tiny_values

VALUES = tiny_values(Path("data"), Path("run"))
TEXT = yaml.safe_dump(VALUES)


def parse(text: str = TEXT, *overrides: str) -> RunConfig:
    return parse_config(text, overrides, where="run.yaml")


def test_a_resolved_configuration_reloads_to_the_identical_object() -> None:
    config = parse()
    again = parse(config.to_yaml())
    assert again == config
    assert again.hash == config.hash
    assert again.to_yaml() == config.to_yaml()


@given(
    lr=st.floats(1e-12, 1e3),
    seed=st.integers(0, 2**63 - 1),
    uri=st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=20),
)
@settings(max_examples=60, deadline=None)
def test_any_value_survives_yaml(lr: float, seed: int, uri: str) -> None:
    config = parse()
    data = config.data.model_copy(
        update={"seed": seed, "sources": (config.data.sources[0].model_copy(update={"name": uri}),)}
    )
    optimizer = config.optimizer.model_copy(update={"lr": lr})
    changed = config.model_copy(update={"optimizer": optimizer, "data": data})
    assert parse(changed.to_yaml()) == changed


def test_every_problem_is_listed_with_its_full_path() -> None:
    values = yaml.safe_load(TEXT)
    values["optimzer"] = {"lr": 1, "betas": [0.9, 2.0]}
    values["model"]["moe"]["num_expert"] = 8
    values["data"]["sources"][0]["wieght"] = 2
    values["train"]["steps"] = "many"
    del values["run"]["dir"]
    with pytest.raises(UsageError) as caught:
        parse(yaml.safe_dump(values))
    lines = str(caught.value).splitlines()
    assert lines[0] == "run.yaml: this configuration cannot be used:"
    assert {line.strip() for line in lines[1:]} == {
        "optimzer.lr: unknown key; did you mean optimizer.lr?",
        "optimzer.betas: unknown key; did you mean optimizer.betas?",
        "model.moe.num_expert: unknown key; did you mean model.moe.num_experts?",
        "data.sources.0.wieght: unknown key; did you mean data.sources.0.weight?",
        "run.dir: missing; it has no default",
        "train.steps: input should be a valid integer, unable to parse string as an integer, found 'many'",
    }


def test_an_override_replaces_one_value() -> None:
    config = parse(TEXT, "optimizer.lr=1e-3", "data.sources.0.weight=2", "model.moe.scores=softmax")
    assert (config.optimizer.lr, config.data.sources[0].weight) == (1e-3, 2.0)
    assert config.model.moe.scores == "softmax"
    assert config.model.width == parse().model.width


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("optimizer.lr", "expected section.key=value"),
        ("optimizer.lrr=1", "optimizer.lrr: unknown key; did you mean optimizer.lr?"),
        ("train.steps.x=1", "'steps' is a value, not a section"),
        ("data.sources.5.uri=x", "'5' is not a place in a list of 1"),
        ("train.steps=[", "--set train.steps: not YAML"),
        ("train.steps=0", "train.steps: input should be greater than 0, found 0"),
        ("optimizer.lr=.nan", "optimizer.lr: input should be"),
    ],
)
def test_an_override_that_cannot_be_used_says_why(override: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(TEXT, override)
    assert message in str(caught.value)


def test_a_key_given_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="line 3: 'lr' is given twice"):
        parse("optimizer:\n  lr: 1\n  lr: 2\n")


@pytest.mark.parametrize("text", ["", "- 1", "a: [", "1", "!!python/object:os.system x", "? {a: 1}\n: 2"])
def test_what_is_no_configuration_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match=r"run\.yaml: "):
        parse(text)


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.yaml: no such file"):
        load_config(tmp_path / "absent.yaml")


def test_a_credential_in_a_uri_is_refused_because_the_configuration_is_saved() -> None:
    with pytest.raises(UsageError, match="credentials come from the environment") as caught:
        parse(TEXT, "data.sources.0.uri=s3://key:secret@host/data")
    assert "key:secret" not in str(caught.value)
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize("key", ["run.dir", "loader.cache_dir"])
def test_a_uri_is_not_taken_for_a_directory(key: str) -> None:
    with pytest.raises(UsageError, match=f"{key}: s3://host/run is a URI; expected a directory") as caught:
        parse(TEXT, f"{key}=s3://key:secret@host/run")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.moe.experts_per_token=5", "there are only 4 experts"),
        ("model.moe.expert_width=12", "expected a multiple of 16"),
        ("model.num_kv_heads=3", "num_heads 4 is not a multiple of num_kv_heads 3"),
        ("model.num_heads=3", "width 32 is not a multiple of num_heads 3"),
        ("model.head_width=12", "a head has 12 channels; expected a multiple of 8"),
        ("model.head_width=264", "at most 256"),
        ("schedule.warmup_steps=9", "the run has only 3 steps"),
    ],
)
def test_a_model_that_cannot_be_built_is_refused_by_its_section(override: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(TEXT, override)
    assert message in str(caught.value)


def test_defaults_of_the_order_are_the_plan_s_own() -> None:
    """Written out in the configuration, so that a saved run says them; held equal here."""
    own = inspect.signature(Plan.create).parameters
    for name in ("seed", "lanes", "window", "mask_document_labels"):
        assert DataConfig.model_fields[name].default == own[name].default
