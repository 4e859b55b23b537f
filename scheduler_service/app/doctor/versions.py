"""The versions of Punctual, Python and the packages that the settings need."""

import platform
import re
from collections.abc import Iterable, Iterator
from importlib import metadata

from scheduler_service import DISTRIBUTION, __version__, how_to_install
from scheduler_service.app.doctor.finding import Finding, Part, Subject

VERSIONS = Part("versions")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LEAST = re.compile(r"[>=]=\s*([0-9.]+)")
_EXTRA = re.compile(r"extra == ['\"](\w+)['\"]")


async def examine_versions(subject: Subject) -> list[Finding]:
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


def _extras_of(subject: Subject) -> tuple[str, ...]:
    settings = subject.loaded.settings
    url = settings.database.url or ""
    named = {
        "dapr": subject.is_node,
        "postgres": url.startswith("postgresql:"),
        "mysql": url.startswith(("mysql:", "mariadb:")),
        "redis": settings.store.url is not None,
    }
    return ("service", *(name for name, is_needed in named.items() if is_needed))


def _is_in(requirement: str, extras: tuple[str, ...]) -> bool:
    extra = _EXTRA.search(requirement)
    return extra is None or extra[1] in extras


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
