"""A schedule of files: compared with what a service has, applied, and pruned (SPEC section 16)."""

import difflib
import sys
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import CONFLICT, NOT_FOUND, PRECONDITION_FAILED, TOO_MANY_REQUESTS
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from scheduler_service.cli.definition_commands import (
    ask_again,
    compare,
    declares,
    is_passing,
    point_to_timers,
    refuse_repeated,
    send_page,
    split_into_pages,
    write_lines,
)
from scheduler_service.cli.documents import KIND, DefinitionInFile, DocumentKind, read_sources
from scheduler_service.cli.errors import AbsentError, CommandError, Exit
from scheduler_service.cli.exporting import OF_SERVICES, TIMERS, calendar_of, list_own_jobs
from scheduler_service.cli.options import path_of
from scheduler_service.cli.output import Column, Format, note, note_warnings, show, show_rows
from scheduler_service.cli.service_connection import ApiConnection, SentPart, describe_flaws, read_flaws

if TYPE_CHECKING:
    from client_sdk.client.http_answers import Envelope

CREATED, UPDATED, UNCHANGED, REFUSED, DESTROYED = "created", "updated", "unchanged", "refused", "destroyed"
RESULTS = ("kind", Column("name", free=True), "status")
UNKNOWN_CALENDAR = "unknown_calendar"


@dataclass
class PlannedChange:
    """What becomes of one thing: by what is stored, as long as it is not `done`.

    `one` None: no file has it, and it is to be destroyed. `revision`: of the job, or the version of the
    calendar, as it was read. `stored`, `given`: of a calendar and a service what there is, and what there
    would be, defaults filled in. `awaits`: it needs a calendar that has to be stored first.
    """

    kind: DocumentKind
    name: str
    status: str
    one: DefinitionInFile | None = None
    revision: int | None = None
    stored: Mapping[str, Any] | None = None
    given: Mapping[str, Any] | None = None
    problem: Mapping[str, Any] | None = None
    warnings: Sequence[Mapping[str, Any]] = field(default_factory=list)
    awaits: bool = False
    done: bool = False

    @property
    def row(self) -> dict[str, Any]:
        """As `-o json` shows it."""
        name = {"jobId": self.name if self.kind is DocumentKind.JOB else None, "name": self.name}
        told = {"problem": self.problem, "warnings": list(self.warnings)}
        return {"kind": self.kind.value, **name, "status": self.status, **told}

    def refuse(self, problem: Mapping[str, Any]) -> None:
        """Notes why it was not done."""
        self.status, self.problem, self.done = REFUSED, problem, True


def read_schedule(
    files: Iterable[Path], *, takes_declarations: bool = False, allow_empty: bool = False
) -> list[DefinitionInFile]:
    """What files and folders declare: calendars, then services, then jobs, each with a name of its own.

    `takes_declarations`: the jobs of an object with `timers` and no kind, as well. Raises CommandError.
    """
    found: list[DefinitionInFile] = []
    for document in read_sources(files, allow_empty=allow_empty):
        is_declaration = declares(document.value) and KIND not in document.value
        if is_declaration and not takes_declarations:
            text = "is what a service declares; give it 'kind: Service' and a name, or take"
            raise CommandError(f"{document.name} {text} 'punctual services apply NAME'", Exit.USAGE)
        found += document.definitions(point_to_timers(document.value) if is_declaration else "")
    for one in found:
        if one.name is None:
            what = "definition" if one.kind is DocumentKind.JOB else str(one.kind)
            place = f"{one.document.name}:{one.document.place_of(one.pointer)}"
            raise CommandError(f"{place}: a {what} without a {one.named_by}; add one", Exit.USAGE)
    refuse_repeated([*found, *_declared_in(found)])
    return sorted(found, key=lambda one: list(DocumentKind).index(one.kind))


def _declared_in(found: Iterable[DefinitionInFile]) -> Iterator[DefinitionInFile]:
    """The jobs of the services."""
    for one in found:
        timers = one.value.get(TIMERS) if one.kind is DocumentKind.SERVICE else None
        for index, value in enumerate(timers if isinstance(timers, list) else ()):
            yield DefinitionInFile(value, one.document, f"{one.pointer}/{TIMERS}/{index}")


