"""A watchdog timer wakes a thread only when it was not restarted in time."""

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler_service.telemetry import watchdog_timer
from scheduler_service.telemetry.watchdog_timer import KernelTimer, PolledTimer, WatchdogTimer, make_timer

SOON, NEVER = 0.02, 3_600.0
GRAIN = 0.005
"""Seconds by which clocks of the kernel and of Python may differ."""

Make = Callable[[float], WatchdogTimer]
linux = pytest.mark.skipif(sys.platform != "linux", reason="timerfd is a call of Linux")
both = pytest.mark.parametrize("make", [PolledTimer, pytest.param(KernelTimer, marks=linux)])


@both
def test_it_rings_until_it_is_restarted(make: Make) -> None:
    """After its time; a restart begins it anew."""
    began = time.monotonic()
    timer = make(SOON)
    assert timer.wait()
    assert time.monotonic() - began > SOON - GRAIN
    rang = time.monotonic()
    while time.monotonic() < rang + SOON / 2:
        """Half of the time is over when it is restarted."""
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
def test_without_a_timer_of_the_kernel_the_thread_looks_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """On another system, or where no descriptor is left."""
    kernel = make_timer(NEVER)
    assert isinstance(kernel, KernelTimer)
    end(kernel)
    for error in (AttributeError("timerfd_create"), OSError(24, "timerfd_create")):

        def refuse(seconds: float, error: Exception = error) -> WatchdogTimer:
            raise error

        monkeypatch.setattr(watchdog_timer, "KernelTimer", refuse)
        assert isinstance(make_timer(NEVER), PolledTimer)


def end(timer: WatchdogTimer) -> None:
    """Closes it; whoever waits afterwards is told so."""
    timer.close()
    while timer.wait():
        """What rang before the end."""
