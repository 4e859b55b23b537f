"""Binds a definition to its turn: the revision, the counters, and the identity of a new life."""

import os
import time
from collections.abc import Callable, Mapping

import msgspec

from scheduler_service.domain.document import Document
from scheduler_service.domain.turn_events import Created, Event, Updated
from scheduler_service.engine.program import Program
from scheduler_service.hosts.job_cache import CachedJob
from scheduler_service.ports.delivery import Definition

KEY_BYTES = 32
RANDOM_BYTES = 10
# Asking the system for chance lets go of the interpreter; so much is asked for at once.
IDENTITIES_AT_ONCE = 128
NewIdentity = Callable[[], tuple[str, bytes]]


class IdentitySource:
    """Makes uids (32 hex digits) that no other life has, and random keys (SPEC section 5).

    Uids begin with the moment: what is kept of lives that begin together lies together in every index.
    """

    def __init__(self, *, now: Callable[[], int] = time.time_ns) -> None:
        self._now = now
        self._chance: list[bytes] = []
        self._moment = -1
        self._prefix = ""

    def __call__(self) -> tuple[str, bytes]:
        """A uid and a key."""
        if not self._chance:
            self._chance = _draw(IDENTITIES_AT_ONCE)
        drawn = self._chance.pop()
        moment = self._now() // 1_000_000
        if moment != self._moment:
            self._moment, self._prefix = moment, f"{moment:012x}"
        return self._prefix + drawn[:RANDOM_BYTES].hex(), drawn[RANDOM_BYTES:]


def _draw(count: int) -> list[bytes]:
    size = RANDOM_BYTES + KEY_BYTES
    drawn = os.urandom(count * size)
    return [drawn[at : at + size] for at in range(0, len(drawn), size)]


Bound = tuple[Event, Mapping[int, Program]]


def bind(cached: CachedJob, event: Event, definition: Definition | None, new_identity: NewIdentity) -> Bound:
    """The event with the numbers that only the job's own state can give, and the programs of the turn.

    A life goes on counting where the one before it ended, but its revisions begin anew; its uid and key are
    made here unless the event brings them.
    """
    if definition is None:
        return event, cached.programs
    match event:
        case Created() if cached.document is None:
            return _bind_life(cached, event, definition, new_identity)
        case Created():
            return msgspec.structs.replace(event, fingerprint=definition.program.fingerprint), cached.programs
        case Updated() if cached.document is not None:
            revision = cached.document.head.revision + 1
            programs = {**cached.programs, revision: definition.program}
            return msgspec.structs.replace(event, revision=revision), programs
        case _:
            return event, cached.programs


def accepted(before: Document | None, after: Document | None, definition: Definition | None) -> bytes | None:
    """The definition's text, if the turn made it the job's own."""
    if definition is None or after is None:
        return None
    if before is not None and before.head.revision == after.head.revision:
        return None
    return definition.text


def _bind_life(cached: CachedJob, event: Created, definition: Definition, new_identity: NewIdentity) -> Bound:
    buried = cached.entry
    uid, key = (event.uid, event.key) if event.uid else new_identity()
    born = msgspec.structs.replace(
        event,
        uid=uid,
        key=key,
        execute_number=event.execute_number if buried is None else buried.execute_number,
        request_counts=event.request_counts if buried is None else buried.request_counts,
        fingerprint=definition.program.fingerprint,
    )
    return born, {born.revision: definition.program}