def plan_changes(connection: ApiConnection, found: Sequence[DefinitionInFile]) -> list[PlannedChange]:
    """What applying would do, as the service says; nothing is changed. Raises CommandError."""
    coming = {one.name for one in found if one.kind is DocumentKind.CALENDAR}
    stored = {one["name"]: one for one in connection.items("/calendars")} if coming else {}
    changes = []
    for one in found:
        if one.kind is DocumentKind.CALENDAR:
            changes.append(_plan_calendar(connection, one, stored))
        elif one.kind is DocumentKind.SERVICE:
            changes.append(_plan_service(connection, one, coming))
    jobs = [one for one in found if one.kind is DocumentKind.JOB]
    return changes + _plan_jobs(connection, jobs, coming)


def plan_pruning(
    connection: ApiConnection, found: Sequence[DefinitionInFile], labels: Sequence[str]
) -> list[PlannedChange]:
    """The jobs with all of `labels` that no file has, to be destroyed. Raises CommandError."""
    kept = {one.name for one in (*found, *_declared_in(found)) if one.kind is DocumentKind.JOB}
    return [
        PlannedChange(
            DocumentKind.JOB, job["jobId"], DESTROYED, revision=job["revision"], stored=job["definition"]
        )
        for job in list_own_jobs(connection, labels)
        if job["jobId"] not in kept
    ]


def refuse_nothing_to_keep(found: Sequence[DefinitionInFile]) -> None:
    """Raises CommandError where pruning would destroy all: a wrong path is more likely than that wish."""
    if not any(one.kind is DocumentKind.JOB for one in (*found, *_declared_in(found))):
        text = "the files hold no job, so --prune would destroy every job with the label"
        raise CommandError(f"{text}; add --allow-empty if that is meant", Exit.USAGE)


def warn_of_labels(found: Iterable[DefinitionInFile], labels: Sequence[str]) -> None:
    """Names the jobs of the files that a later pruning would not find."""
    wanted = dict(label.partition(":")[::2] for label in labels)
    lacking = [
        str(one.name)
        for one in found
        if one.kind is DocumentKind.JOB and not wanted.items() <= (_labels_of(one.value) or {}).items()
    ]
    if lacking:
        text = f"{len(lacking)} jobs of the files lack {' and '.join(labels)}, so that --prune never"
        note(f"warning: {text} destroys them: {', '.join(lacking[:5])}{', …' if len(lacking) > 5 else ''}")


def _labels_of(value: Any) -> dict[str, Any] | None:
    labels = value.get("labels") if isinstance(value, dict) else None
    return labels if isinstance(labels, dict) else None


def describe_changes(connection: ApiConnection, change: PlannedChange) -> list[str]:
    """What differs, as a unified diff; empty where nothing does. Raises CommandError."""
    label = change.name if change.kind is DocumentKind.JOB else f"{change.kind} {change.name}"
    if change.one is None:
        return _diff(change.stored, None, "stored", f"no file: {label}")
    if change.status == UNCHANGED:
        return []
    name = f"{change.one.document.name} {label}"
    if change.status == CREATED:
        return _diff(None, change.one.body, "not stored", name)
    if change.kind is not DocumentKind.JOB:
        return _diff(change.stored, change.given or change.one.body, "stored", name)
    stored = connection.get(path_of("job", change.name))["definition"]
    return compare(stored, change.one.body, name) or [f"{label} differs from what is stored"]


def _diff(before: Any, after: Any, old: str, new: str) -> list[str]:
    stored, given = ([] if value is None else write_lines(value) for value in (before, after))
    return list(difflib.unified_diff(stored, given, old, new, lineterm=""))


def count_changes(changes: Iterable[PlannedChange]) -> str:
    """`1 created, 2 unchanged`, in one order."""
    counts = Counter(change.status for change in changes)
    order = (CREATED, UPDATED, DESTROYED, UNCHANGED, REFUSED)
    return ", ".join(f"{counts[status]} {status}" for status in order if counts[status])


