"""Reads declared jobs, and decides from what is declared, applied and stored (SPEC section 11)."""

from collections.abc import Awaitable, Callable
from enum import StrEnum
from hashlib import sha256
from typing import Any

import msgspec

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.job_key import write_job_key
from scheduler_service.domain.registered_services import Applied, Service
from scheduler_service.language.json_pieces import decode_json
from scheduler_service.language.json_scan import items_of

Apart = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Awaits the result of work that is done beside the loop."""
UNDECLARED = "undeclared"
"""The reason of a pause by the scan."""
_CANONICAL = msgspec.json.Encoder(order="sorted")


class DeclaredJob(msgspec.Struct, frozen=True, gc=False):
    """A job as a service declares it, with its definition. Equal declarations have equal digests.

    `active` None: not given. `manual`: the job is created paused, and a person starts it.
    """

    job_id: str
    digest: bytes
    active: bool | None = None
    manual: bool = False
    text: bytes = b""

    @property
    def wants_to_run(self) -> bool:
        """Whether the job fires by itself unless a person pauses it."""
        return self.active is not False and not self.manual


class ExistingJob(msgspec.Struct, frozen=True, gc=False):
    """A job that exists. `owner` is the service that created it; empty: it was created in another way.

    `equal`: its definition equals the declared one; determined only if `must_compare` is true. `is_gone`: it
    is paused because no instance knew it, or by a scan because nothing declared it, of which a crash may have
    left no note; determined only where it is declared anew, or undeclared for the first time.
    """

    uid: str
    revision: int
    state: JobState
    owner: str = ""
    equal: bool = True
    is_gone: bool = False


class DriftKind(StrEnum):
    """How a job relates to its declaration; all but `same` are shown as drift."""

    SAME = "same"
    MISSING = "missing"  # declared, not created yet
    LOST = "lost"  # created, then destroyed or lost without the scan
    FINISHED = "finished"  # finished before it was destroyed, so not lost
    CHANGED = "changed"  # the declaration has changed
    OVERRIDDEN = "overridden"  # the job was edited after the last scan
    KEPT = "kept"  # they differ, and `onChange: keep` keeps the job
    PAUSED = "paused"  # a person paused it, or no instance knew it
    STARTED = "started"  # declared with `active: 0`, and a person started it
    FOREIGN = "foreign"  # another service or a person created a job with this id
    REMOVED = "removed"  # no longer declared, paused until its grace period ends
    EXPIRED = "expired"  # no longer declared, and its grace period is over


class Action(StrEnum):
    """The command that makes a job match its declaration."""

    NONE = "none"
    CREATE = "create"
    UPDATE = "update"
    PAUSE = "pause"
    ACTIVATE = "activate"
    DESTROY = "destroy"


class Case(msgspec.Struct, frozen=True):
    """All inputs for one job. `now` is wall ms; `force`: overrides and foreign jobs are replaced."""

    service: Service
    job_id: str
    declared: DeclaredJob | None
    applied: Applied | None
    stored: ExistingJob | None
    now: int
    force: bool = False

    @property
    def job_key(self) -> str:
        """The key of the job in the service's tenant."""
        return write_job_key(self.service.tenant, self.job_id)


class Verdict(msgspec.Struct, frozen=True):
    """The command for a job, and the row to store once it is done; `noted` None: no row is kept.

    `active` is the value an update sends. After CREATE and UPDATE the row gets the new uid and revision.
    """

    kind: DriftKind
    action: Action = Action.NONE
    active: bool | None = None
    noted: Applied | None = None


def must_compare(declared: DeclaredJob | None, applied: Applied | None, stored: ExistingJob | None) -> bool:
    """Whether the definitions must be compared: not if neither side changed since they were equal."""
    if declared is None or stored is None:
        return False
    return applied is None or applied.digest != declared.digest or _is_edited(applied, stored)


def judge(case: Case) -> Verdict:
    """The verdict for one job. Applying it and judging again gives no further action."""
    if case.declared is None:
        return _judge_undeclared(case)
    if case.stored is None:
        return _judge_absent(case, case.declared)
    if not _is_ours(case, case.stored):
        return _judge_foreign(case, case.declared, case.stored)
    return _judge_present(case, case.declared, case.stored)


def read_declared(timers: bytes) -> dict[str, DeclaredJob]:
    """The declared jobs by id, in the order of `timers`, a JSON array of checked definitions."""
    return {one.job_id: one for one in map(_describe, items_of(timers))}


def _judge_absent(case: Case, declared: DeclaredJob) -> Verdict:
    done = case.applied
    if done is not None and done.finished and done.digest == declared.digest and not case.force:
        return Verdict(DriftKind.FINISHED, noted=done)
    noted = _note(case, declared.digest, "", 0)
    return Verdict(DriftKind.MISSING if done is None else DriftKind.LOST, Action.CREATE, noted=noted)


