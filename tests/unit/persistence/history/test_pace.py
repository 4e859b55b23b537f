"""A long work of a thread is done with breaks, and nothing of it is left out."""

import threading

import pytest

from scheduler_service.persistence.history.pace import PIECE, with_breaks


@pytest.mark.parametrize("count", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE])
def test_every_item_comes_once_and_in_order(count: int) -> None:
    """Whatever their number."""
    assert list(with_breaks(range(count))) == list(range(count))


def test_other_threads_run_in_between() -> None:
    """One that waits for the first piece has ended before a later one is done."""
    went_on, has_run = threading.Event(), threading.Event()

    def run() -> None:
        went_on.wait()
        has_run.set()

    other = threading.Thread(target=run)
    other.start()
    pieces = 0
    for number in with_breaks(range(10_000 * PIECE)):
        went_on.set()
        if number % PIECE == 0:
            pieces += 1
            if has_run.is_set():
                break
    other.join()
    assert 1 < pieces < 10_000
