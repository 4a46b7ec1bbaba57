from __future__ import annotations

import pytest

from headrace.tokenize.executors.choice import local_workers

MIB = 1 << 20


@pytest.mark.parametrize(
    ("asked", "num_tasks", "encoded_bytes", "cores", "expected"),
    [
        (None, 100, 100 * MIB, 8, 1),  # threads of one process share it
        (None, 100, 129 * MIB, 8, 2),
        (None, 100, 2**40, 8, 8),
        (None, 3, 2**40, 8, 3),
        (None, 100, None, 8, 8),  # not only encoding
        (None, 1, 0, 8, 1),
        (5, 100, 1, 2, 5),  # who asks gets
        (5, 3, 1, 2, 3),
    ],
)
def test_processes_are_as_many_as_asked_for_or_else_as_the_text_is_worth(
    asked: int | None, num_tasks: int, encoded_bytes: int | None, cores: int, expected: int
) -> None:
    assert local_workers(asked, num_tasks, encoded_bytes, cores) == expected
