from __future__ import annotations

import os
import select
import signal
import threading

import pytest

from headrace.tokenize.executors.stop import Stop


def test_ctrl_c_once_is_a_request_and_twice_an_interrupt() -> None:
    with Stop() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.requested
        assert select.select([stop], [], [], 0)[0] == [stop]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            stop.heard(1)  # whoever swallowed the first one
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def test_it_is_told_once_how_many_units_are_still_open() -> None:
    told: list[int] = []
    with Stop(told.append) as stop:
        assert not select.select([stop], [], [], 0)[0]
        stop.request()
        stop.heard(3)
        stop.heard(2)
    assert told == [3]


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Stop() as stop:
            os.kill(os.getpid(), signal.SIGINT)
            assert not stop.requested
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_than_the_main_one_leaves_signals_alone() -> None:
    def use() -> None:
        with Stop():
            handlers.append(signal.getsignal(signal.SIGINT))

    handlers: list[object] = []
    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler]
