"""The editor: one definition as a form and as JSON, checked, tried, kept, saved beside others' changes."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.checkout import ROOT
from tests.console.browsing import Console, evaluate, violations
from tests.console.conftest import KEY
from tests.console.service import ConsoleService
from tests.console.starter import Starter
from tests.rows import each_row
from tests.wire.target import Reply

LARGE = "12345678901234567890"
"""A number that no floating point holds."""
SECONDS = 60


@pytest.fixture
def job(service: ConsoleService, console: Console) -> Iterator[Callable[..., str]]:
    """Creates a job for one test; it and what the test saves beside it are destroyed after its pages."""
    with service.caller() as client:
        made: list[str] = []

        def make(job_id: str, **members: Any) -> str:
            made.append(job_id)
            posted = {
                "jobName": "Nightly report",
                "timer": {"period": "0 30 2 * * ?", "timezone": "Europe/Berlin"},
                "request": [{"method": "GET", "url": "service://shop/ok"}],
                **members,
            }
            answer = client.post(f"/jobs/{job_id}", json=posted)
            assert answer.is_success, answer.text
            return job_id

        yield make
        console.close()
        for job_id in made:
            client.delete(f"/jobs/{job_id}")


@contextmanager
def saved(service: ConsoleService, job_id: str) -> Iterator[dict[str, Any]]:
    """The job that the page has saved; it is destroyed afterwards."""
    with service.caller() as client:
        yield client.get(f"/jobs/{job_id}").json()["data"]
        client.delete(f"/jobs/{job_id}")


def text_of(page: Page) -> Any:
    return page.get_by_label("Definition as JSON")


def test_a_first_job_takes_three_clicks_and_a_form(console: Console, service: ConsoleService) -> None:
    """New job, what and where to, create: it is there, with the id that follows its name."""
    page = console("#/jobs")
    page.get_by_role("link", name="New job").first.click()
    page.get_by_label("Name", exact=True).fill("My first job")
    page.get_by_label("Address").fill("service://shop/ok")
    page.get_by_role("button", name="Create job").click()
    expect(page).to_have_url(f"{service.url}/console/#/jobs/my-first-job")
    page.close()
    with saved(service, "my-first-job") as created:
        assert created["definition"]["request"][0]["url"] == "service://shop/ok"


def test_form_and_text_are_one_document(console: Console, job: Callable[..., str]) -> None:
    """Each follows the other; the form keeps what it does not show, and every change can be taken back."""
    body = {"size": 7, "further": {"kept": True}}
    page = console(f"#/jobs/{job('one-document', request=[{'url': 'service://shop/ok', 'body': body}])}/edit")
    text, name = text_of(page), page.get_by_label("Name", exact=True)
    written = text.input_value().replace('"size": 7', f'"size": {LARGE}')
    text.fill(written)
    name.fill("Another name")
    expect(text).to_have_value(written.replace("Nightly report", "Another name"))
    name.press("Control+z")
    expect(name).to_have_value("Nightly report")
    expect(text).to_have_value(written)
    text.fill(written.replace("Nightly report", "From the text"))
    expect(name).to_have_value("From the text")
    text.fill(written[:-1])
    expect(page.get_by_role("button", name="The text ends too early")).to_be_visible()
    expect(name).to_be_disabled()


def test_errors_stand_at_their_fields_and_lines(console: Console, job: Callable[..., str]) -> None:
    """What the service would refuse: beside the field, in the list, which leads to the field."""
    page = console(f"#/jobs/{job('wrong-field')}/edit")
    page.get_by_label("Cron expression").fill("0 61 2 * * ?")
    problem = page.get_by_role("list", name="What is wrong").get_by_role("button")
    expect(problem).to_contain_text("/timer/period")
    expect(page.get_by_label("Cron expression")).to_have_attribute("aria-invalid", "true")
    problem.click()
    expect(page.get_by_label("Cron expression")).to_be_focused()


def test_the_timer_is_told_before_it_is_saved(console: Console, job: Callable[..., str]) -> None:
    """In words, with its next firings; the day of a clock change is marked."""
    page = console(f"#/jobs/{job('told-timer')}/edit")
    page.get_by_label("Cron expression").fill("0 30 2 28 MAR ? 2027")
    expect(page.get_by_text("clocks go forward by 1 h this day")).to_be_visible()
    expect(page.get_by_role("cell", name="Sun, 28 Mar 2027, 03:00:00")).to_be_visible()


@pytest.mark.long
def test_retries_are_drawn(console: Console, job: Callable[..., str]) -> None:
    """The plan of each policy, as the service makes it, with a table for those who do not see it."""
    retry = [{"errorEquals": "5xx", "intervalSeconds": 10, "maxAttempts": 3}]
    page = console(f"#/jobs/{job('drawn-retries', retry=retry)}/edit")
    page.get_by_role("heading", name="Retry", exact=True).click()
    expect(page.get_by_role("img", name="3 retries, given up after 1 min 10 s")).to_be_visible()
    page.get_by_label("Retries", exact=True).fill("1")
    expect(page.get_by_role("img", name="1 retry, given up after 10 s")).to_be_visible()


def test_templates_are_tried_on_real_answers(
    console: Console, service: ConsoleService, job: Callable[..., str]
) -> None:
    """Those of the last execution: the value stands below the field."""
    service.target.always("/stock", Reply(200, {"items": [{"id": 41}]}))
    steps = [{"url": "service://shop/stock", "respEnvName": "stock"}, {"url": "service://shop/ok"}]
    job_id = job("tried-templates", request=steps)
    with service.caller() as client:
        client.post(f"/jobs/{job_id}/trigger", json={})
        wait_for_end(service, job_id)
    page = console(f"#/jobs/{job_id}/edit")
    page.get_by_label("Address").nth(1).fill("service://shop/item/${$.stock.items[0].id}")
    expect(page.get_by_text("service://shop/item/41")).to_be_visible()
    page.get_by_label("Address").nth(1).fill("service://shop/item/${$.stock.absent}")
    expect(page.get_by_text("finds nothing").first).to_be_visible()
    page.get_by_label("Success when").first.fill("@.items[0].id == '41'")
    expect(page.get_by_text("is a number here and is compared with a text")).to_be_visible()


def wait_for_end(service: ConsoleService, job_id: str) -> None:
    """Returns when the first execution of the job has ended."""
    with service.caller() as client, client.stream("GET", "/events", timeout=SECONDS) as events:
        if client.get(f"/jobs/{job_id}/executions").json()["data"]["items"][0]["endedAt"] is None:
            next(line for line in events.iter_lines() if job_id in line and "final" in line)


def test_a_definition_is_tried_without_saving_it(
    console: Console, service: ConsoleService, job: Callable[..., str]
) -> None:
    """Its steps are shown; no list has the job that the service makes for it."""
    job_id = job("tried-once")
    page = console(f"#/jobs/{job_id}/edit")
    page.get_by_label("Address").fill("service://shop/order?number=${$.number}")
    page.get_by_role("button", name="Try once").click()
    page.get_by_label("Parameters of the trigger").fill('{"number": 4}')
    page.get_by_role("dialog").get_by_role("button", name="Try once").click()
    trial = page.get_by_role("region", name="Trial")
    expect(trial.get_by_text("succeeded")).to_be_visible()
    expect(
        trial.get_by_text("service://shop/order?number=4").or_(trial.get_by_text("/order?number=4"))
    ).to_be_visible()
    trial.get_by_role("button", name="Close").click()
    expect(trial).not_to_be_visible()
    with service.caller() as client:
        hidden = client.get("/jobs", params={"system": True, "parentJob": "punctual:trials"}).json()["data"]
        assert len(hidden["items"]) == 1
        listed = client.get("/jobs", params={"parentJob": "punctual:trials"}).json()["data"]
        assert listed["items"] == []
        assert client.get(f"/jobs/{job_id}").json()["data"]["revision"] == 1


def test_a_draft_outlives_the_page(console: Console, job: Callable[..., str]) -> None:
    """It is back after a reload, and can be thrown away."""
    page = console(f"#/jobs/{job('kept-draft')}/edit")
    page.get_by_label("Name", exact=True).fill("Half written")
    page.reload()
    console.settle(page)
    expect(page.get_by_text("Your unsaved draft is back")).to_be_visible()
    expect(page.get_by_label("Name", exact=True)).to_have_value("Half written")
    page.get_by_role("button", name="Back to what is saved").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("Nightly report")


def test_whoever_leaves_is_asked(console: Console, job: Callable[..., str]) -> None:
    """Only while something is not saved."""
    page = console(f"#/jobs/{job('asked-leaver')}/edit")
    page.get_by_label("Name", exact=True).fill("Half written")
    page.get_by_role("link", name="Jobs", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("Half written")
    page.get_by_role("link", name="Jobs", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Leave").click()
    expect(page.get_by_role("heading", name="Jobs", exact=False).first).to_be_visible()


@pytest.mark.long
def test_changes_of_two_are_combined(
    console: Console, service: ConsoleService, job: Callable[..., str]
) -> None:
    """Different members: both stay, exactly as they were written."""
    job_id = job("two-editors")
    page = console(f"#/jobs/{job_id}/edit")
    page.get_by_label("Name", exact=True).fill("Mine")
    save_beside(service, job_id, paramsSchema={"maximum": int(LARGE)})
    page.get_by_role("button", name="Combine both").click()
    page.keyboard.press("Control+s")
    expect(page).to_have_url(f"{service.url}/console/#/jobs/{job_id}")
    page.close()
    with saved(service, job_id) as now:
        assert now["definition"]["jobName"] == "Mine"
        assert now["definition"]["paramsSchema"] == {"maximum": int(LARGE)}


def test_nothing_is_overwritten_unseen(
    console: Console, service: ConsoleService, job: Callable[..., str]
) -> None:
    """The same member: who saves learns of the other version, and chooses."""
    job_id = job("two-names")
    page = console(f"#/jobs/{job_id}/edit")
    page.get_by_label("Name", exact=True).fill("Mine")
    save_beside(service, job_id, jobName="Theirs")
    conflict = page.get_by_role("region", name="Somebody else has saved this job meanwhile")
    expect(conflict.get_by_text('"jobName": "Theirs"')).to_be_visible()
    expect(page.get_by_role("button", name="Combine both")).to_have_count(0)
    page.get_by_role("button", name="Take theirs").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("Theirs")
    page.keyboard.press("Control+z")
    expect(page.get_by_label("Name", exact=True)).to_have_value("Mine")


def save_beside(service: ConsoleService, job_id: str, **members: Any) -> None:
    """Another person changes members of the job."""
    with service.caller() as client:
        definition = client.get(f"/jobs/{job_id}").json()["data"]["definition"]
        answer = client.post(f"/jobs/{job_id}/update", json=definition | members)
        assert answer.is_success, answer.text


def test_copies_run(console: Console, service: ConsoleService) -> None:
    """As they stand in the dialog: curl and the client create the job, the declaration declares it."""
    page = console("#/new?example=chain")
    page.get_by_label("Name", exact=True).fill("It's \u201ccopied\u201d")
    for step in (0, 1):
        page.get_by_label("Address").nth(step).fill("service://shop/ok")
    shown = dict.fromkeys(("curl", "Python: client", "Python: @job"), "")
    page.get_by_role("button", name="Copy as").click()
    for form in shown:
        page.get_by_role("button", name=form).click()
        shown[form] = page.get_by_label(form, exact=True).inner_text()
    run(["sh", "-c", shown["curl"]])
    page.close()
    with saved(service, "it-s-copied") as by_curl:
        assert by_curl["definition"]["jobName"] == "It's \u201ccopied\u201d"
    run([sys.executable, "-c", shown["Python: client"]])
    with saved(service, "it-s-copied") as by_client:
        assert by_client["definition"]["request"] == by_curl["definition"]["request"]
    told = run(
        [
            sys.executable,
            "-c",
            f"{shown['Python: @job']}\nimport json\nprint(json.dumps(service.definitions()))",
        ]
    )
    (declared,) = json.loads(told)
    assert declared["timer"]["period"] == by_curl["definition"]["timer"]["period"]
    assert declared["retry"][0]["errorEquals"] == "5xx"


def run(command: list[str]) -> str:
    """What the program prints; it must end well."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=ROOT, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.long
