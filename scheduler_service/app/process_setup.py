"""What a process of the service sets for itself: descriptors, memory, its log."""

import contextlib
import ctypes
import gc
import os
import pwd
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

import msgspec

from scheduler_service.pacing.interpreter import tend_collector
from scheduler_service.ports.log import Log
from scheduler_service.settings import Settings, SettingsError
from scheduler_service.telemetry.logs import EventLog, stderr_log, take_library_logs

# More than a process of this service can use: 512 connections to each of a hundred busy targets.
MOST_USEFUL = 65_536

# Files of state and history with their journals, the log, sockets to Redis, PostgreSQL, daprd and worker
# processes, and lookups of names: 40 are open in an idle service, and each lookup opens two for a moment.
RESERVED = 96

# The least with which each part still works.
LEAST_CALLS = 16

ENOUGH = 1_024
# As in malloc.h of glibc.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
LARGE_BLOCK_BYTES = 256 << 10
KEPT_BYTES = 4 << 20


class DescriptorShares(msgspec.Struct, frozen=True):
    """What the descriptors of a process are for: files and lookups, connections of callers, and calls."""

    reserved: int
    api: int
    calls: int


def raise_limit(log: Log) -> int:
    """Raises the soft limit of descriptors to the hard one, 65,536 at most, and returns what holds then.

    Processes that are started afterwards inherit it.
    """
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_USEFUL if hard == resource.RLIM_INFINITY else min(hard, MOST_USEFUL)
    if 0 <= before < wanted:
        # Where the machine allows less than the hard limit says, what was there before goes on to hold.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    limit = current_limit()
    note = {"note": "few: raise LimitNOFILE of the unit, or ulimit -n"} if limit < ENOUGH else {}
    log("descriptors_set", limit=limit, before=before, hard=hard, **note)
    return limit


def current_limit() -> int:
    """How many descriptors this process may have open now."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST_USEFUL if soft == resource.RLIM_INFINITY else soft


def divide(limit: int, *, listeners: int = 1, connections: int | None = None) -> DescriptorShares:
    """Shares out `limit` descriptors: a quarter for the callers of each listener, unless `connections` says.

    What is neither reserved nor theirs is for calls. Raises SettingsError where `connections` leaves less
    than 16 for these.
    """
    reserved = min(RESERVED, limit // 2)
    api = (limit // 4 if listeners < 2 else limit // 8) if connections is None else connections
    calls = limit - reserved - api * listeners
    if listeners and connections is not None and calls < LEAST_CALLS:
        most = (limit - reserved - LEAST_CALLS) // listeners
        raise SettingsError(
            f"limits.connections = {connections}: of the {limit} descriptors that this process may open "
            f"{reserved} are reserved and {LEAST_CALLS} needed for calls; set {max(most, 1)} or less, or "
            "raise the limit (LimitNOFILE, ulimit -n)"
        )
    return DescriptorShares(reserved, api, max(calls, LEAST_CALLS))


def freeze_memory() -> None:
    """What the start has made stays: the collector need not walk through it again and again.

    Nor need it look after every 700 objects (`pacing.interpreter`): in a herd of 4,000 its rounds took 30 of
    240 µs an execution, and the longest of them were felt as lateness.
    """
    return_large_blocks()
    gc.collect()
    gc.freeze()
    tend_collector()


def return_large_blocks() -> None:
    """Blocks of 256 KiB and more go back to the system as soon as they are free.

    By itself glibc takes larger and larger blocks from its heap, up to 32 MiB, once one was free; what stays
    between them, a job here and a row there, then keeps all of that from being given back: 100 MiB after
    a dozen arrays of 16 MiB. Another C library is left as it is.
    """
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        mallopt(_TRIM_THRESHOLD, KEPT_BYTES)


def log_of(settings: Settings, **bound: object) -> EventLog:
    """The log of this process, as the settings have it, for its libraries too, whose lines have `bound`."""
    log = stderr_log(level=settings.log.level, form=settings.log.format)
    take_library_logs(partial(log, **bound))
    return log


@contextmanager
def process_log(settings: Settings) -> Iterator[EventLog]:
    """`log_of`, which has written all that it summed up when the block ends, however it does."""
    log = log_of(settings)
    try:
        yield log
    finally:
        log.flush()


def machine_user() -> str:
    """The name of the user that runs this process, or the number of one without a name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
