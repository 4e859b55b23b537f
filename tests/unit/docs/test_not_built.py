"""The contract's lists of what is not built yet: what they name is missing."""

import re
from functools import cache
from typing import Any, get_args

from client_sdk.models import JobDefinition, answers
from scheduler_service.api.application import OPERATIONS
from scheduler_service.api.openapi import describe
from scheduler_service.api.queues import RESERVED
from scheduler_service.cli.main import commands
from scheduler_service.settings import Settings
from tests.unit.docs.pages import read

LATER = "**Not built yet**"
SPAN = re.compile(r"`([^`]+)`")
# A sentence behind this says what there is instead.
PRESENT = "At present"
# Named to say what the missing thing belongs to.
THERE = {
    "default", "env", "fire_all", "one_time", "overlapPolicy", "queue://", "rateLimit", "server.key",
    "timeoutSeconds", "timers",
}  # fmt: skip


def lists() -> str:
    """Those at the end of the sections of docs/spec.md; what is there at present is left out."""
    _, *parts = re.split(r"^## \d+\. .*$", read("docs/spec.md"), flags=re.MULTILINE)
    return "\n".join(_missing_alone(text.partition(LATER)[2]) for text in parts)


def _missing_alone(text: str) -> str:
    """The items without what is there at present."""
    return "\n* ".join(item.partition(PRESENT)[0] for item in text.split("\n* "))


def spans() -> set[str]:
    """What they set as code."""
    return set(SPAN.findall(lists())) - THERE


@cache
def known_commands() -> frozenset[str]:
    """`punctual jobs list` and so on, and the groups."""
    found: set[str] = set()

    def walk(command: Any, name: str) -> None:
        found.add(name)
        for word, inner in getattr(command, "commands", {}).items():
            walk(inner, f"{name} {word}")

    walk(commands(), "punctual")
    return frozenset(found)


@cache
def settings() -> frozenset[str]:
    """`group.name`; a group alone where it is a setting itself."""
    given = Settings.model_validate({"egress": {}}).model_dump(mode="json")
    groups = {group: values for group, values in given.items() if isinstance(values, dict)}
    return frozenset(f"{group}.{name}" for group, values in groups.items() for name in values) | set(given)


@cache
def words() -> frozenset[str]:
    """Members of a definition, and codes."""
    schema = JobDefinition.model_json_schema(by_alias=True)
    fields = {name for one in (schema, *schema["$defs"].values()) for name in one.get("properties", {})}
    codes = {str(word) for word in get_args(get_args(answers.FailureType)[0])} | {*map(str, RESERVED)}
    return frozenset(fields | codes)


@cache
def paths() -> dict[str, Any]:
    """The paths of the description and their methods."""
    described: dict[str, Any] = describe(OPERATIONS, version="1")["paths"]
    return described


def test_what_is_listed_as_missing_is_missing() -> None:
    """No route, command, setting, member of a definition or error code of that name is there."""
    assert "\n* " in lists()
    built = known_commands() | settings() | words()
    for span in sorted(spans()):
        method, _, path = span.rpartition(" ")
        if path.startswith("/"):
            assert method.lower() not in paths().get(path, {}), span
            assert method or path not in paths(), span
        assert span not in built, span
