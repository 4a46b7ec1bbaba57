from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from headrace.train.signals import StopRequest


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_request_is_noted_and_its_echo_too(number: signal.Signals) -> None:
    """torchrun passes on a signal that the process may have received itself."""
    stop = StopRequest(launched=False)
    before = signal.getsignal(number)
    with stop.listening():
        assert not stop.wanted
        for _ in range(2):
            os.kill(os.getpid(), number)
            assert stop.wanted
    assert signal.getsignal(number) is before


def test_asked_again_later_the_process_ends_at_once() -> None:
    code = """
import os, signal
from headrace.train import signals
signals.SAME_REQUEST_SECONDS = -1.0
with signals.StopRequest(launched=False).listening():
    os.kill(os.getpid(), signal.SIGTERM)
    print("once", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    print("twice", flush=True)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (-signal.SIGTERM, "once\n")


def test_only_a_launched_process_can_be_orphaned() -> None:
    assert not StopRequest(launched=False).orphaned
    assert not StopRequest(launched=True).orphaned  # the parent is still there
