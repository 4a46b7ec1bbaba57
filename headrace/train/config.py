"""The configuration of a run: one frozen value, read from YAML and `--set`, saved with the run. Imports no torch."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    Field,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

from headrace.dataeng.storage import redact
from headrace.errors import UsageError
from headrace.manifests.canonical import canonical_json, sha256_hex
from headrace.train.model.config import ModelConfig
from headrace.train.section import Section


class SourceConfig(Section):
    """One dataset of the mixture: `weight` is its share of the samples, relative to the others'."""

    uri: str = Field(min_length=1)
    weight: PositiveFloat = 1.0
    name: str | None = None

    @field_validator("uri")
    @classmethod
    def _no_secret(cls, uri: str) -> str:
        # The resolved configuration is saved with the run, so what stands here will be read by others.
        if redact(uri) != uri:
            raise ValueError(
                "holds a credential; credentials come from the environment, not from a run's configuration"
            )
        return uri


class DataConfig(Section):
    """What decides the order of samples, and so enters the plan's hash; the rest of a run does not change it."""

    sources: tuple[SourceConfig, ...] = Field(min_length=1)
    sequence_length: PositiveInt
    seed: int = Field(default=0, ge=0, lt=2**63)
    lanes: PositiveInt = 960
    window: PositiveInt = 8192
    mask_document_labels: bool = True


class OptimizerConfig(Section):
    """AdamW. Weight decay acts on matrices only; gradients are clipped to `clip_norm` as one vector."""

    lr: PositiveFloat = 3e-4
    betas: tuple[float, float] = (0.9, 0.95)
    epsilon: PositiveFloat = 1e-8
    weight_decay: float = Field(default=0.1, ge=0)
    clip_norm: PositiveFloat = 1.0

    @field_validator("betas")
    @classmethod
    def _in_range(cls, betas: tuple[float, float]) -> tuple[float, float]:
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError("both betas must lie in [0, 1)")
        return betas


class ScheduleConfig(Section):
    """Linear warm-up over `warmup_steps`, then a cosine down to `final_fraction` of the peak at the last step."""

    warmup_steps: int = Field(default=0, ge=0)
    final_fraction: float = Field(default=0.1, ge=0, le=1)


class TrainConfig(Section):
    """How many steps, of how many samples, and when to save.

    micro_batch_size: rows of one forward and backward pass on one rank.
    precision: `auto` is bf16 where the device has it (CUDA), fp32 elsewhere.
    collective_timeout: seconds after which a rank that waits for another gives up and the job ends.
    """

    steps: PositiveInt
    global_batch_size: PositiveInt
    micro_batch_size: PositiveInt
    seed: int = Field(default=0, ge=0, lt=2**63)
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    deterministic: bool = False
    checkpoint_every: PositiveInt = 1000
    keep_checkpoints: PositiveInt = 2
    collective_timeout: PositiveInt = 600


def _mounted(path: str) -> str:
    """Refuses a URI: taken for a path, it would silently be a directory `s3:` on each machine's own disk."""
    if "://" in path:
        raise ValueError(f"{redact(path)} is a URI; expected a directory of a mounted file system")
    return path


Directory = Annotated[str, Field(min_length=1), AfterValidator(_mounted)]


class LoaderConfig(Section):
    """What changes the speed of the loader, never its samples."""

    threads: PositiveInt = 2
    prefetch: PositiveInt = 4
    cache_dir: Directory | None = None


class MetricsConfig(Section):
    """`metrics.jsonl` is always written; `tensorboard` adds event files beside it."""

    tensorboard: bool = False


class RunSection(Section):
    """`dir`: a directory that all ranks see; it holds everything the run writes."""

    dir: Directory


