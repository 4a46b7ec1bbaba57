"""Names that a manifest may use for its files: relative, plain, and never a way out of the dataset."""

from __future__ import annotations

import re

from headrace.errors import InputError

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}(?:/[A-Za-z0-9_][A-Za-z0-9._-]{0,199}){0,7}")


_SHARD = re.compile(r"shard\.(\d+)-\d+\.")


def unit_of(name: str) -> int | None:
    """The unit number in the name of a shard or of its lineage; None for any other name."""
    match = _SHARD.match(name)
    return None if match is None else int(match[1])


def checked_name(name: object, where: str) -> str:
    """Returns `name` if it is a plain relative path (letters, digits, `._-`, no part starting with a dot or dash).

    Raises:
        InputError: anything else: absolute paths, `..`, drive letters, URLs, control characters.
    """
    if not isinstance(name, str) or not _PLAIN.fullmatch(name):
        raise InputError(
            f"{where}: {name!r} is not a plain file name inside the dataset; the manifest was not written by "
            "headrace or was altered, and is refused"
        )
    return name