def test_everybody_can_use_it(console: Console, job: Callable[..., str]) -> None:
    """No finding of axe with all sections open, and nothing wider than the window."""
    retry = [{"errorEquals": "5xx", "jitter": "full"}]
    notification = [{"url": "service://shop/told", "stateEquals": "finalFailed"}]
    job_id = job("for-everybody", retry=retry, notification=notification, labels={"team": "ops"})
    page = console(f"#/jobs/{job_id}/edit", dark=True, width=390)
    for section in ("Retry", "Overlap and misfire", "Asynchronous work", "Notify", "Options"):
        page.get_by_role("heading", name=section, exact=True).click()
    console.settle(page)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


STEP = {"url": "service://shop/ok"}


@pytest.mark.long
def test_a_taken_id_is_told_at_its_field(console: Console, started: Starter) -> None:
    """It is marked, in the list of what is wrong, and nothing is sent; another id is free again."""
    started.job("taken-id", STEP)
    page = console("#/new")
    page.get_by_label("Name", exact=True).fill("Taken id")
    page.get_by_label("Address").fill("service://shop/ok")
    field = page.get_by_label("Id", exact=True)
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("list", name="What is wrong")).to_contain_text(
        "There is a job of this id already"
    )
    expect(page.get_by_text("The service would take this definition")).to_have_count(0)
    page.get_by_role("button", name="Create job").click()
    expect(field).to_be_focused()
    expect(page.locator(".notice")).to_have_count(0)
    field.fill("taken-id-no-more")
    expect(page.get_by_text("The service would take this definition")).to_be_visible()


