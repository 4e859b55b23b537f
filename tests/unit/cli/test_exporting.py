"""Definitions that are exported, and applied somewhere else (SPEC section 16)."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler_service.cli.documents import read_documents
from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.jobs import diff_jobs, export_jobs
from scheduler_service.cli.output import Format, write_json, write_yaml
from scheduler_service.cli.service_connection import ApiConnection
from tests.unit.api.world import definition
from tests.unit.cli.moved import NINE, Moved, code_of, job

OFFICE = {"free": ["2026-01-05"], "timezone": "UTC"}


def export(moved: Moved, *job_ids: str, **options: Any) -> None:
    def act(connection: ApiConnection, files: list[Path]) -> None:
        export_jobs(connection, list(job_ids) or None, **options)

    moved.run(act)


@pytest.fixture
def moved() -> Moved:
    """Jobs of a team, one of nobody, one of a service, and one that an execution has started."""
    made = Moved()
    made.ask("PUT", "/calendars/office", OFFICE)
    made.ask("PUT", "/calendars/unused", OFFICE)
    made.ask("POST", "/jobs/b", job("b", timer=NINE))
    made.ask("POST", "/jobs/a", {"qos": 1, "jobId": "a", **job("a"), "jobDescription": "1e3"})
    made.ask("POST", "/jobs/other", definition())
    made.ask("POST", "/jobs/child", job("child", parentJob="a", parentJobExecution=1))
    made.ask("PUT", "/services/shop", {"graceSeconds": 5, "timers": [job("of-shop", timer=NINE)]})
    return made


def test_what_is_exported_is_applied_elsewhere(moved: Moved, capsys: pytest.CaptureFixture[str]) -> None:
    """To the same; jobs by label, the calendars that they name, a service where it is asked for."""
    export(moved, label=["team:shop"], service=["shop"], target=Path("all.yaml"))
    documents = [one.value for one in read_documents(Path("all.yaml"))]
    assert [(one.get("kind"), one.get("name") or one["jobId"]) for one in documents] == [
        ("Calendar", "office"),
        ("Service", "shop"),
        (None, "a"),
        (None, "b"),
    ]
    export(moved, label=["team:none"], target=Path("none.yaml"))
    assert "nothing to export: no job matches" in capsys.readouterr().err
    assert list(documents[2])[:3] == ["jobId", "jobName", "jobDescription"]
    assert code_of(lambda: moved.run(diff_jobs, "all.yaml", prune=True, label=["team:shop"])) == 0
    elsewhere = Moved()
    elsewhere.apply("all.yaml")
    assert elsewhere.jobs() == {name: moved.jobs()[name] for name in ("a", "b", "of-shop")}
    for path in ("/jobs/a", "/jobs/b"):
        assert elsewhere.ask("GET", path)["definition"] == moved.ask("GET", path)["definition"]
    export(elsewhere, label=["team:shop"], service=["shop"], target=Path("again.yaml"))
    assert Path("again.yaml").read_bytes() == Path("all.yaml").read_bytes()
    assert capsys.readouterr().err.endswith("again.yaml has 4 documents\n")


def test_a_job_that_is_named_twice_is_exported_once(moved: Moved) -> None:
    """Also where a service that is exported declares it: `apply` refuses a file that has it twice."""
    export(moved, "of-shop", "a", "a", service=["shop"], target=Path("all.yaml"))
    documents = [one.value for one in read_documents(Path("all.yaml"))]
    assert [one.get("name") or one["jobId"] for one in documents] == ["office", "shop", "a"]
    assert code_of(lambda: moved.run(diff_jobs, "all.yaml")) == 0


def test_calendars_behind_a_page_are_known(moved: Moved, capsys: pytest.CaptureFixture[str]) -> None:
    """They are exported, and applying them again is no change."""
    office = moved.table.rows["default", "office"]
    for number in range(500):
        name = f"a{number}"
        moved.table.rows["default", name] = replace(office, name=name)
    export(moved, "b", target=Path("b.yaml"))
    assert capsys.readouterr().err == "b.yaml has 2 documents\n"
    assert code_of(lambda: moved.run(diff_jobs, "b.yaml")) == 0
    moved.apply("b.yaml")


@pytest.mark.parametrize("form", [Format.YAML, Format.JSON])
def test_a_folder_has_a_file_for_each(moved: Moved, capsys: pytest.CaptureFixture[str], form: Format) -> None:
    """What did not change stays as it is, with its comments; what is gone is named."""
    export(moved, target=Path("all"), output=form)
    names = [f"a.{form}", f"b.{form}", f"calendars/office.{form}", f"other.{form}"]
    found = sorted(str(path.relative_to("all")) for path in Path("all").rglob("*") if path.is_file())
    assert found == names
    assert code_of(lambda: moved.run(diff_jobs, "all")) == 0
    Path(f"all/a.{form}").rename("all/mine.yaml")
    own = f"# why it is there\n{Path('all/mine.yaml').read_text(encoding='utf-8')}"
    Path("all/mine.yaml").write_text(own, encoding="utf-8")
    moved.ask("POST", "/jobs/b/update", job("b", jobName="new"))
    moved.ask("DELETE", "/jobs/other")
    capsys.readouterr()
    export(moved, target=Path("all"), output=form)
    assert Path("all/mine.yaml").read_text(encoding="utf-8") == own
    assert '"new"' in Path(f"all/b.{form}").read_text(encoding="utf-8").replace("jobName: new", '"new"')
    said = capsys.readouterr().err
    assert f"warning: all/other.{form} holds other, which is not in this export; remove it if it is" in said
    assert f"all/calendars/office.{form} holds office, which is not in this export" in said
    assert said.endswith("all has 2 documents: 1 written, 1 as they were\n")


def test_a_file_with_several_documents_is_not_written_over(moved: Moved) -> None:
    """Nor is a second file made of what it holds: then both would be refused."""
    Path("all").mkdir()
    export(moved, "a", "b", target=Path("all/team.yaml"))
    export(moved, "a", "b", target=Path("all"))
    assert [path.name for path in Path("all").iterdir()] == ["team.yaml"]
    moved.ask("POST", "/jobs/a/update", job("a", jobName="new"))
    with pytest.raises(CommandError, match=r"team\.yaml holds a and others, and is not written anew"):
        export(moved, "a", "b", target=Path("all"))


def test_names_that_differ_by_capital_letters_alone_get_no_files(moved: Moved) -> None:
    """On some file systems the second would be written over the first; nothing of either is written."""
    moved.ask("POST", "/jobs/A", job("A"))
    with pytest.raises(CommandError, match="export to one file"):
        export(moved, label=["team:shop"], target=Path("all"))
    assert not [path for path in Path("all").rglob("*") if path.suffix]


def test_it_is_printed_where_no_file_is_named(moved: Moved, capsys: pytest.CaptureFixture[str]) -> None:
    """As YAML or JSON, each of which `apply -f -` reads; a table is neither."""
    export(moved, "a", "b")
    printed = yaml.safe_load_all(capsys.readouterr().out)
    assert [one.get("jobId") for one in printed] == [None, "a", "b"]
    export(moved, "b", output=Format.JSON)
    assert [one.get("kind") for one in json.loads(capsys.readouterr().out)] == ["Calendar", None]
    for options in ({"output": Format.TABLE}, {"label": ["team:shop"]}):
        with pytest.raises(CommandError) as caught:
            export(moved, "a", **options)
        assert caught.value.code is Exit.USAGE


def test_values_that_are_masked_or_secret_are_named(moved: Moved, capsys: pytest.CaptureFixture[str]) -> None:
    """A masked value is not passed off as a real one, and a secret does not go into a file without a word."""
    headers = {"Authorization": "Bearer abc", "X-Api-Key": "${secrets.K}", "X-Other": "***"}
    step = {"url": "http://target.test/run", "headers": headers, "body": {"a": ["***"]}}
    moved.ask("POST", "/jobs/c", job("c", request=[step], jobDescription="*** is no value"))
    capsys.readouterr()
    export(moved, "c")
    assert capsys.readouterr().err.splitlines() == [
        f"warning: c: {pointer} {text}"
        for pointer, text in (
            (
                "/request/0/headers/Authorization",
                "is a credential, which stands in the file as it is: write it as ${secrets.NAME}",
            ),
            ("/request/0/headers/X-Other", MASKED),
            ("/request/0/body/a/0", MASKED),
        )
    ]


MASKED = "has ***, as masked values are shown; the job sends it so: write the value as ${secrets.NAME}"
LIKE_OTHERS = [
    "1e3",
    "-5E-2",
    "010",
    "0x1F",
    "1_000",
    "yes",
    "null",
    "~",
    "2026-01-01",
    "#",
    "%a",
    "---",
    "*",
    "&",
    "?",
    "-",
    "=",
    "<<",
    ".inf",
    "1:30",
]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    [*LIKE_OTHERS, "", "a: b", "x\n\n y ", " x", "x\n"]
)
NUMBERS = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=3))
def test_what_is_written_is_read_as_the_same(value: dict[str, Any]) -> None:
    """Texts that look like numbers, dates and words; each form, by the reader of `apply`."""
    for name, text in (("x.yaml", write_yaml(value)), ("x.json", write_json(value))):
        Path(name).write_text(text, encoding="utf-8", newline="")
        (document,) = read_documents(Path(name))
        assert json.dumps(document.value) == json.dumps(value), text
