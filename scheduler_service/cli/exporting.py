"""`punctual jobs export`: definitions as `jobs apply` takes them, without the state of jobs (16)."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from scheduler_service.cli.documents import KIND, SUFFIXES, YAML_SUFFIXES, DocumentKind, read_sources
from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.options import path_of
from scheduler_service.cli.output import Format, note, write_json, write_yaml
from scheduler_service.cli.service_connection import ApiConnection

OF_SCHEDULER = ("serviceOptions",)
"""What the scheduler writes into a definition."""
SENT = ("request", "checkUrl", "cancelUrl", "notification")
"""The members of a definition that are sent."""
CREDENTIALS = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key"})
"""Headers whose values are credentials."""
MASK = "***"
TIMERS = "timers"


class Exported(NamedTuple):
    """One document, and its name."""

    kind: DocumentKind
    name: str
    value: dict[str, Any]


class Selection(NamedTuple):
    """What is to be exported: jobs by id, or with all of the labels, and services by name."""

    job_ids: Sequence[str]
    labels: Sequence[str]
    services: Sequence[str]


def export_definitions(
    connection: ApiConnection, selection: Selection, target: Path | None, form: Format
) -> None:
    """Writes what is selected, and the calendars that it names, to a file, a folder or the standard output.

    Raises CommandError.
    """
    found = list(_export_services(connection, selection.services))
    declared = {job["jobId"] for one in found for job in one.value[TIMERS]}
    jobs = _export_jobs(connection, dict.fromkeys(selection.job_ids), selection.labels)
    found += [one for one in jobs if one.name not in declared]
    documents = sorted([*_export_calendars(connection, found), *found], key=_order)
    if not documents:
        note("warning: there is nothing to export: no job matches")
    _warn_of_values(documents)
    if target is None:
        print(_write(documents, form), end="")
    elif target.suffix.lower() in SUFFIXES and not target.is_dir():
        _replace(target, _write(documents, _form_of(target)))
        note(f"{target} has {len(documents)} documents")
    else:
        _write_folder(target, documents, form)


def list_own_jobs(connection: ApiConnection, labels: Sequence[str]) -> list[dict[str, Any]]:
    """The jobs that people keep, by jobId, with `definition`. Raises CommandError.

    Without those that a service declares, which has them, and those that an execution of another job started.
    """
    declared = _list_declared(connection)
    return [
        job for job in _list_jobs(connection, labels) if not job["parentJob"] and job["jobId"] not in declared
    ]


def _list_jobs(connection: ApiConnection, labels: Sequence[str]) -> Iterator[dict[str, Any]]:
    for job in connection.items("/jobs", label=list(labels) or None, definitions="true"):
        is_too_long = job["definition"] is None  # for a list
        yield connection.get(path_of("job", job["jobId"])) if is_too_long else job


def _list_declared(connection: ApiConnection) -> set[str]:
    """The ids of what services declare; a key for jobs with a label sees no services."""
    try:
        services = [connection.get(path_of("service", one["name"])) for one in connection.items("/services")]
    except CommandError as error:
        if _is_forbidden(error):
            return set()
        raise
    return {one["jobId"] for service in services for one in service[TIMERS]}


def _export_jobs(
    connection: ApiConnection, job_ids: Iterable[str], labels: Sequence[str]
) -> Iterator[Exported]:
    named = [connection.get(path_of("job", job_id)) for job_id in job_ids]
    for job in named or list_own_jobs(connection, labels):
        yield Exported(DocumentKind.JOB, job["jobId"], order_members(job["definition"]))


def order_members(definition: dict[str, Any]) -> dict[str, Any]:
    """A definition without what the scheduler writes, its members in the order of the contract."""
    from client_sdk.models import JobDefinition

    own = [field.alias or name for name, field in JobDefinition.model_fields.items()]
    given = [name for name in (*own, *definition) if name in definition and name not in OF_SCHEDULER]
    return {name: definition[name] for name in given}


def _export_calendars(connection: ApiConnection, documents: Iterable[Exported]) -> list[Exported]:
    """Those that the jobs of these documents name."""
    from client_sdk.models.request_bodies import NewCalendar

    jobs = [
        job
        for one in documents
        for job in ([one.value] if one.kind is DocumentKind.JOB else one.value[TIMERS])
    ]
    wanted = {name for job in jobs if (name := calendar_of(job)) is not None}
    if not wanted:
        return []
    members = [field.alias or name for name, field in NewCalendar.model_fields.items()]
    found = []
    for one in _list_calendars(connection):
        if one["name"] in wanted:
            said = {member: one[member] for member in members if one.get(member) not in (None, [])}
            value = {KIND: DocumentKind.CALENDAR.value, "name": one["name"], **said}
            found.append(Exported(DocumentKind.CALENDAR, one["name"], value))
    return found


def _list_calendars(connection: ApiConnection) -> list[dict[str, Any]]:
    """A key for a part of a tenant sees none."""
    try:
        return list(connection.items("/calendars"))
    except CommandError as error:
        if not _is_forbidden(error):
            raise
        note("warning: this key sees no calendars: those that the jobs name are not exported")
        return []


def _is_forbidden(error: CommandError) -> bool:
    from client_sdk.errors import Forbidden

    return isinstance(error.__cause__, Forbidden)


def calendar_of(definition: Any) -> str | None:
    """The name of the calendar in a definition's timer; None: it names none, or cannot be read."""
    timer = definition.get("timer") if isinstance(definition, dict) else None
    try:
        timer = json.loads(timer) if isinstance(timer, str) and timer.strip() else timer
    except ValueError:
        return None
    calendar = timer.get("calendar") if isinstance(timer, dict) else None
    found = calendar.get("name") if isinstance(calendar, dict) else calendar
    return found if isinstance(found, str) else None