TEXT = '{\n  "a": 12345678901234567890,\n  "request": [{"url": "x"}, {"url": "y"}]\n}'


def run_modules(page: Page, body: str, argument: Any = None) -> Any:
    """What `body` returns; `editor` has what the editor's modules export."""
    load = "const own = await import(new URL('screens/editor.en.js', core.ASSETS).href);"
    load += "const editor = { ...core, ...own };"
    return evaluate(page, f"{load} {body}", argument)


def test_what_is_no_json_is_found_where_it_begins(any_page: Page) -> None:
    """The first thing that is wrong, and its place."""
    texts = ['{"a":1,}', '{"a":}', "{a:1}", "[1 2]", '{"a":1,"a":2}', "", '{"a":"\n"}', "{} x", "[1,", "01"]
    read = "try { editor.readTree(text); return null; } catch (fault) { return [fault.code, fault.offset]; }"
    assert run_modules(any_page, f"return argument.map((text) => {{ {read} }});", texts) == [
        ["trailing", 6],
        ["value", 5],
        ["key", 1],
        ["comma", 3],
        ["twice", 7],
        ["end", 0],
        ["string", 5],
        ["after", 3],
        ["end", 3],
        ["after", 1],
    ]


@each_row(
    ("edit", "expected"),
    [
        ('editor.withValue(text, ["b"], 1)', TEXT.replace("\n}", ',\n  "b": 1\n}')),
        ('editor.withValue(text, ["request", 1, "n"], [1])', TEXT.replace('"y"}', '"y", "n": [1]}')),
        ('editor.withValue(text, ["a"], undefined)', TEXT.replace('"a": 12345678901234567890,\n  ', "")),
        ('editor.withItem(text, ["request"], 1, 5)', TEXT.replace('}, {"url": "y"', '}, 5, {"url": "y"')),
        (
            'editor.withSwapped(text, ["request"], 0, 1)',
            TEXT.replace("x", "z").replace("y", "x").replace("z", "y"),
        ),
        (
            'editor.without(editor.without(text, ["request", 0]), ["request", 0])',
            TEXT.split("[")[0] + "[]\n}",
        ),
        ('editor.partOf(text, ["a"])', "12345678901234567890"),
    ],
)
def test_an_edit_leaves_the_rest_of_the_text_alone(any_page: Page, edit: str, expected: str) -> None:
    """Order, spacing and numbers stay as they are written."""
    assert run_modules(any_page, f"const text = argument; return {edit};", TEXT) == expected


