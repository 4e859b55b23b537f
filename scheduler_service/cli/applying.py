"""Sends the definitions of a file: one for creation, or all of them; errors have their places in the file."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduler_service.cli.connection import ApiConnection
from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.job_page import describe_timer
from scheduler_service.cli.job_reads import path_of
from scheduler_service.cli.output import Column, Format, note, note_warnings, show, show_rows, text_of
from scheduler_service.cli.wording import Part, describe_flaws, read_flaws

if TYPE_CHECKING:
    from scheduler_service.cli.documents import DefinitionFile

RESULTS = (Column("jobId", free=True), "status")


def create_definition(connection: ApiConnection, file: Path, job_id: str | None) -> dict[str, Any]:
    """The created job of a file with one definition; `job_id` is for a file without. Raises CommandError."""
    from scheduler_service.cli.documents import read_document

    document = read_document(file)
    name = _find_id(document, job_id)
    part = Part(document)
    answer = connection.exchange("POST", path_of(name), body=document.value, part=part)
    note_warnings(answer.warnings, part)
    created: dict[str, Any] = answer.data
    return created


def check_definitions(connection: ApiConnection, file: Path, output: Format) -> None:
    """Prints what each definition of a file would do; creates nothing. Raises CommandError."""
    from scheduler_service.cli.documents import read_document

    document = read_document(file)
    is_list = isinstance(document.value, list)
    for index, definition in enumerate(document.value if is_list else [document.value]):
        part = Part(document, pointer=f"/{index}" if is_list else "")
        answer = connection.exchange("POST", "/definitions/check", body=definition, part=part)
        note_warnings(answer.warnings, part)
        if output is not Format.TABLE:
            show(answer.data, output)
            continue
        existing = answer.data["existing"]
        there = "is new" if existing is None else "would change" if not existing["isSame"] else "is unchanged"
        print(text_of(f"{answer.data['jobId']} {there}: {describe_timer(answer.data['timer'])}"))


def try_definition(connection: ApiConnection, file: Path, params: dict[str, Any]) -> dict[str, Any]:
    """The started execution of a file's one definition, which is not kept. Raises CommandError."""
    from scheduler_service.cli.documents import read_document

    document = read_document(file)
    part = Part(document, posted="/definition")
    body = {"definition": document.value, "params": params}
    answer = connection.exchange("POST", "/definitions/try", body=body, part=part)
    note_warnings(answer.warnings, part)
    started: dict[str, Any] = answer.data
    return started


def apply_definitions(connection: ApiConnection, file: Path, output: Format) -> None:
    """Creates or updates the jobs of a file, and prints a result for each. Raises CommandError."""
    from scheduler_service.cli.documents import read_document

    document = read_document(file)
    is_list = isinstance(document.value, list)
    if not is_list:
        _find_id(document, None)
    refuse_repeated(document, "")
    body = document.value if is_list else [document.value]
    answer = connection.exchange("POST", "/jobs", query={"onExisting": "update"}, body=body)
    items = answer.data["items"]
    if output is Format.TABLE:
        show_rows(items, RESULTS)
    else:
        show(items, output)
    note_warnings(answer.warnings)
    for index, item in enumerate(items):
        part = Part(document, pointer=f"/{index}" if is_list else "")
        note_warnings(item["warnings"], part)
        if item["problem"] is not None:
            for line in describe_flaws(read_flaws(item["problem"]["errors"]), part):
                note(line)
    refused = sum(item["status"] == "refused" for item in items)
    if refused:
        raise CommandError(f"{refused} of {len(items)} jobs were refused, {_describe_others(items)}")


def _describe_others(items: list[dict[str, Any]]) -> str:
    """What became of the jobs that were not refused."""
    counts = Counter(item["status"] for item in items if item["status"] != "refused")
    applied = ", ".join(f"{number} {status}" for status, number in counts.items())
    return f"and are as they were; {f'the others are applied: {applied}' if applied else 'none is applied'}"


def refuse_repeated(document: "DefinitionFile", pointer: str) -> None:
    """Raises CommandError if two definitions of the array at `pointer` have one jobId."""
    repeated = document.find_repeated(pointer).items()
    lines = [
        f"{document.name}:{document.place_of(f'{pointer}/{index}/jobId')}: {text}" for index, text in repeated
    ]
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
