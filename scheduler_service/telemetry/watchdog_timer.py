"""A watchdog timer: it is restarted again and again, and wakes a thread only when nobody did so in time."""

import ctypes
import os
import threading
import time
from typing import Protocol


class WatchdogTimer(Protocol):
    """Rings when it was not restarted in time, and again after as long, until it is.

    One thread restarts and closes it, another one waits; that one frees what it holds, by its last `wait`.
    """

    def restart(self) -> None:
        """Rings after its time from now on, if this is not called again before."""

    def wait(self) -> bool:
        """Blocks the calling thread until it rings (True) or was closed (False); not again after that."""

    def close(self) -> None:
        """Ends the waiting; to restart or close it afterwards does nothing."""


def make_timer(seconds: float) -> WatchdogTimer:
    """One that rings `seconds` after its making, its last restart or its last ring.

    On Linux it is a timer of the kernel, and wakes no thread until it rings; where there is none, or no
    descriptor for it, the waiting thread wakes whenever the time since a restart would be over.
    """
    try:
        return KernelTimer(seconds)
    except (AttributeError, OSError):
        return PolledTimer(seconds)


class PolledTimer:
    """Looks at its deadline whenever that would be over."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ended = threading.Lock()  # waited for often: an Event takes five times as long
        self._ended.acquire()
        self._is_closed = False
        self.restart()

    def restart(self) -> None:
        """As WatchdogTimer has it."""
        self._deadline = time.monotonic() + self._seconds

    def wait(self) -> bool:
        """As WatchdogTimer has it."""
        while (left := self._deadline - time.monotonic()) > 0:
            if self._ended.acquire(timeout=left):
                return False
        self.restart()
        return True

    def close(self) -> None:
        """As WatchdogTimer has it."""
        if not self._is_closed:
            self._is_closed = True
            self._ended.release()


class _TimeSpec(ctypes.Structure):
    """`struct timespec`."""

    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _TimerSpec(ctypes.Structure):
    """`struct itimerspec` of timerfd_settime(2)."""

    _fields_ = (("again", _TimeSpec), ("first", _TimeSpec))


class KernelTimer:
    """A timerfd(2). Raises AttributeError where the system has none, OSError where it gives none."""

    def __init__(self, seconds: float) -> None:
        library = ctypes.PyDLL(None, use_errno=True)  # neither call blocks: the lock of the interpreter stays
        self._set = library.timerfd_settime
        self._spec = _TimerSpec(_time_spec(seconds), _time_spec(seconds))
        self._descriptor: int = library.timerfd_create(time.CLOCK_MONOTONIC, os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._is_closed = False
        self._closing = threading.Lock()
        self._arm = ctypes.byref(self._spec)
        if self._set(self._descriptor, 0, self._arm, None) < 0:
            os.close(self._descriptor)
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def restart(self) -> None:
        """As WatchdogTimer has it."""
        if not self._is_closed:
            self._set(self._descriptor, 0, self._arm, None)

    def wait(self) -> bool:
        """As WatchdogTimer has it; at its end it closes the descriptor, which no other thread reads."""
        os.read(self._descriptor, 8)
        if not self._is_closed:
            return True
        with self._closing:  # nobody arms a descriptor that is another's by then
            os.close(self._descriptor)
        return False

    def fileno(self) -> int:
        """Its descriptor, until `wait` has returned False."""
        return self._descriptor

    def close(self) -> None:
        """As WatchdogTimer has it."""
        at_once = _TimerSpec(first=_time_spec(1e-6))
        with self._closing:
            if not self._is_closed:
                self._is_closed = True
                self._set(self._descriptor, 0, ctypes.byref(at_once), None)


def _time_spec(seconds: float) -> _TimeSpec:
    whole = int(seconds)
    return _TimeSpec(whole, round((seconds - whole) * 1e9))