def _export_services(connection: ApiConnection, names: Iterable[str]) -> Iterator[Exported]:
    for name in dict.fromkeys(names):
        known = connection.get(path_of("service", name))
        members = {one: _whole(known[one]) for one in OF_SERVICES if known.get(one) not in (None, [], {})}
        timers = [order_members(one) for one in known[TIMERS]]
        value = {KIND: DocumentKind.SERVICE.value, "name": name, **members, TIMERS: timers}
        yield Exported(DocumentKind.SERVICE, name, value)


def _whole(number: Any) -> Any:
    """A number of seconds as people write it."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


OF_SERVICES = (
    "address", "route", "tags", "onChange", "graceSeconds", "rateLimit", "signing", "options",
)  # fmt: skip
"""What a service says of itself, beside its jobs."""


def _order(one: Exported) -> tuple[int, str]:
    return list(DocumentKind).index(one.kind), one.name


def _warn_of_values(documents: Iterable[Exported]) -> None:
    """Names the values that are masked ones, which a job sends as they are, and those that are secrets."""
    for one in documents:
        timers = [(f"/{TIMERS}/{at}", job) for at, job in enumerate(one.value.get(TIMERS) or ())]
        for place, job in [("", one.value)] if one.kind is DocumentKind.JOB else timers:
            for pointer, value in _find_texts({name: job[name] for name in SENT if name in job}, place):
                if MASK in value:
                    text = f"has {MASK}, as masked values are shown; the job sends it so: write the value"
                    note(f"warning: {one.name}: {pointer} {text} as ${{secrets.NAME}}")
                elif _is_credential(pointer) and "${" not in value:
                    text = "is a credential, which stands in the file as it is: write it as"
                    note(f"warning: {one.name}: {pointer} {text} ${{secrets.NAME}}")


def _is_credential(pointer: str) -> bool:
    *_, parent, name = ["", *pointer.split("/")]
    return parent == "headers" and name.lower() in CREDENTIALS


def _find_texts(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    from client_sdk.models import write_pointer

    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _find_texts(inner, pointer + write_pointer([name]))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _find_texts(inner, f"{pointer}/{index}")


def _write(documents: Sequence[Exported], form: Format) -> str:
    """The text of a file. The same documents have the same text."""
    values = [one.value for one in documents]
    if form is Format.JSON:
        return write_json(values) + "\n"
    return "---\n".join(map(write_yaml, values))


def _write_one(one: Exported, path: Path) -> str:
    return write_yaml(one.value) if _form_of(path) is Format.YAML else write_json(one.value) + "\n"


def _form_of(path: Path) -> Format:
    return Format.YAML if path.suffix.lower() in YAML_SUFFIXES else Format.JSON


def _write_folder(folder: Path, documents: Sequence[Exported], form: Format) -> None:
    """A file for each document; one that says the same already is left as it is, with its comments."""
    known, crowded = _read_folder(folder)
    spelled = Counter((one.kind, one.name.casefold()) for one in documents)
    to_write: list[tuple[Path, Exported]] = []
    for one in documents:
        place, value = known.get((one.kind, one.name), (None, None))
        if place is None and spelled[one.kind, one.name.casefold()] > 1:
            text = f"{one.name!r} differs from another name by capital letters alone, as some file systems do"
            raise CommandError(f"{text} not; export to one file", Exit.USAGE)
        if value == one.value:
            continue
        if place in crowded:
            text = f"{place} holds {one.name} and others, and is not written anew; take it apart"
            raise CommandError(text, Exit.USAGE)
        to_write.append((place or folder / _FOLDERS[one.kind] / f"{one.name}.{form}", one))
    for place, one in to_write:
        _replace(place, _write_one(one, place))
    for kind, name in sorted(set(known) - {(one.kind, one.name) for one in documents}):
        text = f"{known[kind, name][0]} holds {name}, which is not in this export; remove it if it is gone"
        note(f"warning: {text}")
    rest = len(documents) - len(to_write)
    note(f"{folder} has {len(documents)} documents: {len(to_write)} written, {rest} as they were")


_FOLDERS = {DocumentKind.JOB: "", DocumentKind.CALENDAR: "calendars", DocumentKind.SERVICE: "services"}
_Known = dict[tuple[DocumentKind, str], tuple[Path, Any]]


def _read_folder(folder: Path) -> tuple[_Known, set[Path]]:
    """Where a folder has what, as it would be written; and the files that hold several documents."""
    known: _Known = {}
    if not folder.exists():
        return known, set()
    found = [one for document in read_sources([folder], allow_empty=True) for one in document.definitions()]
    counts = Counter(Path(one.document.name) for one in found)
    for one in found:
        if one.name is not None:
            value = {
                name: inner for name, inner in one.value.items() if (name, inner) != (KIND, DocumentKind.JOB)
            }
            known[one.kind, one.name] = Path(one.document.name), value
    return known, {path for path, count in counts.items() if count > 1}


def _replace(path: Path, text: str) -> None:
    """Writes a file as a whole: whoever reads it has the old text or the new one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.new")
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}", Exit.USAGE) from error
