"""The contract: references to it, words of the wire, what is not built yet; and the glossary."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

from pydantic import BaseModel

from client_sdk import models
from client_sdk.models import JobDefinition, answers
from scheduler_service.api.queues import RESERVED
from scheduler_service.domain.execution import DeliveryState
from scheduler_service.domain.replies import RefusalCode
from scheduler_service.engine.warnings import CODES
from tests.rows import each_row
from tests.unit.docs.pages import ROOT, read, rows

PAGE, LAST, LATER = "docs/spec.md", 17, "**Not built yet**"
FOLDERS = ("scheduler_service", "client_sdk", "tests", "examples", "docs")
ENDINGS = {".py", ".toml", ".md", ".yaml", ".sh"}
OWN = {ROOT / PAGE, Path(__file__).resolve()}

WORD = re.compile(r"\bSPEC\b")
GOES_ON = r"(?!\d|(?:,|\s+and|\s+to)\s+\d)"
FORM = re.compile(
    rf"SPEC\s+section\s+(?P<one>\d+){GOES_ON}|SPEC\s+sections\s+(?P<many>\d+(?:(?:,|\s+and)\s+\d+)+){GOES_ON}"
)
SPAN = re.compile(r"```.*?```|`[^`]+`", re.DOTALL)
WORDS = (
    answers.DriftKind, answers.ExecutionState, answers.FailureType, answers.FiringOutcome,
    answers.InstanceState, answers.ItemStatus, answers.JobState, answers.RetryReason, answers.TimerKind,
    answers.TriggeredBy,
)  # fmt: skip
BODIES = (
    models.Activation, models.Cancellation, models.Claim, models.Completion, models.Heartbeat,
    models.InstanceRegistration, models.JobDefinition, models.PreviewRequest, models.RateLimit,
    models.Renewal, models.ReplayRequest, models.ServiceDeclaration, models.TemplateRequest,
)  # fmt: skip


@cache
def sections() -> dict[int, str]:
    """The text of each section by its number."""
    _, *parts = re.split(r"^## (\d+)\. ", read(PAGE), flags=re.MULTILINE)
    return {int(number): text for number, text in zip(parts[::2], parts[1::2], strict=True)}


def code_words() -> set[str]:
    """Every word that the contract, or its page of routes, sets as code."""
    text = read(PAGE) + read("docs/api.md")
    return set(re.findall(r"[A-Za-z_]\w*", " ".join(SPAN.findall(text))))


def sources() -> Iterator[Path]:
    """The files that may refer to the contract."""
    found = [*ROOT.glob("*"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))]
    return (path for path in sorted(found) if path.suffix in ENDINGS and path.is_file() and path not in OWN)


def wrong_references(text: str) -> Iterator[tuple[int, str]]:
    """(line, reference) of those that are not of the one form, or name a section that is not there."""
    known = {str(number) for number in sections()}
    for word in WORD.finditer(text):
        found = FORM.match(text, word.start())
        numbers = set() if found is None else set(re.findall(r"\d+", found["one"] or found["many"]))
        if not numbers or not numbers <= known:
            yield text.count("\n", 0, word.start()) + 1, text[word.start() : word.start() + 30]


def fields(model: type[BaseModel]) -> set[str]:
    """The names on the wire of a body and of all that it may hold."""
    schema = model.model_json_schema(by_alias=True)
    return {name for one in (schema, *schema.get("$defs", {}).values()) for name in one.get("properties", {})}


def test_every_reference_leads_to_a_section() -> None:
    """`SPEC section N`, or `SPEC sections N, M and K`: no other form, and each number has a heading."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {reference!r}"
        for path in sources()
        for line, reference in wrong_references(path.read_text(encoding="utf-8"))
    ]
    assert wrong == []
    # The search reads the code: the contract is named there hundreds of times
    assert sum(len(WORD.findall(path.read_text(encoding="utf-8"))) for path in sources()) > 200
    wrong = "SPEC 3, SPEC §4, SPEC section 99, SPEC sections 5 to 7, SPEC section 10, 004, SPEC says"
    assert len(list(wrong_references(wrong))) == 6
    assert not list(wrong_references("(SPEC section 3), SPEC\nsections 4, 5 and 17."))


def test_sections_are_numbered_without_gap() -> None:
    """1 to 17, and below each section its parts N.1, N.2 and so on."""
    assert list(sections()) == list(range(1, LAST + 1))
    for number, text in sections().items():
        parts = [int(part) for part in re.findall(rf"^### {number}\.(\d+) \S", text, re.MULTILINE)]
        assert parts == list(range(1, len(parts) + 1)), number
        assert len(re.findall(r"^### ", text, re.MULTILINE)) == len(parts), number


@each_row("model", BODIES, ids=lambda model: model.__name__)
def test_every_field_of_a_body_stands_in_it(model: type[BaseModel]) -> None:
    """Set as code, by its name on the wire."""
    assert fields(model) - code_words() == set()
    assert "retryFrom" in fields(JobDefinition)


def test_every_code_and_state_stands_in_it() -> None:
    """Error codes, states, outcomes and the other closed words of the wire."""
    words = {word for annotated in WORDS for word in get_args(get_args(annotated)[0])}
    words |= {*CODES, *RESERVED, *RefusalCode, *DeliveryState}
    assert {str(word) for word in words} - code_words() == set()


@each_row("number", range(1, LAST + 1))
def test_what_is_not_built_yet_is_a_list_at_the_end(number: int) -> None:
    """One heading line of one form at most, and nothing but a list behind it."""
    _, *later = sections()[number].split(LATER)
    assert len(later) <= 1
    assert all(line.startswith(("* ", "  ")) for text in later for line in text.splitlines() if line)


GLOSSARY = "docs/glossary.md"


def glossary_words() -> list[str]:
    """The first cells of all rows but the headings."""
    headings = ("---", "meaning", "`failureType`")
    return [cells[0] for cells in rows(read(GLOSSARY)) if cells[1] not in headings]


def closed_words() -> set[str]:
    """Those of the sets that JSON knows; the kinds of a drift have a table of their own in services.md."""
    sets = (one for one in WORDS if one is not answers.DriftKind)
    return {str(word) for one in sets for word in get_args(get_args(one)[0])} | {*map(str, DeliveryState)}


def test_every_closed_word_of_the_wire_is_explained() -> None:
    """In the part about them, set as code."""
    _, _, part = read(GLOSSARY).partition("## Words of the wire")
    explained = set(re.findall(r"`(\w+)`", part.partition("\n## ")[0]))
    assert closed_words() - explained == set()
    assert len(closed_words()) > 30


def test_the_floors_are_the_packages() -> None:
    """Those directly below scheduler_service, each once in the picture of the house."""
    picture = read("CONTRIBUTING.md").partition("```text\n")[2].partition("```")[0]
    floors = re.findall(r"^  (\w+(?: \| \w+)*)  ", picture, re.MULTILINE)
    packages = sorted(path.parent.name for path in ROOT.glob("scheduler_service/*/__init__.py"))
    assert sorted(" | ".join(floors).split(" | ")) == packages
    assert len(packages) > 10


def test_no_word_has_two_rows() -> None:
    """One word, one meaning."""
    assert sorted(glossary_words()) == sorted(set(glossary_words()))