def refuse_wrong(changes: Sequence[PlannedChange]) -> None:
    """Raises CommandError where anything would be refused; says what, with the places in the files."""
    refused = [change for change in changes if change.status == REFUSED]
    _note_problems(refused)
    if refused:
        text = f"{len(refused)} of {len(changes)} documents are refused"
        raise CommandError(f"{text}; nothing was changed")


def show_results(changes: Sequence[PlannedChange], output: Format) -> None:
    """A row for each; on standard error its warnings, and why it was refused."""
    if output is Format.TABLE:
        show_rows([change.row for change in changes], RESULTS)
    else:
        show([change.row for change in changes], output)
    for change in changes:
        note_warnings(change.warnings, _part_of(change))
    _note_problems([change for change in changes if change.problem is not None])


def _note_problems(refused: Iterable[PlannedChange]) -> None:
    """Says why each was refused; a limit that many have met, once."""
    limited: dict[Any, list[str]] = {}
    for change in refused:
        problem = change.problem or {}
        if problem.get("status") == TOO_MANY_REQUESTS:
            limited.setdefault(problem.get("detail"), []).append(change.name)
            continue
        for line in describe_flaws(read_flaws(problem.get("errors") or ()), _part_of(change)) or [
            f"{change.name}: {problem.get('detail')}"
        ]:
            note(line)
    for detail, names in limited.items():
        others = f" and {len(names) - 1} more" if len(names) > 1 else ""
        note(f"{names[0]}{others}: {detail}")


def _part_of(change: PlannedChange) -> SentPart | None:
    """Where it stands in its file; None: no file has it."""
    return None if change.one is None else SentPart(change.one.document, pointer=change.one.pointer)


def confirm_destruction(changes: Sequence[PlannedChange], *, is_confirmed: bool) -> None:
    """Names what is to be destroyed, and asks on a terminal; raises CommandError unless it is agreed to."""
    doomed = [change.name for change in changes if change.status == DESTROYED]
    if not doomed:
        return
    for name in doomed:
        note(f"is to be destroyed: {name}")
    if is_confirmed:
        return
    jobs = "1 job" if len(doomed) == 1 else f"{len(doomed)} jobs"
    if not sys.stdin.isatty():
        text = f"{jobs} would be destroyed; nothing was changed: add --yes to agree"
        raise CommandError(text, Exit.USAGE)
    if not typer.confirm(f"destroy {jobs}?", err=True):
        raise CommandError("nothing was changed")