def _judge_foreign(case: Case, declared: DeclaredJob, stored: ExistingJob) -> Verdict:
    """The job of a person or of another service: left alone unless forced."""
    if not case.force:
        return Verdict(DriftKind.FOREIGN)
    noted = _note(case, declared.digest, stored.uid, stored.revision)
    return Verdict(DriftKind.FOREIGN, Action.UPDATE, _active_to_send(declared), noted)


def _judge_present(case: Case, declared: DeclaredJob, stored: ExistingJob) -> Verdict:
    done = case.applied
    was_paused = (_is_paused_by_us(done) or stored.is_gone) and declared.active is not False
    is_changed = done is None or done.digest != declared.digest
    if stored.equal:
        noted = _note(case, declared.digest, stored.uid, stored.revision, stored.state)
        return _switch(case, declared, stored, noted, was_paused=was_paused, is_changed=is_changed)
    if case.service.keeps and not case.force:
        noted = _note(case, b"", stored.uid, stored.revision, stored.state)
        return Verdict(DriftKind.KEPT, Action.ACTIVATE if was_paused else Action.NONE, noted=noted)
    if not (is_changed or case.force):
        assert done is not None
        noted = msgspec.structs.replace(
            done, removed_at=None, paused=False, finished=stored.state is JobState.FINISHED
        )
        return Verdict(DriftKind.OVERRIDDEN, Action.ACTIVATE if was_paused else Action.NONE, noted=noted)
    active = True if was_paused or (case.force and declared.wants_to_run) else _active_to_send(declared)
    noted = _note(case, declared.digest, stored.uid, stored.revision)
    return Verdict(DriftKind.CHANGED if is_changed else DriftKind.OVERRIDDEN, Action.UPDATE, active, noted)


def _switch(
    case: Case,
    declared: DeclaredJob,
    stored: ExistingJob,
    noted: Applied,
    *,
    was_paused: bool,
    is_changed: bool,
) -> Verdict:
    """The definition is as declared; only pausing or activating may be left to do."""
    if stored.state is JobState.PAUSED:
        asks_to_run = is_changed and case.applied is not None and _active_to_send(declared) is True
        if was_paused or asks_to_run or (case.force and declared.wants_to_run):
            return Verdict(DriftKind.CHANGED, Action.ACTIVATE, noted=noted)
        return Verdict(DriftKind.PAUSED if declared.wants_to_run else DriftKind.SAME, noted=noted)
    if declared.active is not False:
        return Verdict(DriftKind.SAME, noted=noted)
    if case.force or (is_changed and case.applied is not None):
        return Verdict(DriftKind.CHANGED, Action.PAUSE, noted=noted)
    is_running = stored.state is JobState.ACTIVE
    return Verdict(DriftKind.STARTED if is_running else DriftKind.SAME, noted=noted)


def _judge_undeclared(case: Case) -> Verdict:
    done, stored = case.applied, case.stored
    if done is None or stored is None or not _is_ours(case, stored):
        return Verdict(DriftKind.SAME)
    if done.removed_at is None:
        is_running = stored.state is JobState.ACTIVE
        noted = msgspec.structs.replace(done, removed_at=case.now, paused=is_running or stored.is_gone)
        return Verdict(DriftKind.REMOVED, Action.PAUSE if is_running else Action.NONE, noted=noted)
    if case.now >= done.removed_at + case.service.grace:
        return Verdict(DriftKind.EXPIRED, Action.DESTROY)
    return Verdict(DriftKind.REMOVED, noted=done)


def _is_ours(case: Case, stored: ExistingJob) -> bool:
    done = case.applied
    return stored.owner == case.service.name or (done is not None and done.uid == stored.uid)


def _is_paused_by_us(done: Applied | None) -> bool:
    return done is not None and done.removed_at is not None and done.paused


def _is_edited(done: Applied, stored: ExistingJob) -> bool:
    return (done.uid, done.revision) != (stored.uid, stored.revision)


def _active_to_send(declared: DeclaredJob) -> bool | None:
    """`active` of an update: only a person starts a manual job, so for one only a pause is sent."""
    return None if declared.manual and declared.active else declared.active


def _note(case: Case, digest: bytes, uid: str, revision: int, state: JobState | None = None) -> Applied:
    return Applied(
        tenant=case.service.tenant,
        service=case.service.name,
        job_id=case.job_id,
        digest=digest,
        uid=uid,
        revision=revision,
        finished=state is JobState.FINISHED,
    )


def _describe(text: bytes) -> DeclaredJob:
    value: dict[str, Any] = decode_json(text)
    active = value.get("active")
    return DeclaredJob(
        job_id=value["jobId"],
        digest=sha256(_CANONICAL.encode(value)).digest(),
        active=None if active is None else bool(active),
        manual=value.get("startPolicy") == "manual",
        text=text,
    )
