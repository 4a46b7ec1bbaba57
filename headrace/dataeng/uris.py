"""What a place is called: local or remote, and without whatever in it is secret."""

from __future__ import annotations

import re
from typing import Final

from headrace.errors import MissingExtra, UsageError

_EXTRAS: Final = {"s3": ("s3fs", "s3"), "s3a": ("s3fs", "s3")}


def redact(uri: str) -> str:
    """`uri` without user, password, query or fragment: safe to print, log and store. Chained URIs (`a::b`) too."""
    if "::" in uri and "://" in uri:
        parts = uri.split("::")
        shown = [_redact(part) for part in parts]
        # Behind a query, a `::` may as well be part of a signature.
        first = next((i for i, part in enumerate(parts) if re.search(r"[?#]", part)), len(parts))
        return "::".join(shown[: first + 1])
    return _redact(uri)


def _redact(uri: str) -> str:
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)\Z", uri, re.DOTALL)
    if not match:
        return uri
    scheme, rest = match.groups()
    rest = re.split(r"[?#]", rest, maxsplit=1)[0]
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"


def missing_client(scheme: str) -> UsageError:
    """What to say when the client for `scheme` is not installed: our extra, or what fsspec advises."""
    purpose = f"reading {scheme}:// URIs"
    if scheme in _EXTRAS:
        return MissingExtra(*_EXTRAS[scheme], purpose)
    from fsspec.registry import known_implementations

    advice = known_implementations.get(scheme, {}).get("err") or "install the fsspec client for it"
    return UsageError(f"{purpose} needs a package that is not installed: {advice}")


def is_remote(uri: str) -> bool:
    """Whether `uri` names an fsspec location rather than a local path (`file://` is local)."""
    scheme, separator, _ = uri.partition("://")
    return bool(separator) and scheme not in ("file", "local")
