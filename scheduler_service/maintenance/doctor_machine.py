"""What the doctor finds of this machine: versions, limits, the clock."""

import ctypes
import platform
import re
import resource
from collections.abc import Iterable, Iterator
from importlib import metadata

from scheduler_service import DISTRIBUTION, __version__, how_to_install
from scheduler_service.app.process_setup import ENOUGH, MOST_USEFUL, divide
from scheduler_service.maintenance.doctor_findings import DoctorFinding, ExaminedPart, ExaminedService
from scheduler_service.settings import SettingsError

VERSIONS = ExaminedPart("versions")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LEAST = re.compile(r"[>=]=\s*([0-9.]+)")
_EXTRA = re.compile(r"extra == ['\"](\w+)['\"]")
LIMITS = ExaminedPart("limits")
REMEDY = "raise LimitNOFILE of the unit, or ulimit -n"
CLOCK = ExaminedPart("clock")
TOLERATED_SECONDS = 1.0
"""Between two machines: firings follow the wall clock, and are late or early by as much."""
STEP_SECONDS = 0.05
"""Within one examination: less is the work of whoever keeps the clock right."""
UNSYNCHRONIZED = 5
"""What adjtimex returns for a clock that nobody keeps right (TIME_ERROR, man adjtimex)."""
_ENOUGH_FOR_ANY_KERNEL = 512
_REMEDY = "run chrony, systemd-timesyncd or ntpd on this machine, and on the other one"


async def examine_versions(subject: ExaminedService) -> list[DoctorFinding]:
    """Raises nothing."""
    found = [VERSIONS.well("punctual", __version__), VERSIONS.well("python", platform.python_version())]
    extras = _extras_of(subject)
    try:
        needed = [text for text in metadata.requires(DISTRIBUTION) or () if _is_in(text, extras)]
    except metadata.PackageNotFoundError:
        remedy = how_to_install(*extras)
        return [*found, VERSIONS.warn("packages", f"{DISTRIBUTION} is not installed as a package", remedy)]
    wrong = list(find_wrong(needed))
    if not wrong:
        return [*found, VERSIONS.well("packages", f"the {len(needed)} of {', '.join(('base', *extras))}")]
    remedy = how_to_install(*extras, upgrade=True)
    return [*found, *(VERSIONS.fail("packages", text, remedy) for text in wrong)]


def find_wrong(requirements: Iterable[str]) -> Iterator[str]:
    """The packages that are missing or too old, in words. A requirement is as in `NAME[EXTRA]>=1.2; MARK`."""
    for text in requirements:
        named = _NAME.match(text)
        assert named is not None, text
        least = _LEAST.search(text.partition(";")[0])
        try:
            there = metadata.version(named[0])
        except metadata.PackageNotFoundError:
            yield f"{named[0]} is missing"
            continue
        if least is not None and _number(there) < _number(least[1]):
            yield f"{named[0]} has version {there}; {least[1]} or later is needed"


def _extras_of(subject: ExaminedService) -> tuple[str, ...]:
    settings = subject.loaded.settings
    urls = [url for url in (settings.store.url, settings.database.url) if url is not None]
    named = {
        "dapr": subject.is_node,
        "postgres": any(url.startswith("postgresql:") for url in urls),
        "mysql": any(url.startswith(("mysql:", "mariadb:")) for url in urls),
        "redis": (settings.contexts.url or "").startswith("redis"),
    }
    return ("service", *(name for name, is_needed in named.items() if is_needed))


def _is_in(requirement: str, extras: tuple[str, ...]) -> bool:
    extra = _EXTRA.search(requirement)
    return extra is None or extra[1] in extras


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


async def examine_limits(subject: ExaminedService) -> list[DoctorFinding]:
    """The service raises its soft limit itself: the hard one counts. Raises nothing."""
    return judge(subject, resource.getrlimit(resource.RLIMIT_NOFILE)[1])


def judge(subject: ExaminedService, hard: int) -> list[DoctorFinding]:
    """The same for a hard limit of descriptors."""
    limit = MOST_USEFUL if hard == resource.RLIM_INFINITY else min(hard, MOST_USEFUL)
    connections = subject.loaded.settings.limits.connections
    try:
        shares = divide(limit, listeners=2 if subject.is_node else 1, connections=connections)
    except SettingsError as error:
        return [LIMITS.fail("descriptors", str(error), REMEDY)]
    detail = f"{limit}: {shares.api} for callers of each listener, {shares.calls} for calls"
    if limit < ENOUGH:
        return [LIMITS.warn("descriptors", f"{detail}; {ENOUGH} are enough for most", REMEDY)]
    return [LIMITS.well("descriptors", detail)]


def judge_step(seconds: float) -> list[DoctorFinding]:
    """By how much the wall clock went away from the monotonic one meanwhile, and whether it is kept right."""
    found = [_judge_keeping(read_kernel())]
    if abs(seconds) > STEP_SECONDS:
        found.append(CLOCK.warn("step", f"the wall clock was set by {seconds:+.2f} s meanwhile", _REMEDY))
    else:
        found.append(CLOCK.well("step", "the wall clock runs evenly"))
    return found


def judge_difference(
    whose: str, theirs: float, between: tuple[float, float], *, resolution: float = 0.0
) -> DoctorFinding:
    """Compares this machine's clock with `theirs` (seconds since 1970), which is exact to `resolution`.

    It was read `between` two moments of this machine's clock.
    """
    earliest, latest = between[0] - resolution, between[1]
    difference = max(earliest - theirs, 0.0) + min(latest - theirs, 0.0)
    if abs(difference) > TOLERATED_SECONDS:
        detail = f"this machine's clock and that of {whose} differ by {difference:+.1f} s"
        return CLOCK.warn(whose, detail, _REMEDY)
    return CLOCK.well(whose, f"agrees with {whose} to {TOLERATED_SECONDS + resolution:g} s")


def read_kernel() -> int | None:
    """The kernel's word on its clock (adjtimex, without setting anything); None where it has none."""
    try:
        return int(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_ENOUGH_FOR_ANY_KERNEL)))
    except (AttributeError, OSError):
        return None


def _judge_keeping(word: int | None) -> DoctorFinding:
    if word == UNSYNCHRONIZED:
        detail = "nobody keeps this machine's clock right, as far as its kernel knows"
        return CLOCK.warn("kept right", detail, "run chrony, systemd-timesyncd or ntpd")
    return CLOCK.well("kept right", "unknown here" if word in (None, -1) else "yes, says the kernel")
