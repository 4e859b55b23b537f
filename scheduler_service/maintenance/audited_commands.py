"""Lines of the audit for what commands do to a data folder without a server (SPEC section 14)."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import Any

import msgspec

from scheduler_service.app.data_folder import leave_line
from scheduler_service.app.process_setup import machine_user
from scheduler_service.domain.audit_acts import (
    Act,
    ActKind,
    ActOutcome,
    AuditEntry,
    OwnAct,
    Via,
    name_in_audit,
)
from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.domain.moments import SECOND
from scheduler_service.persistence.history.database import HistoryDatabase, inspect
from scheduler_service.persistence.sql.sqlite import file_of
from scheduler_service.persistence.tables.audit_lines import SqlAudit
from scheduler_service.ports.errors import StoreError


def note_command(history: str, operation: OwnAct, given: Mapping[str, object]) -> bool:
    """Writes what was done to the folder whose history is at this address; False: that cannot have it.

    Tables of another version are left as they are, and the line is in their audit after the first start,
    which brings a restored folder up to date.
    """
    place = file_of(history)
    done = msgspec.structs.replace(_entry(operation, ActKind.NODE, given=given), outcome=ActOutcome.DONE)
    with suppress(StoreError, OSError):
        if place is not None and not place.is_file():
            return False
        if inspect(url=history).up_to_date:
            database = HistoryDatabase(url=history)
            try:
                _put(database, done)
            finally:
                database.close()
            return True
        if place is not None:
            leave_line(place, done)
            return True
    return False


@contextmanager
def audited_command(database: HistoryDatabase, operation: str, **thing: Any) -> Iterator[dict[str, Any]]:
    """Asks for a change in the audit, and completes that after it.

    `operation` is that of the API which makes the same change; `thing` are members of `AuditEntry`.

    The caller of it sets members that are known only then. Raises StoreError, and nothing was done, where the
    audit cannot be written.
    """
    entry = _entry(operation, **thing)
    _put(database, entry)
    known: dict[str, Any] = {}
    try:
        yield known
    except BaseException:
        _put(database, msgspec.structs.replace(entry, outcome=ActOutcome.REFUSED))
        raise
    _put(database, msgspec.structs.replace(entry, outcome=ActOutcome.DONE, **known))


def _put(database: HistoryDatabase, entry: AuditEntry) -> None:
    SqlAudit(database=database).put_now(entry)


def _entry(
    operation: str,
    kind: ActKind,
    *,
    subject: str = "",
    tenant: str = DEFAULT_TENANT,
    given: Mapping[str, object] | None = None,
) -> AuditEntry:
    detail = b"" if given is None else msgspec.json.encode({"given": given})
    return AuditEntry(
        entry_id=token_hex(16),
        tenant=tenant,
        at=round(time.time() * SECOND),
        act=Act(operation, name_in_audit(machine_user()), Via.COMMAND, detail=detail),
        kind=kind,
        subject=subject,
    )
