"""A watchdog timer wakes a thread only when it was not restarted in time."""

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler_service.telemetry.watchdog_timer import KernelTimer, PolledTimer, WatchdogTimer, make_timer
from tests.unit.transport.shortage import no_descriptor

SOON, NEVER = 0.02, 3_600.0
GRAIN = 0.005
"""Seconds by which clocks of the kernel and of Python may differ."""

Make = Callable[[float], WatchdogTimer]
linux = pytest.mark.skipif(sys.platform != "linux", reason="timerfd is a call of Linux")
both = pytest.mark.parametrize("make", [PolledTimer, pytest.param(KernelTimer, marks=linux)])


@both
def test_it_rings_until_it_is_restarted(make: Make) -> None:
    """After its time, and each time after as long."""
    began = time.monotonic()
    timer = make(SOON)
    for count in (1, 2, 3):
        assert timer.wait()
        assert time.monotonic() - began > count * (SOON - GRAIN)
    end(timer)


@both
def test_a_restart_begins_its_time_anew(make: Make) -> None:
    """Half of it is over by then; nothing but the clock of the system says so."""
    timer = make(SOON)
    began = time.monotonic()
    while time.monotonic() < began + SOON / 2:
        """A timer of the kernel takes no clock of a test."""
    restarted = time.monotonic()
    timer.restart()
    assert timer.wait()
    assert time.monotonic() - restarted > SOON - GRAIN
    end(timer)


@both
def test_a_thread_that_waits_ends_with_it(make: Make) -> None:
    """However long it would have waited; to close or restart it once more does nothing."""
    timer = make(NEVER)
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(timer.wait()))
    waiting.start()
    timer.close()
    waiting.join()
    timer.close()
    timer.restart()
    assert answers == [False]


@linux
def test_a_closed_timer_keeps_no_descriptor() -> None:
    """The thread that waits closes it."""
    timer = KernelTimer(NEVER)
    place = Path("/proc/self/fd", str(timer.fileno()))
    assert place.readlink() == Path("anon_inode:[timerfd]")
    end(timer)
    assert not place.is_symlink() or place.readlink() != Path("anon_inode:[timerfd]")


@linux
def test_without_a_descriptor_the_thread_looks_itself() -> None:
    """And so on another system."""
    kernel = make_timer(NEVER)
    assert isinstance(kernel, KernelTimer)
    end(kernel)
    with no_descriptor():
        polled = make_timer(NEVER)
    assert isinstance(polled, PolledTimer)


def end(timer: WatchdogTimer) -> None:
    """Closes it, and frees what it holds."""
    timer.close()
    timer.close()
    while timer.wait():
        """What rang before the end."""
