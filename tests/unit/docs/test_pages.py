"""The documentation is tested: what it names exists, and what exists is named; installing, contributing."""

import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

import msgspec

from client_sdk.models import answers, parse_definition
from scheduler_service import DISTRIBUTION, __version__, how_to_install
from scheduler_service.api.application import OPERATIONS
from scheduler_service.api.openapi import describe
from scheduler_service.cli.errors import Exit
from scheduler_service.cli.main import commands
from scheduler_service.domain.public_events import OccurrenceKind
from scheduler_service.engine.compile import compile_definition
from scheduler_service.engine.program import Surroundings
from scheduler_service.language.expression import SYSTEM_VARIABLES
from scheduler_service.persistence.history import schema as history
from scheduler_service.persistence.job_store import job_store_schema as cluster
from scheduler_service.persistence.sqlite.schema import MIGRATIONS
from scheduler_service.settings import Settings, load_settings
from scheduler_service.settings.otel_variables import ENDPOINT, OTLP, PLAIN, PROTOCOL
from scheduler_service.timing.calendar_days import make_calendar
from tests.rows import each_row
from tests.unit.docs.pages import (
    NAMED_TEST,
    PAGES,
    ROOT,
    anchors,
    definitions,
    fenced,
    fences,
    functions_of,
    prose,
    read,
    rows,
)

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NOT_DESCRIBED = {("GET", "/openapi.json"), ("GET", "/docs"), ("GET", "/")}
"""Routes that the description of the API leaves out: itself, and the pages for a browser."""

FILE = re.compile(r"`([A-Za-z_.]+(?:/[\w.-]+)+\.(?:py|md|toml|ya?ml))(?:::\w+)?`")


def _settings() -> dict[str, object]:
    """name → default; the group `egress` is absent unless it is given."""
    given = Settings.model_validate({"egress": {}})
    return {
        f"{group}.{name}" if isinstance(values, dict) and values else group: value
        for group, values in given.model_dump(mode="json").items()
        for name, value in (values.items() if isinstance(values, dict) and values else [("", values)])
    }


