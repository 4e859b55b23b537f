"""The definitions of files: created, checked, tried, compared; errors have their places in the files."""

import difflib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http.client import SERVICE_UNAVAILABLE
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.job_pages import describe_timer
from scheduler_service.cli.options import path_of
from scheduler_service.cli.output import Format, note_warnings, show, text_of
from scheduler_service.cli.service_connection import ApiConnection, SentPart

if TYPE_CHECKING:
    from scheduler_service.cli.documents import DefinitionFile, DefinitionInFile

Answer = TypeVar("Answer")
MAX_DEFINITIONS = 1_000
AWAY_SECONDS, AGAIN_SECONDS = 30.0, 0.5
"""A process of the service that starts again is awaited so long, and asked so often."""
PAGE_BYTES = 3 << 20
"""Of one request: fewer and less than the API takes (SPEC section 10), so that each is answered in time."""
FILLED_IN = ("creator", "creatorName", "serviceOptions")
"""The members that the service fills in where a definition leaves them out."""


def create_definition(connection: ApiConnection, file: Path, job_id: str | None) -> dict[str, Any]:
    """The created job of a file with one definition; `job_id` is for a file without. Raises CommandError."""
    from scheduler_service.cli.documents import DocumentKind, read_one

    document = read_one(file, DocumentKind.JOB)
    name = _find_id(document, job_id)
    part = SentPart(document)
    answer = connection.exchange("POST", path_of("job", name), body=document.value, part=part)
    note_warnings(answer.warnings, part)
    created: dict[str, Any] = answer.data
    return created


def check_definitions(connection: ApiConnection, files: Iterable[Path], output: Format) -> None:
    """Prints what each definition of the files would do; creates nothing. Raises CommandError."""
    from scheduler_service.cli.documents import DocumentKind, read_sources

    definitions = [one for document in read_sources(files) for one in document.definitions()]
    if not definitions:
        named = ", ".join(map(str, files))
        raise CommandError(f"there is no definition in {named}: nothing was checked", Exit.USAGE)
    refuse_repeated(definitions)
    for other in (one for one in definitions if one.kind is not DocumentKind.JOB):
        text = f"{other.name_place}: a {other.kind} is not tried; 'punctual jobs diff' checks it"
        raise CommandError(text, Exit.USAGE)
    for one in definitions:
        part = SentPart(one.document, pointer=one.pointer)
        answer = connection.exchange("POST", "/definitions/check", body=one.body, part=part)
        note_warnings(answer.warnings, part)
        if output is not Format.TABLE:
            show(answer.data, output)
            continue
        existing = answer.data["existing"]
        there = "is new" if existing is None else "would change" if not existing["isSame"] else "is unchanged"
        print(text_of(f"{answer.data['jobId']} {there}: {describe_timer(answer.data['timer'])}"))


def try_definition(connection: ApiConnection, file: Path, params: dict[str, Any]) -> dict[str, Any]:
    """The started execution of a file's one definition, which is not kept. Raises CommandError."""
    from scheduler_service.cli.documents import DocumentKind, read_one

    document = read_one(file, DocumentKind.JOB)
    part = SentPart(document, posted="/definition")
    body = {"definition": document.value, "params": params}
    answer = connection.exchange("POST", "/definitions/try", body=body, part=part)
    note_warnings(answer.warnings, part)
    started: dict[str, Any] = answer.data
    return started


def send_page(
    connection: ApiConnection, page: Sequence[Any], *, on_existing: str | None = None
) -> list[dict[str, Any]]:
    """A result for each definition; without `on_existing` what applying it would do. Raises CommandError.

    Those that the service could not take now, as where one of its processes starts again, are asked for again
    for `AWAY_SECONDS`: what was done after all is left unchanged.
    """
    path = "/definitions/compare" if on_existing is None else "/jobs"
    items: list[dict[str, Any]] = [{} for _ in page]
    left = list(range(len(page)))

    def send() -> list[int]:
        body = [page[index] for index in left]
        answer = connection.exchange("POST", path, query={"onExisting": on_existing}, body=body)
        note_warnings(answer.warnings)
        for index, item in zip(left, answer.data["items"], strict=True):
            items[index] = item
        left[:] = [index for index in left if is_passing(items[index]["problem"])]
        return left

    ask_again(send, bool)
    return items


