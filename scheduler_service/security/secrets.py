"""The sources of secrets (settings, a file for each in a folder, what the API has stored), and masks."""

import itertools
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.domain.secret_places import (
    LEAST_CHARACTERS,
    SECRET_NAME,
    Unfilled,
    fill_places,
    secret_values,
)
from scheduler_service.domain.wire import AtSend, OutboundRequest
from scheduler_service.language.value_masks import SecretMask
from scheduler_service.ports.sending import Secrets

TENANT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MOST_BYTES = 16_384
"""Of a value."""
MOST_VALUES = 2
MOST_FILES = 10_000
"""So many files are remembered."""


def read_values(given: object) -> tuple[str, ...]:
    """The values of a secret: a text, or a list of one or two while it is rotated.

    Raises ValueError, whose message has nothing of a value.
    """
    values = [given] if isinstance(given, str) else given
    if not isinstance(values, list | tuple) or not all(isinstance(one, str) for one in values):
        raise ValueError("a secret is a text, or a list of two texts while it is rotated")
    if not 1 <= len(values) <= MOST_VALUES:
        raise ValueError(f"a secret has one value, or two while it is rotated, not {len(values)}")
    for one in values:
        if len(one) < LEAST_CHARACTERS:
            raise ValueError(f"a value has at least {LEAST_CHARACTERS} characters: less could not be masked")
        if any("\ud800" <= character <= "\udfff" for character in one):
            raise ValueError("a value is a text of characters that can be sent, in UTF-8")
        if len(one.encode()) > MOST_BYTES:
            raise ValueError(f"a value has at most {MOST_BYTES} bytes")
    return tuple(values)


def read_text(text: str) -> str | list[str]:
    """What the text of a variable or a file gives: a JSON list of texts, else the text itself."""
    if text.startswith("["):
        try:
            listed = json.loads(text)
        except ValueError:
            return text
        if isinstance(listed, list) and all(isinstance(one, str) for one in listed):
            return listed
    return text


def fill_request(request: OutboundRequest, secrets: Secrets) -> OutboundRequest | Unfilled:
    """A request with the values of its secrets, the first one of each; `Unfilled`: one is missing."""
    at_send = request.at_send
    if at_send is None:
        return request
    tenant = at_send.tenant
    return fill_places(request, lambda name: next(iter(secrets.find(tenant, name)), None))


class KnownSecret(NamedTuple):
    """A secret without its values: how many it has, and since when (wall ms; None: not known).

    `source`: `settings`, `file` or `stored`.
    """

    name: str
    source: str
    values: int
    created_at: int | None = None
    updated_at: int | None = None


class GivenSecrets:
    """Those of the settings (`ports.sending.Secrets`)."""

    def __init__(self, by_tenant: Mapping[str, Mapping[str, tuple[str, ...]]]) -> None:
        self._by_tenant = by_tenant

    def find(self, tenant: str, name: str) -> tuple[str, ...]:
        """The values in the settings."""
        return self._by_tenant.get(tenant, {}).get(name, ())

    def values(self, tenant: str) -> Iterable[str]:
        """All values of a tenant."""
        return [value for values in self._by_tenant.get(tenant, {}).values() for value in values]

    def list(self, tenant: str) -> Iterable[KnownSecret]:
        """Those of a tenant."""
        for name, values in self._by_tenant.get(tenant, {}).items():
            yield KnownSecret(name, "settings", len(values))


class _Known(NamedTuple):
    signature: tuple[int, ...]
    values: tuple[str, ...]