class Application:
    """Carries planned changes out, each on its own, and notes in them what became of it."""

    def __init__(
        self, connection: ApiConnection, changes: Sequence[PlannedChange], labels: Sequence[str]
    ) -> None:
        self._connection = connection
        self._changes = changes
        self._labels = labels

    def carry_out(self) -> None:
        """Calendars first, then services and jobs; destroys last. Raises CommandError where it has to end.

        A job that was changed after it was planned is refused. Whatever ends this in between, a repetition
        goes on from there: each thing is as it was, or as the files have it.
        """
        for change in self._of(DocumentKind.CALENDAR):
            self._put(change, "calendar")
        for change in self._of(DocumentKind.SERVICE):
            if change.awaits:
                self._look_again(change)
            if change.status != UNCHANGED:
                self._put(change, "service")
        for change in self._of(DocumentKind.JOB):
            if change.awaits:
                self._look_again(change)
        self._create([change for change in self._of(DocumentKind.JOB) if change.status == CREATED])
        for change in self._of(DocumentKind.JOB):
            if change.status == UPDATED:
                self._update(change)
        self._destroy([change for change in self._changes if change.status == DESTROYED])
        for change in self._changes:
            change.done = True

    def _of(self, kind: DocumentKind) -> list[PlannedChange]:
        return [one for one in self._changes if one.kind is kind and one.one and one.status != REFUSED]

    def _look_again(self, change: PlannedChange) -> None:
        assert change.one is not None
        (found,) = plan_changes(self._connection, [change.one])
        change.status, change.revision, change.problem = found.status, found.revision, found.problem
        change.warnings, change.done = found.warnings, found.status == REFUSED

    def _put(self, change: PlannedChange, kind: str) -> None:
        """A calendar is put in any case: that brings the holidays of further years."""
        assert change.one is not None
        headers = {} if change.revision is None else {"If-Match": f'"{change.revision}"'}
        path = path_of(kind, change.name)
        answer = self._send(change, "PUT", path, body=change.one.body, headers=headers)
        if answer is not None:
            change.warnings, change.done = answer.warnings, True

    def _create(self, changes: Sequence[PlannedChange]) -> None:
        by_definition = {id(change.one): change for change in changes}
        for page in split_into_pages([change.one for change in changes if change.one]):
            items = send_page(self._connection, [one.body for one in page], on_existing="refuse")
            for one, item in zip(page, items, strict=True):
                change = by_definition[id(one)]
                change.warnings, change.done = item["warnings"], True
                if item["problem"] is None:
                    change.status = item["status"]
                elif item["problem"]["status"] == CONFLICT:
                    change.refuse({"detail": "somebody has created it meanwhile, with another definition"})
                else:
                    change.refuse(item["problem"])

    def _update(self, change: PlannedChange) -> None:
        assert change.one is not None
        headers = {"If-Match": f'"{change.revision}"', "Idempotency-Key": str(uuid.uuid4())}
        path = f"{path_of('job', change.name)}/update"
        answer = self._send(change, "POST", path, body=change.one.body, headers=headers)
        if answer is not None:
            change.warnings, change.done = answer.warnings, True

    def _destroy(self, changes: Sequence[PlannedChange]) -> None:
        """Those that are still as they were when they were named."""
        if not changes:
            return
        present = {job["jobId"]: job["revision"] for job in list_own_jobs(self._connection, self._labels)}
        for change in changes:
            if present.get(change.name, change.revision) != change.revision:
                change.refuse({"detail": "somebody has changed it meanwhile: it is not destroyed"})
            elif change.name not in present:
                change.done = True
            else:
                self._send(change, "DELETE", path_of("job", change.name))
                change.done = True

    def _send(self, change: PlannedChange, method: str, path: str, **asked: Any) -> "Envelope | None":
        """The answer; None where it is refused, which is noted. Asks again while a process starts again."""
        part = _part_of(change)

        def send() -> "Envelope | CommandError":
            try:
                return self._connection.exchange(method, path, part=part, **asked)
            except CommandError as error:
                return error

        found = ask_again(send, lambda one: isinstance(one, CommandError) and is_passing(_problem_of(one)))
        if not isinstance(found, CommandError):
            return found
        problem = _problem_of(found)
        if problem is None or is_passing(problem):
            raise found
        if problem["status"] == PRECONDITION_FAILED:
            text = "somebody has changed it meanwhile: it is left as it is; look at 'punctual jobs diff'"
            problem = {"detail": text}
        elif problem["status"] == NOT_FOUND and method == "DELETE":
            return None
        change.refuse(problem)
        return None


def _problem_of(error: CommandError) -> dict[str, Any] | None:
    """What the service refused; None: it was not the service that refused, or it does not know the caller."""
    from client_sdk.errors import Problem, Unauthorized

    cause = error.__cause__
    if not isinstance(cause, Problem) or isinstance(cause, Unauthorized):
        return None
    errors = [one._asdict() for one in cause.errors]
    return {"status": cause.status, "detail": cause.detail, "errors": errors}


def _plan_calendar(
    connection: ApiConnection, one: DefinitionInFile, known: Mapping[str, Mapping[str, Any]]
) -> PlannedChange:
    from client_sdk.models import parse_model
    from client_sdk.models.request_bodies import NewCalendar

    name = str(one.name)
    answer, problem = _try(connection, one, f"{path_of('calendar', name)}/preview")
    if problem is not None:
        return PlannedChange(DocumentKind.CALENDAR, name, REFUSED, one, problem=problem)
    stored = known.get(name)
    version = 0 if stored is None else stored["version"]
    change = PlannedChange(DocumentKind.CALENDAR, name, CREATED, one, version, warnings=answer.warnings)
    if stored is not None:
        given = parse_model(NewCalendar, one.body).model_dump(by_alias=True)
        change.given, change.stored = given, {member: stored.get(member) for member in given}
        change.status = UNCHANGED if given == change.stored else UPDATED
    return change


