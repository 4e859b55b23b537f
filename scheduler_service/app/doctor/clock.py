"""The clock of this machine: whether it is kept right, runs evenly, and agrees with others."""

import ctypes
import time

from scheduler_service.app.doctor.finding import Finding, Part

CLOCK = Part("clock")
TOLERATED_SECONDS = 1.0
"""Between two machines: firings follow the wall clock, and are late or early by as much."""

STEP_SECONDS = 0.05
"""Within one examination: less is the work of whoever keeps the clock right."""

UNSYNCHRONIZED = 5
"""What adjtimex returns for a clock that nobody keeps right (TIME_ERROR, man adjtimex)."""

_ENOUGH_FOR_ANY_KERNEL = 512
_REMEDY = "run chrony, systemd-timesyncd or ntpd on this machine, and on the other one"


def judge_step(seconds: float) -> list[Finding]:
    """By how much the wall clock went away from the monotonic one meanwhile, and whether it is kept right."""
    found = [_judge_keeping(read_kernel())]
    if abs(seconds) > STEP_SECONDS:
        found.append(CLOCK.warn("step", f"the wall clock was set by {seconds:+.2f} s meanwhile", _REMEDY))
    else:
        found.append(CLOCK.well("step", "the wall clock runs evenly"))
    return found


def judge_difference(whose: str, theirs: float, *, resolution: float = 0.0) -> Finding:
    """Compares this machine's clock with `theirs` (seconds since 1970), which is exact to `resolution`."""
    difference = time.time() - theirs
    if abs(difference - resolution / 2) > TOLERATED_SECONDS + resolution / 2:
        detail = f"this machine's clock and that of {whose} differ by {difference:+.1f} s"
        return CLOCK.warn(whose, detail, _REMEDY)
    return CLOCK.well(whose, f"agrees with {whose} to {TOLERATED_SECONDS + resolution:g} s")


def read_kernel() -> int | None:
    """The kernel's word on its clock (adjtimex, without setting anything); None where it has none."""
    try:
        return int(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_ENOUGH_FOR_ANY_KERNEL)))
    except (AttributeError, OSError):
        return None


def _judge_keeping(word: int | None) -> Finding:
    if word == UNSYNCHRONIZED:
        detail = "nobody keeps this machine's clock right, as far as its kernel knows"
        return CLOCK.warn("kept right", detail, "run chrony, systemd-timesyncd or ntpd")
    return CLOCK.well("kept right", "unknown here" if word in (None, -1) else "yes, says the kernel")
