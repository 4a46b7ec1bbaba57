"""Fixtures that more than one directory of tests asks for, and how long an example may take."""

from __future__ import annotations

import signal

from hypothesis import settings

from tests.s3 import s3_bucket, s3_server

__all__ = ["s3_bucket", "s3_server"]

# On a fresh clone the first example also compiles the kernels, which takes longer than the default deadline.
settings.register_profile("headrace", deadline=None)
settings.load_profile("headrace")

# What a shell starts in the background ignores Ctrl-C, and so would every process that a test starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