class RunConfig(Section):
    """Everything that decides a run."""

    run: RunSection
    data: DataConfig
    model: ModelConfig
    train: TrainConfig
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    loader: LoaderConfig = LoaderConfig()
    metrics: MetricsConfig = MetricsConfig()

    @model_validator(mode="after")
    def _consistent(self) -> RunConfig:
        if self.schedule.warmup_steps > self.train.steps:
            raise ValueError(
                f"schedule.warmup_steps is {self.schedule.warmup_steps}, but the run has only {self.train.steps} steps"
            )
        return self

    @property
    def hash(self) -> str:
        """SHA-256 of the resolved values, whatever the YAML looked like."""
        return sha256_hex(canonical_json(self.model_dump(mode="json")))

    def to_yaml(self) -> str:
        """Every value, defaults included: `load_config` of it gives an equal object."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Reads a YAML file and applies `a.b=value` overrides, in order.

    Raises:
        UsageError: with every problem found, one a line.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file; docs/train.md shows a configuration") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot read this configuration ({error})") from None
    return parse_config(text, overrides, where=str(path))


def parse_config(text: str, overrides: Sequence[str] = (), *, where: str) -> RunConfig:
    """`load_config` of a text; `where` names it in errors."""
    values = _parse_yaml(text, where)
    if not isinstance(values, dict):
        kind = "nothing" if values is None else type(values).__name__
        raise UsageError(f"{where}: expected sections such as `data:` and `model:`, found {kind}")
    for override in overrides:
        _apply(values, override)
    problems = [_unknown(path) for path in _prune_unknown(values, RunConfig)]
    try:
        config = RunConfig.model_validate(values)
    except ValidationError as error:
        found = error.errors(include_url=False)
        places = [item["loc"] for item in found]
        # A bad entry also leaves its list short; only the entry is the problem.
        problems += [
            _describe(item)
            for item in found
            if not any(item["loc"] and item["loc"] == place[: len(item["loc"])] != place for place in places)
        ]
    if problems:
        raise UsageError(
            f"{where}: this configuration cannot be used:\n" + "\n".join(f"  {p}" for p in problems)
        )
    return config


class _UniqueKeys(yaml.SafeLoader):
    """YAML lets a later key silently replace an earlier one; here it is an error."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                line = key_node.start_mark.line + 1
                raise yaml.constructor.ConstructorError(None, None, f"line {line}: {key!r} is given twice")
            seen.add(key)
        return super().construct_mapping(node, deep)


def _parse_yaml(text: str, where: str) -> Any:
    try:
        return yaml.load(text, Loader=_UniqueKeys)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, TypeError, RecursionError) as error:
        raise UsageError(f"{where}: not YAML that headrace reads: {' '.join(str(error).split())}") from None


def _apply(values: dict[str, Any], override: str) -> None:
    path, separator, text = override.partition("=")
    keys = path.strip().split(".")
    if not separator or not all(keys):
        raise UsageError(f"--set {override}: expected section.key=value, for example --set optimizer.lr=1e-3")
    value = _parse_yaml(text, f"--set {path}")
    target: Any = values
    for key in keys[:-1]:
        target = _child(target, key, override)
    if isinstance(target, list):
        target[_index(target, keys[-1], override)] = value
    else:
        target[keys[-1]] = value


def _child(target: Any, key: str, override: str) -> Any:
    child = target[_index(target, key, override)] if isinstance(target, list) else target.setdefault(key, {})
    if child is None and isinstance(target, dict):  # `optimizer:` with nothing under it
        child = target[key] = {}
    if not isinstance(child, (dict, list)):
        raise UsageError(f"--set {override}: {key!r} is a value, not a section")
    return child


def _index(target: list[Any], key: str, override: str) -> int:
    if not key.isdigit() or int(key) >= len(target):
        raise UsageError(f"--set {override}: {key!r} is not a place in a list of {len(target)}; count from 0")
    return int(key)


def _sections(annotation: Any) -> type[Section] | None:
    """The section type inside an annotation such as `Section` or `tuple[Section, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        if isinstance(argument, type) and issubclass(argument, Section):
            return argument
    return None


def _prune_unknown(values: dict[Any, Any], section: type[Section], prefix: str = "") -> list[str]:
    """Removes keys that no section has and returns their full paths, down to the values under them."""
    found: list[str] = []
    for key in list(values):
        field = section.model_fields.get(key)
        value = values[key]
        if field is None:
            found += _leaves(values.pop(key), f"{prefix}{key}")
            continue
        inner = _sections(field.annotation)
        if inner is None:
            continue
        if isinstance(value, dict):
            found += _prune_unknown(value, inner, f"{prefix}{key}.")
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, dict):
                    found += _prune_unknown(item, inner, f"{prefix}{key}.{index}.")
        elif value is None:
            values[key] = {}
    return found


def _leaves(value: Any, path: str) -> list[str]:
    if isinstance(value, Mapping) and value:
        return [leaf for key, child in value.items() for leaf in _leaves(child, f"{path}.{key}")]
    return [path]


def _known(section: type[Section], prefix: str = "") -> Iterator[str]:
    for name, field in section.model_fields.items():
        inner = _sections(field.annotation)
        if inner is None:
            yield f"{prefix}{name}"
        else:
            place = "" if isinstance(field.annotation, type) else ".0"  # a section, or a list of them
            yield from _known(inner, f"{prefix}{name}{place}.")


def _unknown(path: str) -> str:
    nearest = difflib.get_close_matches(path, _known(RunConfig), n=1, cutoff=0.6)
    return f"{path}: unknown key" + (f"; did you mean {nearest[0]}?" if nearest else "")


def _describe(item: Any) -> str:
    path = ".".join(str(part) for part in item["loc"])
    if item["type"] == "missing":
        return f"{path}: missing; it has no default"
    message = item["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    if item["type"] == "value_error":
        return f"{path}: {message}" if path else message
    found = item["input"]
    # A section or a list is not repeated: it says nothing about the place, and may hold what must not be printed.
    return f"{path}: {message}" + ("" if isinstance(found, (dict, list, tuple)) else f", found {found!r}")
