"""Fixtures that more than one directory of tests asks for."""

from __future__ import annotations

from tests.s3 import s3_bucket, s3_server

__all__ = ["s3_bucket", "s3_server"]
