"""The errors of a service in the words of the command line: options, and places in files."""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from client_sdk.errors import Flaw

if TYPE_CHECKING:
    from client_sdk.errors import Problem
    from scheduler_service.cli.documents import DefinitionFile

OPTIONS = {
    "/Last-Event-ID": "--after",
    "/count": "--count",
    "/creator": "--creator",
    "/cursor": "--cursor",
    "/delaySeconds": "--delay",
    "/deliveryId": "DELIVERY_ID",
    "/error": "--error",
    "/event": "--event",
    "/executionId": "EXECUTION_ID",
    "/from": "--since",
    "/fromStep": "--from-step",
    "/jobId": "JOB_ID",
    "/kind": "--kind",
    "/label": "--label",
    "/lastOutcome": "--last-outcome",
    "/limit": "--limit",
    "/misfire": "--misfire",
    "/name": "NAME",
    "/outcome": "--outcome",
    "/perJob": "--per-job",
    "/params": "NAME=VALUE",
    "/place": "--place",
    "/reason": "--reason",
    "/root": "--root",
    "/state": "--state",
    "/template": "TEMPLATE",
    "/text": "--text",
    "/timer": "PERIOD",
    "/timer/dueTime": "--due-time",
    "/timer/period": "PERIOD",
    "/timer/timezone": "--timezone",
    "/to": "--until",
}
"""Parameters and members of bodies that commands send, by their pointers in the API."""

COMMANDS = {"POST /jobs/{jobId}/update": "'punctual jobs apply'"}
"""Remedies that messages name by their route."""

UNAUTHORIZED = 401


class SentPart(NamedTuple):
    """What is sent of a file: what stands at `pointer` in the file is at `posted` in the request."""

    document: "DefinitionFile"
    posted: str = ""
    pointer: str = ""


def describe(problem: "Problem", part: SentPart | None = None, options: Mapping[str, str] = OPTIONS) -> str:
    """Each error of a problem once, with the option or the place in the file that it is about."""
    if problem.status == UNAUTHORIZED:
        return f"{problem.detail}; give a key with --key or PUNCTUAL_KEY"
    lines = describe_flaws(problem.errors, part, options) or [problem.detail]
    if len(lines) == 1:
        return lines[0]
    return "\n".join([f"{len(lines)} errors:", *(f"  {line}" for line in lines)])


def read_flaws(given: Iterable[Mapping[str, Any]]) -> list[Flaw]:
    """The errors or warnings of an answer."""
    return [Flaw(*(str(one.get(name) or "") for name in Flaw._fields)) for one in given]


def describe_flaws(
    flaws: Iterable[Flaw], part: SentPart | None = None, options: Mapping[str, str] = OPTIONS
) -> list[str]:
    """A line per error or warning."""
    return [_describe_one(flaw, part, options) for flaw in flaws]


def are_options(flaws: Collection[Flaw]) -> bool:
    """Whether each error is about an option of the command line."""
    return bool(flaws) and all(OPTIONS.get(flaw.pointer, "").startswith("--") for flaw in flaws)


def _describe_one(flaw: Flaw, part: SentPart | None, options: Mapping[str, str]) -> str:
    message = _translate(flaw.message)
    if part is not None and flaw.pointer.startswith(part.posted):
        own = part.pointer + flaw.pointer.removeprefix(part.posted)
        if own in part.document.places or flaw.pointer not in OPTIONS:
            place = f"{part.document.name}:{part.document.place_of(own)}"
            return f"{place}: {own or '/'}: {message} [{flaw.code}]"
    option = options.get(flaw.pointer) or OPTIONS.get(flaw.pointer)
    if option is None:
        return f"{flaw.pointer}: {message}" if flaw.pointer else message
    return _name(option, flaw.pointer[1:], message)


def _name(option: str, parameter: str, message: str) -> str:
    """The message with the option instead of the parameter; an argument is named by its value already."""
    for spelled in (parameter, f"the parameter {parameter!r}"):
        if message.startswith(f"{spelled} "):
            return f"{option} {message.removeprefix(spelled).lstrip()}"
    is_argument = option in OPTIONS.values() and not option.startswith("--")
    return message if is_argument else f"{option}: {message}"


def _translate(message: str) -> str:
    for route, command in COMMANDS.items():
        message = message.replace(route, command)
    return message
