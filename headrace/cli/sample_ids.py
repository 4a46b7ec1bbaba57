"""Sample ids as an argument: numbers separated by commas."""

from __future__ import annotations

from headrace.errors import UsageError


def sample_ids(option: str, text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(
            f"{option} {text}: expected sample ids separated by commas, such as 0,1,81204"
        ) from None
