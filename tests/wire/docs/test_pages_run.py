"""Pages that a reader follows: all their commands run, and print what the page shows."""

import json
import re
from pathlib import Path

import httpx
import pytest
import yaml

from tests.otlp_collector import check_tree, collecting
from tests.rows import each_row
from tests.unit.docs.pages import ROOT, anchors, fences, read
from tests.wire.docs.executor import PLAIN, Shell, enter_here, executor, file_of
from tests.wire.processes.process import bare_environment, serve
from tests.wire.service import data_of, running

TUTORIAL = "docs/tutorial.md"
QUESTIONS = "docs/how-do-i.md"
MOVING = "docs/moving.md"
KEY_OF_ALL = "the key of an admin"
COMING_FROM = sorted(f"docs/coming-from/{path.name}" for path in ROOT.glob("docs/coming-from/*.md"))
FURTHER = (pytest.param(page, marks=pytest.mark.long) for page in (MOVING, QUESTIONS, *COMING_FROM))
PAGES = (TUTORIAL, *FURTHER)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_followed(page: str, tmp_path: Path) -> None:
    """From its first line to its last, in a folder with the target of the tutorial."""
    with executor(tmp_path) as reader:
        if page != TUTORIAL:
            reader.save("target.py", file_of(TUTORIAL, "target.py"))
        assert reader.follow(page, read(page)) > 5


def run_steps(job: str, folder: Path, **environ: str) -> None:
    """The commands of a job of the workflow that the page shows, but for what brings Punctual there."""
    workflow = yaml.safe_load(file_of(MOVING, "schedule.yml"))
    commands = [step["run"] for step in workflow["jobs"][job]["steps"] if "run" in step]
    with Shell(folder, bare_environment(**environ)) as shell, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, value in environ.items():
            patch.setenv(name, value)
        for command in (one for one in commands if not one.startswith("pip install")):
            is_plain = PLAIN.fullmatch(command)
            code, printed = enter_here(command) if is_plain else shell.enter(f"(set -e\n{command}\n)")
            assert code == 0, f"{command}\n{printed}"


def test_a_pull_request_shows_a_difference_and_main_applies_it(tmp_path: Path) -> None:
    """With the key of a viewer, and that of an editor; what the files no longer have is destroyed."""
    schedule = tmp_path / "schedule"
    schedule.mkdir()
    for name in ("office.yaml", "tidy.yaml"):
        (schedule / name).write_text(file_of(MOVING, name), encoding="utf-8")
    with serve(tmp_path / "data", PUNCTUAL_SERVER__KEY=KEY_OF_ALL) as process:
        url = process.wait_for_url()
        with httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {KEY_OF_ALL}"}, trust_env=False
        ) as admin:
            keys = {
                role: admin.post("/keys", json={"name": f"the {role}", "role": role}).json()["data"]["key"]
                for role in ("viewer", "editor")
            }
            summary = tmp_path / "summary"
            show = {"PUNCTUAL_URL": url, "PUNCTUAL_KEY": keys["viewer"], "GITHUB_STEP_SUMMARY": str(summary)}
            apply = {"PUNCTUAL_URL": url, "PUNCTUAL_KEY": keys["editor"]}

            def jobs() -> list[str]:
                return [one["jobId"] for one in admin.get("/jobs").json()["data"]["items"]]

            old = {"jobId": "shop.old", "jobName": "old", "labels": {"team": "shop"}}
            steps = [{"url": f"{url}/health/live"}]
            admin.post("/jobs/shop.old", json=old | {"request": steps, "timer": {"period": "external"}})
            run_steps("show", tmp_path, **show)
            shown = summary.read_text(encoding="utf-8").splitlines()
            assert {'+  "jobId": "shop.tidy",', '-  "jobId": "shop.old",'} <= set(shown)
            assert jobs() == ["shop.old"]
            run_steps("apply", tmp_path, **apply)
            assert jobs() == ["shop.report", "shop.tidy"]


@each_row("page", COMING_FROM)
def test_who_comes_from_elsewhere_finds_the_same_parts(page: str) -> None:
    """The words, the own job step by step, what is different, and what is not there."""
    headings = re.findall("^## (.*)$", read(page), re.MULTILINE)
    words, steps, different, missing = headings
    assert len(COMING_FROM) >= 7
    assert words == "The words"
    assert steps.endswith("step by step")
    assert (different, missing) == ("What is different", "What Punctual does not have")


def test_there_are_thirty_answers() -> None:
    """At least, each under a heading of its own, to which the list at the top leads."""
    top = read(QUESTIONS).partition("\n## ")[0]
    listed = re.findall(r"\]\(#([^)]*)\)", top)
    assert {"how-do-i-", *listed} == anchors(read(QUESTIONS))
    assert len(listed) >= 30


DEFINING_PAGES = ("docs/guide.md", "docs/queues.md", "docs/cli.md")


@each_row("page", DEFINING_PAGES)
async def test_the_definitions_of_a_page_can_be_posted(page: str) -> None:
    """With the id that each has, all of them beside each other, without a warning."""
    definitions = [json.loads(text) for text in fences(read(page), "json")]
    assert definitions
    async with running(egress={"allow": ["127.0.0.1"]}) as world:
        for definition in definitions:
            text = json.dumps(definition).replace("127.0.0.1:9000", f"127.0.0.1:{world.target.port}")
            answer = await world.client.post(f"/jobs/{definition['jobId']}", json=json.loads(text))
            assert data_of(answer, 201)["jobId"] == definition["jobId"]
            assert answer.json()["warnings"] == []


COMMAND = re.compile(r"\$ (OTEL_\w+)=http://localhost:4318 punctual serve\n")
JOB = {"jobName": "first", "creator": "1", "creatorName": "one", "timer": {"period": "external"}}


def test_a_service_that_is_started_as_the_page_says_exports_a_trace(tmp_path: Path) -> None:
    """To the collector that the variable names."""
    (variable,) = COMMAND.findall(read("docs/traces.md"))
    with collecting() as collector, serve(tmp_path / "data", **{variable: collector.url}) as process:
        url = process.wait_for_url()
        with httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
            request = [{"url": f"{url}/health/live", "method": "GET"}]
            created = client.post("/jobs/first", json=JOB | {"request": request})
            assert created.status_code == 201, created.text
            assert client.post("/jobs/first/trigger", json={}).status_code == 200
        collector.wait_for(lambda found: bool(found.named("execution")), "the execution")
        spans = [span for span in collector.spans.values() if span.attributes["punctual.job_id"] == "first"]
        assert process.stop() == 0
    check_tree((span.trace, span.span, span.parent) for span in spans)
    assert sorted(span.name for span in spans) == ["attempt", "execution", "step 0"]
    assert collector.headers[0]["path"] == "/v1/traces"
