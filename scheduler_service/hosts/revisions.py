"""Binds a definition to its turn: the revision, the counters and the identity of a new life."""

from collections.abc import Mapping

import msgspec

from scheduler_service.domain.document import Document
from scheduler_service.domain.events import Created, Event, Updated
from scheduler_service.engine.program import Program
from scheduler_service.hosts.identity import NewIdentity
from scheduler_service.hosts.job_cache import CachedJob
from scheduler_service.ports.delivery import Definition

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