@each_row("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    """To a file of the checkout, and to a heading of it where the link has one."""
    for target in LINK.findall(prose(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        place, _, anchor = target.partition("#")
        there = (page.parent / place).resolve() if place else page
        assert there.is_relative_to(ROOT), target
        assert there.exists(), target
        assert not anchor or anchor in anchors(there.read_text(encoding="utf-8")), target


OFFICE = make_calendar("office", version=1, changed_at=0, week=0b11111, layers=(), zone=None)
"""The one that the pages store."""


@each_row(("page", "definition"), definitions())
def test_every_definition_compiles(page: str, definition: dict[str, Any]) -> None:
    """An example is a whole definition that a service accepts, without unintended warnings."""
    left_out = {"jobId": "example", "creator": "me", "creatorName": "Me"}
    around = Surroundings(find_calendar=lambda _, name: OFFICE if name == OFFICE.name else None)
    compiled = compile_definition(parse_definition({**left_out, **definition}), around)
    # The pages say what these two mean.
    assert {warning.code for warning in compiled.warnings} <= {"no_final_notification", "call_limit"}, page


SETTING = re.compile(r"^\* `([a-z_.0-9]+)`(?: \(`(.+?)`\))?: (.+)$", re.MULTILINE)


def _documented_settings() -> dict[str, str]:
    """name → default as it is shown; empty where there is none."""
    found = SETTING.findall(read("docs/settings.md"))
    assert len({name for name, _, _ in found}) == len(found)
    return {name: shown for name, shown, _ in found}


@each_row(("name", "default"), _settings().items())
def test_every_setting_is_documented(name: str, default: object) -> None:
    """With its default. Its variable follows from its name."""
    shown = _documented_settings()[name]
    if default is None:
        assert not shown
    else:
        assert (shown if isinstance(default, str) else msgspec.json.decode(shown)) == default


def test_every_documented_setting_exists() -> None:
    """No line is about a setting that is gone."""
    assert set(_documented_settings()) == set(_settings())


def test_the_file_of_settings_that_is_shown_is_right(tmp_path: Path) -> None:
    """Each TOML example is accepted unchanged."""
    blocks = [*fences(read("docs/settings.md"), "toml"), *fences(read("docs/operations.md"), "toml")]
    assert len(blocks) >= 2
    for number, text in enumerate(blocks):
        assert tomllib.loads(text)
        path = tmp_path / f"{number}.toml"
        path.write_text(text, encoding="utf-8")
        assert load_settings({}, {}, path).sources


@cache
def _routes() -> list[tuple[str, str, dict[str, Any]]]:
    paths = describe(OPERATIONS, version="1")["paths"]
    return [
        (method.upper(), path, operation)
        for path, methods in paths.items()
        for method, operation in methods.items()
    ]


def test_every_route_is_documented() -> None:
    """With its method; each of its parameters is named on the page."""
    page = read("docs/api.md")
    for method, path, operation in _routes():
        assert f"`{method} {path}`" in page
        for name in (parameter["name"] for parameter in operation["parameters"]):
            assert re.search(rf"[`{{?&/]{re.escape(name)}[`}}=:\",]", page), f"{name} of {method} {path}"


LATER = re.compile(r"\*\*Not built yet\*\*.*?(?=\n## |\Z)", re.DOTALL)
"""The list at the end of a section of the contract."""


def test_every_documented_route_exists() -> None:
    """No page names a route that does not exist, except in a list of what is not built yet."""
    known = {(method, path) for method, path, _ in _routes()} | NOT_DESCRIBED
    for page in ROOT.glob("docs/*.md"):
        text = LATER.sub("", prose(read(f"docs/{page.name}")))
        for method, path in re.findall(r"`(GET|POST|PUT|DELETE) (/[^`?\s]*)", text):
            assert (method, path) in known, f"{page.name}: {method} {path}"


def _commands() -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []

    def walk(command: Any, name: str) -> None:
        below = getattr(command, "commands", None)
        if below is None:
            found.append((name, command))
        else:
            for word, inner in below.items():
                walk(inner, f"{name} {word}")

    walk(commands(), "punctual")
    return found


@each_row(("name", "command"), _commands())
def test_every_command_is_documented(name: str, command: Any) -> None:
    """In a line of its own, with its own options; and its help has an example."""
    page = read("docs/cli.md")
    assert page.count(f"\n* `{name}`: ") == 1, f"docs/cli.md does not name {name}"
    shared = {"--help", "--url", "--key", "-o", "--output", "-f", "--file", "--data", "--config", "--host"}
    for option in command.params:
        for spelled in option.opts:
            assert spelled in shared or not spelled.startswith("-") or spelled in page, f"{name} {spelled}"
    assert f"Example: {name}" in (command.help or "")


def test_what_is_listed_as_missing_is_missing() -> None:
    """No command, setting or route of a list of what is not built yet is there."""
    found = LATER.findall(read("docs/spec.md"))
    built = (
        {name for name, _ in _commands()} | set(_settings()) | {f"{one} {path}" for one, path, _ in _routes()}
    )
    assert found
    assert set(re.findall(r"`([^`]+)`", "".join(found))) & built == set()


def test_every_exit_code_is_documented() -> None:
    """In the table of docs/cli.md, as in the module that defines them."""
    documented = {int(cells[0]): cells[1] for cells in rows(read("docs/cli.md")) if cells[0].isdigit()}
    assert set(documented) == {int(code) for code in Exit}
    # Every system variable is in the table of templates
    page = read("docs/templates.md")
    for name in SYSTEM_VARIABLES:
        assert f"`{name}`" in page


@each_row("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_is_named_exists(page: Path) -> None:
    """By the end of its path in scheduler_service, or by its path in the checkout; `ROOM` is any package."""
    named = {path for path in FILE.findall(page.read_text(encoding="utf-8")) if "ROOM" not in path}
    missing = {path for path in named if not (ROOT / path).exists()}
    assert {path for path in missing if not any(one.endswith(f"/{path}") for one in _product())} == set()


@cache
def _product() -> list[str]:
    return [f"/{path.relative_to(ROOT)}" for path in ROOT.glob("scheduler_service/**/*.*")]


COMMANDS = re.compile(
    r"^(?:\$ |[A-Z_]+=|(?:export|sudo|punctual|curl|docker|kubectl|helm|pipx?|uvicorn|daprd|python3?)\s)",
    re.MULTILINE,
)


@each_row("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_are_run_or_say_why_not(page: Path) -> None:
    """A block `sh` or `console` is run by tests; commands of another block have the reason in front of it."""
    text = page.read_text(encoding="utf-8")
    lines = text.splitlines()
    for fence in fenced(text):
        if fence.language in ("", "text") and COMMANDS.search(fence.body):
            assert lines[fence.line - 3].startswith("<!-- not run: "), f"{page.name}:{fence.line}"


def test_commands_that_start_containers_set_what_these_require() -> None:
    """Each block with `docker compose up` exports all variables without which the file is refused."""
    required = set(re.findall(r"\$\{(\w+):\?", read("docker-compose.yml")))
    blocks = [
        body
        for page in PAGES
        for body in fences(page.read_text(encoding="utf-8"), "text")
        if "compose up" in body
    ]
    assert len(blocks) >= 2
    assert "REDIS_PASSWORD" in required
    for body in blocks:
        assert required <= set(re.findall(r"(\w+)=", body))


def test_every_kind_has_a_row() -> None:
    """And there is no row of a kind that is gone."""
    _, _, section = read("docs/events.md").partition("\n## Kinds\n")
    named = {cells[0].strip("`") for cells in rows(section.partition("\n## ")[0]) if "`" in cells[0]}
    assert named == {kind.value for kind in OccurrenceKind}
    # The words of the SDK are those of the service
    (words, *_) = get_args(answers.EventKind)
    assert set(get_args(words)) == {kind.value for kind in OccurrenceKind}
    # Every member is named on the page, in camelCase
    page = read("docs/events.md")
    members = [field.alias or name for name, field in answers.Event.model_fields.items()]
    assert [name for name in members if f"`{name}`" not in page] == []


TRACES = "docs/traces.md"
ATTRIBUTE = re.compile(r"(?:punctual|http|server|error)\.[a-z_.]+[a-z_]")


def source(path: str) -> str:
    """A module's text."""
    return (ROOT / "scheduler_service" / path).read_text(encoding="utf-8")


def test_every_attribute_is_documented() -> None:
    """In the table of spans."""
    used = {name.strip('"') for name in re.findall(rf'"{ATTRIBUTE.pattern}"', source("telemetry/spans.py"))}
    table = read(TRACES).partition("\n| span |")[2].partition("\n\n")[0]
    assert used == set(ATTRIBUTE.findall(table))
    assert len(used) > 15
    # Every variable is documented, with the setting that it gives
    table = read(TRACES).partition("\n| variable |")[2].partition("\n\n")[0]
    known = {name for names in PLAIN.values() for name in names} | {ENDPOINT[1], PROTOCOL[1]}
    assert known <= set(re.findall(r"OTEL_[A-Z_]+[A-Z]", table))
    assert {f"traces.{name}" for name in PLAIN | OTLP} <= set(re.findall(r"traces\.\w+", table))


SECURITY = "docs/security.md"


def attacks() -> list[str]:
    """The lines of the lists below "What is defended"."""
    _, _, part = read(SECURITY).partition("\n## What is defended\n")
    return [line for line in part.partition("\n## ")[0].splitlines() if line.startswith("* ")]


@each_row("line", attacks(), ids=lambda line: str(line)[:40])
def test_every_attack_has_a_test(line: str) -> None:
    """Behind the attack and what happens, in the form that is checked."""
    _, *tests = line.split("<br>")
    named = [NAMED_TEST.fullmatch(one) for one in tests]
    assert named, line
    assert all(named), line
    assert [one[0] for one in named if one and one[2] not in functions_of(one[1])] == []


def test_every_page_of_attacks_is_named() -> None:
    """An attack that the tests carry out has a row."""
    named = {path for path, _ in NAMED_TEST.findall(read(SECURITY))}
    pages = {str(path.relative_to(ROOT)) for path in (ROOT / "tests/attack").glob("test_*.py")}
    assert pages - named == set()


def test_the_formats_are_those_of_the_code() -> None:
    """As the newest section that names them says. Whoever adds a migration says what an upgrade needs."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    said = {
        name: re.findall(pattern, text)[:1]
        for name, pattern in {
            "state": r"`state\.db` has format (\d+)",
            "history": r"history version (\d+)",
            "cluster": r"cluster are at migration (\d+)",
        }.items()
    }
    assert said == {
        "state": [str(len(MIGRATIONS))],
        "history": [history.MIGRATIONS.head],
        "cluster": [cluster.MIGRATIONS.head],
    }


DECISIONS = sorted((Path(__file__).parents[3] / "docs" / "decisions").glob("[0-9]*.md"))


def test_each_decision_is_in_the_index_once() -> None:
    """By the number of its file, which is that of its title and no other page's, and in the words of that."""
    index = (DECISIONS[0].parent / "README.md").read_text()
    titles = [re.match(r"# (\d+)\. (.+)", page.read_text()) for page in DECISIONS]
    titled = [(title[1], title[2], page.name) for page, title in zip(DECISIONS, titles, strict=True) if title]
    assert [int(number) for number, _, _ in titled] == [int(page.name[:4]) for page in DECISIONS]
    assert len({number for number, _, _ in titled}) == len(titled) > 0
    assert Counter(re.findall(r"^\| (\d+) \| \[(.+)\]\((.+)\) \|$", index, re.MULTILINE)) == Counter(titled)


# In the public index `punctual` alone is another program, and nobody holds the name of the distribution:
# it would install what whoever takes it puts there.
OFFERS = re.compile(
    r"\b(?:pipx?|uv|poetry)\b[^\n|`]*?\b(?:install|add)\b[^\n|`]*?[\s'\"]punctual(?:-scheduler)?(?![\w/.-])"
    r"|(?<![\w-])punctual(?:-scheduler)?\[(?!console\]\",)"
)

TAG = re.compile(rf"{DISTRIBUTION}:([\w.-]+)")


def texts() -> Iterator[tuple[str, str]]:
    """(path, text) of every file of the checkout that git knows, but for this one."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, timeout=60, check=False
    )
    names = listed.stdout.split("\0")[:-1] or [
        str(path.relative_to(ROOT)) for path in ROOT.rglob("*.*") if ".venv" not in path.parts
    ]
    for name in names:
        path = ROOT / name
        if path.is_file() and path != Path(__file__).resolve():
            yield name, path.read_text(encoding="utf-8", errors="replace")


def test_no_text_offers_the_program_of_somebody_else() -> None:
    """No message, page, script or file of a container installs it by a name (SPEC section 16)."""
    offers = [f"{name}: {found[0]}" for name, text in texts() for found in OFFERS.finditer(text)]
    assert offers == []


@each_row(
    "offer",
    ["pip install punctual", "pipx install 'punctual'", "uv pip install -U punctual", "punctual[redis]"],
)
def test_such_an_offer_is_found(offer: str) -> None:
    """With blanks, quotes or an extra behind it; a checkout is none."""
    assert OFFERS.search(offer)
    assert OFFERS.search(offer.replace("punctual", DISTRIBUTION))
    assert not OFFERS.search(how_to_install("service", "redis"))


def test_the_distribution_and_its_command_have_their_names() -> None:
    """As SPEC section 16 says; README says it where it says how to install."""
    project = tomllib.loads(read("pyproject.toml"))["project"]
    assert project["name"] == DISTRIBUTION
    assert list(project["scripts"]) == ["punctual"]
    section = read("README.md").partition("\n## Install\n")[2].partition("\n## ")[0]
    assert f"`{DISTRIBUTION}`" in section
    assert all(word in section for word in ("pipx install", "pip install", "docker run", "docker compose"))


def test_all_places_name_one_version() -> None:
    """The package, the chart, what is rendered from it, the tags of images, and the newest release."""
    releases = re.findall(r"^## (\S+) - \d{4}-\d\d-\d\d$", read("CHANGELOG.md"), re.MULTILINE)
    chart = read("deploy/helm/punctual/Chart.yaml")
    named = {
        tomllib.loads(read("pyproject.toml"))["project"]["version"],
        releases[0],
        *re.findall(r"^(?:version|appVersion): (\S+)", chart, re.MULTILINE),
        *re.findall(r'app\.kubernetes\.io/version: "(.+)"', read("deploy/kubernetes/punctual.yaml")),
        *(found[1] for _, text in texts() for found in TAG.finditer(text)),
    }
    assert named == {__version__}


PAGE = "CONTRIBUTING.md"
PATH = re.compile(r"`([a-z_]+(?:/[\w.]+)+)`")


def changes() -> dict[str, list[str]]:
    """change → the paths to open."""
    _, _, table = read(PAGE).partition("## Where do I change X")
    cells = [line.strip("| ").split(" | ", 1) for line in table.splitlines() if line.startswith("| ")]
    return {change: PATH.findall(where) for change, where in cells[2:]}


@each_row(("change", "paths"), changes().items())
def test_every_file_to_open_exists(change: str, paths: list[str]) -> None:
    """Below scheduler_service, or from the root of the checkout; each row names one at least."""
    assert paths, change
    missing = [
        path for path in paths if not any((ROOT / top / path).exists() for top in ("scheduler_service", "."))
    ]
    assert missing == []
    assert len(changes()) >= 25