class SecretFiles:
    """A file for each secret in a folder, those of further tenants in folders with their names below it.

    A file has the value, without the line end after it, or a JSON list of two. It is looked at when it is
    used, and read again where its inode, size or time has changed. Files that are no regular ones, larger
    than a value may be, or no UTF-8 are none.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[tuple[str, str], _Known] = {}
        self._latest: dict[str, list[str]] = {}

    def find(self, tenant: str, name: str) -> tuple[str, ...]:
        """The values in the tenant's file of that name."""
        if not (SECRET_NAME.fullmatch(name) and TENANT_NAME.fullmatch(tenant)):
            return ()
        for path in self._places(tenant, name):
            values = self._read(path, (str(path), name))
            if values:
                return values
        return ()

    def values(self, tenant: str) -> Iterable[str]:
        """All values in the tenant's files, of 10,000 files at most.

        Where it has none any more they are those of before: a folder that is away, as a mount that failed,
        must not show in the meantime what it had.
        """
        found = [value for name in self._names(tenant) for value in self.find(tenant, name)]
        if found:
            self._latest[tenant] = found
        return found or self._latest.get(tenant, ())

    def list(self, tenant: str) -> Iterable[KnownSecret]:
        """The tenant's files that have a value; `updated_at` is when they were written."""
        for name in self._names(tenant):
            values = self.find(tenant, name)
            times = [_time_of(path) for path in self._places(tenant, name)] if values else []
            if values:
                yield KnownSecret(name, "file", len(values), None, next(filter(None, times), None))

    def _names(self, tenant: str) -> set[str]:
        if not TENANT_NAME.fullmatch(tenant):
            return set()
        folders = [self._folder / tenant, *([self._folder] if tenant == DEFAULT_TENANT else [])]
        return {name for folder in folders for name in _list(folder)}

    def _places(self, tenant: str, name: str) -> Sequence[Path]:
        own = self._folder / tenant / name
        return (self._folder / name, own) if tenant == DEFAULT_TENANT else (own,)

    def _read(self, path: Path, key: tuple[str, str]) -> tuple[str, ...]:
        try:
            found = path.stat()
        except OSError:
            self._known.pop(key, None)
            return ()
        signature = (found.st_ino, found.st_dev, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        known = self._known.get(key)
        if known is not None and known.signature == signature:
            return known.values
        values = _read_file(path) if stat.S_ISREG(found.st_mode) else ()
        if len(self._known) >= MOST_FILES:
            self._known.clear()
        self._known[key] = _Known(signature, values)
        return values


def _time_of(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except OSError:
        return None


def _list(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as found:
            return [one.name for one in itertools.islice(found, MOST_FILES)]
    except OSError:
        return []


def _read_file(path: Path) -> tuple[str, ...]:
    """Opened without waiting: meanwhile a pipe may have taken the file's place."""
    most = 2 * MOST_BYTES + 64
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(most + 1)
        if len(content) > most:
            return ()
        return read_values(read_text(content.decode().removesuffix("\n").removesuffix("\r")))
    except (OSError, ValueError):
        return ()


class Source(Secrets, Protocol):
    """One place of secrets."""

    def values(self, tenant: str) -> Iterable[str]:
        """All values of a tenant. Never raises."""

    def list(self, tenant: str) -> Iterable[KnownSecret]:
        """The secrets of a tenant. Never raises."""


class SecretSources:
    """Several sources as one: the first that has a secret decides (`ports.sending.Secrets`)."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = tuple(sources)

    def find(self, tenant: str, name: str) -> tuple[str, ...]:
        """The values that the first source has."""
        for source in self._sources:
            values = source.find(tenant, name)
            if values:
                return values
        return ()

    def values(self, tenant: str) -> Iterable[str]:
        """All values of a tenant, of all sources."""
        return [value for source in self._sources for value in source.values(tenant)]

    def list(self, tenant: str) -> Iterable[KnownSecret]:
        """The secrets of a tenant by name, each as the source that decides has it."""
        found: dict[str, KnownSecret] = {}
        for source in self._sources:
            for one in source.list(tenant):
                found.setdefault(one.name, one)
        return [found[name] for name in sorted(found)]


MOST_FORMER = 2_000
"""So many values of a tenant are remembered that no source has any more; those that one has always are."""
MOST_CACHED = 1_000
RENEWED_SECONDS = 1.0
"""So long the values of a tenant are taken as they were; one that is sent is known at once."""


class SecretMasks:
    """The masks of all tenants. A value that was once seen stays hidden while the process runs; of those
    that no source has any more, the newest `MOST_FORMER` of a tenant.

    `environments` are the variables of templates by tenant: those whose names speak of secrets are hidden,
    too.
    """

    def __init__(
        self,
        *,
        sources: Iterable[Source],
        environments: Mapping[str, Mapping[str, str]],
        read_clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sources = tuple(sources)
        self._read_clock = read_clock
        self._seen: dict[str, dict[str, None]] = {}
        self._masks: dict[str, tuple[float, SecretMask | None]] = {}
        self._of_requests: dict[tuple[str, ...], SecretMask] = {}
        self._environments = {tenant: secret_values(given) for tenant, given in environments.items()}

    def of_tenant(self, tenant: str) -> SecretMask | None:
        """Hides all values of a tenant; None: it has none."""
        now = self._read_clock()
        known = self._masks.get(tenant)
        if known is not None and now < known[0]:
            return known[1]
        before = self._seen.get(tenant, {})
        seen = self._seen[tenant] = self._renew(tenant, before)
        if known is not None and seen.keys() == before.keys():
            mask = known[1]
        else:
            mask = SecretMask(seen, like=None if known is None else known[1]) if seen else None
        if len(self._masks) >= MOST_CACHED:
            self._masks.clear()
        self._masks[tenant] = (now + RENEWED_SECONDS, mask)
        return mask

    def of_request(self, at_send: AtSend, find: Callable[[str, str], tuple[str, ...]]) -> SecretMask:
        """Hides the values, as they are now, of the secrets that a job names. `find`: `Secrets.find`."""
        values = tuple(value for name in at_send.names for value in find(at_send.tenant, name))
        mask = self._of_requests.get(values)
        if mask is None:
            if len(self._of_requests) >= MOST_CACHED:
                self._of_requests.clear()
            mask = self._of_requests[values] = SecretMask(values)
            seen = self._seen.setdefault(at_send.tenant, {})
            if not seen.keys() >= set(values):
                seen.update(dict.fromkeys(values))
                self._masks.pop(at_send.tenant, None)
        return mask

    def _renew(self, tenant: str, seen: Mapping[str, None]) -> dict[str, None]:
        """The values that are hidden from now on: former ones, the newest last, then all that are valid."""
        valid = dict.fromkeys(self._environments.get(tenant, ()))
        for source in self._sources:
            valid.update(dict.fromkeys(source.values(tenant)))
        former = [value for value in seen if value not in valid]
        return dict.fromkeys(former[-MOST_FORMER:]) | valid
