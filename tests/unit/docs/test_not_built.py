"""The lists of what is not built yet: what they name is missing, and the contract's list is complete."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

from client_sdk.models import JobDefinition, answers
from scheduler_service.api.application import OPERATIONS
from scheduler_service.api.openapi import describe
from scheduler_service.api.queues import RESERVED
from scheduler_service.cli.main import commands
from scheduler_service.settings import Settings
from tests.rows import each_row
from tests.unit.docs.pages import read, rows

LATER = "**Not built yet**"
SPAN = re.compile(r"`([^`]+)`")
# A sentence behind this says what there is instead.
PRESENT = "At present"
# Named to say what the missing thing belongs to.
THERE = {
    "default", "env", "fire_all", "one_time", "overlapPolicy", "queue://", "rateLimit", "server.key",
    "timeoutSeconds", "timers",
}  # fmt: skip


def by_section() -> dict[int, str]:
    """The list of each section of docs/spec.md that has one."""
    _, *parts = re.split(r"^## (\d+)\. ", read("docs/spec.md"), flags=re.MULTILINE)
    sections = zip(parts[::2], parts[1::2], strict=True)
    found = {int(number): text.partition(LATER)[2] for number, text in sections}
    return {number: text for number, text in found.items() if text.strip()}


def lists() -> dict[str, str]:
    """Every list by its page; what is there at present is left out."""
    contract = "\n".join(by_section().values())
    guide = read("docs/guide.md").partition("## Not there yet")[2]
    table = rows(read("docs/promises.md").partition("## Not yet")[2])
    promises = "\n".join(" | ".join(cells) for cells in table)
    found = {"docs/spec.md": contract, "docs/guide.md": guide, "docs/promises.md": promises}
    return {page: _missing_alone(text) for page, text in found.items()}


def _missing_alone(text: str) -> str:
    """The items without what is there at present."""
    return "\n* ".join(item.partition(PRESENT)[0] for item in text.split("\n* "))


def spans() -> Iterator[tuple[str, str]]:
    """(page, text set as code) of all lists."""
    for page, text in lists().items():
        for span in SPAN.findall(text):
            if span not in THERE:
                yield page, span


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
    built = known_commands() | settings() | words()
    for page, span in sorted(set(spans())):
        method, _, path = span.rpartition(" ")
        if path.startswith("/"):
            assert method.lower() not in paths().get(path, {}), f"{page} says that {span} is missing"
            assert method or path not in paths(), f"{page} says that {span} is missing"
        assert span not in built, f"{page} says that {span} is missing"


@each_row("page", ["docs/guide.md", "docs/promises.md"])
def test_the_contract_lists_it_too(page: str) -> None:
    """Whatever another page names as missing: one list is complete."""
    named = {span for one, span in spans() if one == page}
    contract = lists()["docs/spec.md"]
    assert {span for span in named if span not in contract} == set()


def test_each_section_with_a_list_has_a_row_in_the_promises() -> None:
    """A section of which something is missing is named in the table at the end."""
    cells = rows(read("docs/promises.md").partition("## Not yet")[2])
    named = {int(number) for row in cells for number in re.findall(r"\d+", row[1])}
    assert named == set(by_section()) - {1}


def test_the_lists_are_found() -> None:
    """Else nothing would be compared."""
    assert by_section()