def ask_again(ask: Callable[[], Answer], is_for_now: Callable[[Answer], bool]) -> Answer:
    """What `ask` gives, asked again while that is so for now alone; after `AWAY_SECONDS` whatever it is."""
    deadline = time.monotonic() + AWAY_SECONDS
    while is_for_now(answer := ask()) and time.monotonic() < deadline:
        time.sleep(AGAIN_SECONDS)
    return answer


def is_passing(problem: Mapping[str, Any] | None) -> bool:
    """Whether a problem is that the service has no time or no store now."""
    return problem is not None and problem["status"] == SERVICE_UNAVAILABLE


def split_into_pages(definitions: "Iterable[DefinitionInFile]") -> "Iterator[list[DefinitionInFile]]":
    """The definitions in order, as many at a time as a request may have."""
    page: list[DefinitionInFile] = []
    size = 0
    for one in definitions:
        length = len(json.dumps(one.body, ensure_ascii=False).encode(errors="replace"))
        if page and (len(page) == MAX_DEFINITIONS or size + length > PAGE_BYTES):
            yield page
            page, size = [], 0
        page.append(one)
        size += length
    if page:
        yield page


def refuse_repeated(definitions: "Sequence[DefinitionInFile]") -> None:
    """Raises CommandError if two definitions have one jobId."""
    from scheduler_service.cli.documents import find_repeated

    repeated = find_repeated(definitions).items()
    lines = [f"{definitions[index].name_place}: {text}" for index, text in repeated]
    if lines:
        raise CommandError("\n".join(lines), Exit.USAGE)


def _find_id(document: "DefinitionFile", given: str | None) -> str:
    """The id of the file's one definition, from the file or the command line. Raises CommandError."""
    value = document.value
    if not isinstance(value, dict):
        text = "must hold one definition, a JSON object; for an array there is 'punctual jobs apply'"
        raise CommandError(f"{document.name} {text}", Exit.USAGE)
    own = value.get("jobId")
    if own is not None and not isinstance(own, str):
        raise CommandError(f"{document.name}:{document.place_of('/jobId')}: jobId must be a text", Exit.USAGE)
    if given is not None and own is not None and given != own:
        place = f"{document.name}:{document.place_of('/jobId')}"
        text = f"the command line says {given!r}, and {place} says {own!r}; give one id"
        raise CommandError(f"two ids for one job: {text}", Exit.USAGE)
    name = given or own
    if not name:
        text = "add one to the file, or give it: punctual jobs create JOB_ID -f FILE"
        raise CommandError(f"{document.name} holds a definition without a jobId; {text}", Exit.USAGE)
    return name


def read_declaration(value: Any) -> dict[str, Any]:
    """The body of `PUT /services/{name}`; a file may hold the timers alone, or name them `timer`."""
    if isinstance(value, list):
        return {"timers": value}
    if not isinstance(value, dict):
        raise CommandError("the file must hold an object with timers, or an array of definitions", Exit.USAGE)
    if not isinstance(value.get("timer"), list):
        return value
    others = {name: member for name, member in value.items() if name != "timer"}
    return {"timers": value["timer"], **others}


def point_to_timers(value: Any) -> str:
    """Where the definitions of a declaration are in its file, as a JSON Pointer."""
    if isinstance(value, list):
        return ""
    is_short = isinstance(value, dict) and isinstance(value.get("timer"), list)
    return "/timer" if is_short else "/timers"


def compare(stored: dict[str, Any], given: dict[str, Any], name: str) -> list[str]:
    """A diff of a file's definition against the stored one; empty if they mean the same."""
    from scheduler_service.domain.json_differences import find_differences

    posted = {member: stored[member] for member in FILLED_IN if member in stored} | given
    if not list(find_differences(_fill(posted), _fill(stored))):
        return []
    return list(difflib.unified_diff(write_lines(stored), write_lines(posted), "stored", name, lineterm=""))


def declares(value: Any) -> bool:
    """Whether a file holds what a service declares."""
    return isinstance(value, dict) and (
        isinstance(value.get("timers"), list) or isinstance(value.get("timer"), list)
    )


def _fill(definition: dict[str, Any]) -> Any:
    """The definition with its defaults; unchanged if it is not valid."""
    from client_sdk.models import ModelError, parse_definition

    try:
        return parse_definition(definition).model_dump(mode="json", by_alias=True)
    except ModelError:
        return definition


def write_lines(definition: Any) -> list[str]:
    """As JSON, of which each member is a line."""
    return json.dumps(definition, indent=2, sort_keys=True, ensure_ascii=False).splitlines()