def _plan_service(
    connection: ApiConnection, one: DefinitionInFile, coming: Collection[str | None]
) -> PlannedChange:
    name = str(one.name)
    path = path_of("service", name)
    answer, problem = _try(connection, one, f"{path}/preview")
    change = PlannedChange(DocumentKind.SERVICE, name, CREATED, one)
    if problem is not None:
        change.awaits = _awaits(problem, coming, one.body)
        if not change.awaits:
            change.refuse(problem)
            return change
    try:
        known = connection.get(path)
    except AbsentError:
        return change
    change.status = UPDATED
    change.stored = {member: known[member] for member in (*OF_SERVICES, TIMERS)}
    if answer is not None:
        change.warnings = answer.warnings
        timers = _fill_in_timers(known[TIMERS], one.body.get(TIMERS))
        change.given = {member: answer.data[member] for member in OF_SERVICES} | {TIMERS: timers}
        change.status = UNCHANGED if change.given == change.stored else UPDATED
    return change


def _fill_in_timers(stored: Sequence[dict[str, Any]], given: Sequence[dict[str, Any]] | None) -> list[Any]:
    """The jobs that a service would declare: those that mean the same as they are, and at their places."""
    if given is None:  # they stay
        return list(stored)
    known = {one["jobId"]: one for one in stored}
    filled = {
        one["jobId"]: known[one["jobId"]] if _is_same(known.get(one["jobId"]), one) else one for one in given
    }
    kept = [filled.pop(name) for name in known if name in filled]
    return [*kept, *filled.values()]


def _is_same(stored: dict[str, Any] | None, given: dict[str, Any]) -> bool:
    return stored is not None and not compare(stored, given, "")


def _plan_jobs(
    connection: ApiConnection, jobs: Sequence[DefinitionInFile], coming: Collection[str | None]
) -> list[PlannedChange]:
    changes = []
    for page in split_into_pages(jobs):
        items = send_page(connection, [one.body for one in page])
        for one, item in zip(page, items, strict=True):
            change = PlannedChange(DocumentKind.JOB, str(one.name), item["status"], one, item["revision"])
            change.warnings, change.problem = item["warnings"], item["problem"]
            if item["problem"] is not None and _awaits(item["problem"], coming, one.body):
                change.problem, change.awaits = None, True
                change.status = UPDATED if _is_there(connection, change.name) else CREATED
            changes.append(change)
    return changes


def _is_there(connection: ApiConnection, name: str) -> bool:
    try:
        connection.get(path_of("job", name))
    except AbsentError:
        return False
    return True


def _awaits(problem: Mapping[str, Any], coming: Collection[str | None], body: Mapping[str, Any]) -> bool:
    """Whether all that is wrong is that calendars of the files are not stored yet."""
    flaws = read_flaws(problem.get("errors") or ())
    return bool(flaws) and all(
        flaw.code == UNKNOWN_CALENDAR and calendar_of(_job_at(flaw.pointer, body)) in coming for flaw in flaws
    )


def _job_at(pointer: str, body: Mapping[str, Any]) -> Any:
    """The definition of which a pointer speaks: the body, or one of its timers."""
    _, first, *others = pointer.split("/")
    return body[TIMERS][int(others[0])] if first == TIMERS else body


def _try(connection: ApiConnection, one: DefinitionInFile, path: str) -> tuple[Any, dict[str, Any] | None]:
    """The envelope of a preview of this document, or what is wrong with it."""
    part = SentPart(one.document, pointer=one.pointer)
    try:
        return connection.exchange("POST", path, body=one.body, part=part), None
    except CommandError as error:
        problem = _problem_of(error)
        if problem is None or problem["status"] >= 500:
            raise
        return None, problem
