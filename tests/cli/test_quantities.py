from __future__ import annotations

import argparse

import pytest

from headrace.cli.quantities import byte_count


@pytest.mark.parametrize(
    ("text", "number"),
    [("1000", 1000), ("4k", 4096), ("64M", 64 << 20), ("1 GiB", 1 << 30), ("2MB", 2 << 20)],
)
def test_sizes_may_have_units(text: str, number: int) -> None:
    assert byte_count(text) == number


@pytest.mark.parametrize("text", ["", "-1", "1.5M", "M", "4T"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        byte_count(text)