def test_changes_of_two_meet_only_in_one_member(any_page: Page) -> None:
    """Different members go together; the same one, or one that was removed, does not."""
    merge = "return argument.map(([base, mine, theirs]) => editor.mergeValues(base, mine, theirs));"
    base = {"a": 1, "b": {"c": 1, "d": 1}}
    assert run_modules(
        any_page,
        merge,
        [
            [base, {**base, "a": 2}, {**base, "b": {"c": 1, "d": 2}}],
            [base, {**base, "a": 2}, {**base, "a": 3}],
            [base, {"a": 1}, {**base, "b": {"c": 2, "d": 1}}],
            [base, {**base, "a": 2}, {"b": base["b"]}],
            [base, {**base, "e": 1}, {**base, "f": 1}],
        ],
    ) == [
        {"conflicts": [], "taken": [["b", "d"]]},
        {"conflicts": ["/a"], "taken": []},
        {"conflicts": ["/b"], "taken": []},
        {"conflicts": ["/a"], "taken": []},
        {"conflicts": [], "taken": [["f"]]},
    ]


def until_drafts(page: Page, count: int) -> None:
    """Returns once this browser keeps so many; the page's policy forbids `wait_for_function`."""
    page.evaluate(
        """(count) => new Promise((done) => {
            const isDraft = (key) => key.startsWith("punctual.draft.");
            const kept = () => Object.keys(localStorage).filter(isDraft).length;
            const look = () => (kept() === count ? done() : requestAnimationFrame(look));
            look();
        })""",
        count,
    )


def test_drafts_go_with_the_session(guarded_console: Console) -> None:
    """Whoever signs out is asked, and no draft stays in the browser."""
    guarded_console.expect("401")
    page = guarded_console("#/new")
    page.get_by_label("Key", exact=False).first.fill(KEY)
    page.locator("form button").first.click()
    page.get_by_label("Name", exact=True).fill("Not for the next one")
    until_drafts(page, 1)
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("dialog").get_by_role("button", name="Sign out").click()
    page.locator("form input[type=password]").wait_for()
    until_drafts(page, 0)
