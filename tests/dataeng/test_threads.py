import gc
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from headrace.dataeng.threads import Threads, map_ahead


def test_calls_run_in_order_and_errors_are_raised_where_the_result_is_asked_for() -> None:
    threads = Threads(1, "test")
    seen: list[int] = []
    futures = [threads.submit(seen.append, number) for number in range(5)]
    failed = threads.submit(int, "x")
    assert [future.result() for future in futures] == [None] * 5
    assert seen == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="invalid literal"):
        failed.result()
    threads.close(10)


def test_closing_drops_what_has_not_begun_and_leaves_what_does_not_end() -> None:
    threads = Threads(1, "test")
    begun, ending = threading.Event(), threading.Event()
    threads.submit(begun.set)
    threads.submit(ending.wait)
    never = threads.submit(pytest.fail)
    begun.wait(10)
    began = time.monotonic()
    threads.close(0.2)
    threads.close(0.2)
    assert time.monotonic() - began < 5
    assert never.cancelled()
    ending.set()


def test_threads_end_when_nobody_holds_them() -> None:
    threads = Threads(3, "test-forgotten")
    threads.submit(int).result()
    del threads
    gc.collect()
    deadline = time.monotonic() + 10
    while any(t.name.startswith("test-forgotten") for t in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_process_that_forgets_to_close_ends_at_once() -> None:
    script = (
        "import time\n"
        "from headrace.dataeng.threads import Threads\n"
        "threads = Threads(2, 'test')\n"
        "for _ in range(100): threads.submit(time.sleep, 60)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=30)


def test_map_ahead_keeps_the_order_and_never_more_than_it_was_told_on_the_way() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(50):
            taken.append(number)
            yield number

    results = map_ahead(lambda n: n * n, items(), threads=3, ahead=5)
    for count, result in enumerate(results):
        assert result == count * count
        assert len(taken) <= count + 5
    assert len(taken) == 50


def test_map_ahead_raises_in_its_place_and_may_be_left() -> None:
    results = map_ahead(lambda n: 1 // n, [1, 0, 1], threads=2, ahead=2)
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)
    left = map_ahead(lambda n: n, range(1000), threads=2, ahead=4, name="test-left")
    assert next(left) == 0
    del left
    gc.collect()
    deadline = time.monotonic() + 10
    while any(t.name.startswith("test-left") for t in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
