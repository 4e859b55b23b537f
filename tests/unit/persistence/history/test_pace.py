"""A long work of a thread is done with breaks, and nothing of it is left out."""

import sys
import threading

import pytest

from scheduler_service.persistence.history.pace import PIECE, with_breaks


@pytest.mark.parametrize("count", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE])
def test_every_item_comes_once_and_in_order(count: int) -> None:
    """Whatever their number."""
    assert list(with_breaks(range(count))) == list(range(count))


def test_other_threads_run_in_between() -> None:
    """One that waits for the first item runs in a break: nothing else takes the interpreter here."""
    went_on, has_run = threading.Event(), threading.Event()
    usual = sys.getswitchinterval()

    def run() -> None:
        went_on.wait()
        has_run.set()

    other = threading.Thread(target=run)
    other.start()
    sys.setswitchinterval(60)
    try:
        for number in with_breaks(range(10_000 * PIECE)):
            went_on.set()
            if number % PIECE == 0 and has_run.is_set():
                break
    finally:
        sys.setswitchinterval(usual)
    other.join()
    assert 0 < number < 9_999 * PIECE
