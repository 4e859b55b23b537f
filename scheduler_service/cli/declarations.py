"""Files that declare jobs: one definition, an array of them, or what a service declares."""

import difflib
import json
from typing import TYPE_CHECKING, Any

from scheduler_service.cli.errors import CommandError, Exit

if TYPE_CHECKING:
    from scheduler_service.cli.documents import Definition, DefinitionFile

FILLED_IN = ("creator", "creatorName")
"""The members that the service fills in where a definition leaves them out."""


def read_definitions(document: "DefinitionFile") -> "list[Definition]":
    """The definitions in a file, each with its jobId. Raises CommandError."""
    value = document.value
    found = document.definitions(point_to_timers(value) if _declares(value) else "")
    if any(one.job_id is None for one in found):
        raise CommandError(
            f"{document.name} must hold a definition with a jobId, an array of them, or an object with "
            "timers",
            Exit.USAGE,
        )
    return found


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
    from scheduler_service.domain.differences import find_differences

    posted = {member: stored[member] for member in FILLED_IN if member in stored} | given
    if not list(find_differences(_fill(posted), _fill(stored))):
        return []
    return list(difflib.unified_diff(_lines(stored), _lines(posted), "stored", name, lineterm=""))


def _declares(value: Any) -> bool:
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


def _lines(definition: Any) -> list[str]:
    return json.dumps(definition, indent=2, sort_keys=True, ensure_ascii=False).splitlines()
