"""How often the history is written, and how the event loop goes on while a thread computes."""

import time

# After a load of BUSY_BATCHES the writer waits BUSY_INTERVALS times longer: more of what begins and ends an
# execution becomes one row, and the event loop has the interpreter to itself meanwhile.
BUSY_BATCHES = 200
BUSY_INTERVALS = 4


class InterpreterBreak:
    """Called between small pieces of work, it lets the other threads run now and then.

    A thread that computes keeps the interpreter for 5 ms, whatever is due in the event loop meanwhile. A
    sleep of no length does not help: it is over before another thread has woken up. Each break costs two
    changes of threads: there is one for about a third of a millisecond of work.
    """

    def __init__(self, *, every: int = 128, seconds: float = 0.0001) -> None:
        self._every = every
        self._seconds = seconds
        self._left = every

    def __call__(self) -> None:
        self._left -= 1
        if not self._left:
            self._left = self._every
            time.sleep(self._seconds)


def flush_interval_after(batches: int, seconds: float) -> float:
    """For how many seconds a load is gathered after one of `batches`; `seconds` where there was little."""
    return seconds if batches < BUSY_BATCHES else seconds * BUSY_INTERVALS
