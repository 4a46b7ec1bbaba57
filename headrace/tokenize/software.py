"""The versions that a job depends on."""

from __future__ import annotations


def software() -> dict[str, str]:
    """Whatever's version may show in a published byte; every process that works for a job must have the same."""
    import orjson
    import pyarrow
    import tokenizers
    import zstandard

    from headrace import __version__

    return {
        "headrace": __version__,
        "orjson": orjson.__version__,
        "pyarrow": pyarrow.__version__,
        "tokenizers": tokenizers.__version__,
        "zstd": ".".join(map(str, zstandard.ZSTD_VERSION)),
    }
