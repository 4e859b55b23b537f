"""A job is run from a form of its `paramsSchema`, in step with JSON, refused at the field, now or later."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.console.browsing import Console, evaluate, violations
from tests.console.service import ConsoleService
from tests.console.starter import Starter

LARGE = 12_345_678_901_234_567_890
CUSTOMER = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "maxLength": 9},
        "address": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
ORDER = {
    "type": "object",
    "required": ["order", "customer", "kind"],
    "properties": {
        "order": {"type": "integer", "minimum": 1},
        "kind": {"enum": ["new", "return"], "title": "What it is for"},
        "size": {"type": "integer", "default": 3},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "customer": {"$ref": "#/$defs/Customer"},
        "items": {"type": "array", "items": {"type": "object"}},
    },
    "$defs": {"Customer": CUSTOMER},
}

Open = Callable[..., tuple[Page, Locator]]


@pytest.fixture
def opened(console: Console, started: Starter) -> Iterator[Open]:
    """Creates the job `form` with a schema, and opens its dialog."""

    def open_form(schema: Any = None, **options: Any) -> tuple[Page, Locator]:
        members = {} if schema is None else {"paramsSchema": schema}
        started.job("form", {"url": "service://shop/ok"}, **members)
        page = console("#/jobs/form", **options)
        page.get_by_role("button", name="Run now").click()
        return page, page.get_by_role("dialog")

    return open_form


def text_of(dialog: Locator) -> Any:
    """The parameters as they are written."""
    return json.loads(dialog.get_by_label("Parameters (JSON)").input_value())


def sent(service: ConsoleService) -> Any:
    """The newest execution of the job, in full."""
    with service.caller() as client:
        newest = client.get("/jobs/form/executions").json()["data"]["items"][0]["executionId"]
        return client.get(f"/executions/{newest}").json()["data"]


def test_the_form_is_what_the_schema_says(opened: Open, service: ConsoleService, console: Console) -> None:
    """It begins with defaults and what is required; fields and text are one; numbers stay as they are."""
    page, dialog = opened(ORDER)
    beginning = {"order": None, "kind": None, "size": 3, "customer": {"name": None}}
    assert text_of(dialog) == beginning
    run = dialog.get_by_role("button", name="Run now")
    run.click()
    expect(dialog.get_by_text("This is required.")).to_have_count(3)
    expect(dialog.get_by_label("order")).to_be_focused()
    assert violations(page) == []
    dialog.get_by_label("order").fill(str(LARGE))
    dialog.get_by_label("What it is for").select_option("return")
    dialog.get_by_label("city").fill("Ulm")
    dialog.get_by_label("items").fill('[{"article": 1.50}]')
    assert text_of(dialog)["customer"] == {"name": None, "address": {"city": "Ulm"}}
    dialog.get_by_label("city").fill("")
    assert "address" not in text_of(dialog)["customer"]
    written = dialog.get_by_label("Parameters (JSON)").input_value()
    assert f'"order": {LARGE},' in written
    assert "1.50" in written
    dialog.get_by_label("Parameters (JSON)").fill(written.replace('"name": null', '"name": "far too long"'))
    expect(dialog.get_by_label("name")).to_have_value("far too long")
    console.expect("422")
    run.click()
    expect(dialog.locator(".field.wrong")).to_have_count(1)
    expect(dialog.locator(".field.wrong")).to_contain_text("too long")
    expect(dialog.get_by_label("name")).to_be_focused()
    dialog.get_by_label("name").fill("Ada")
    expect(dialog.locator(".field.wrong")).to_have_count(0)
    run.click()
    page.wait_for_url("**/#/executions/*")
    given = {"order": LARGE, "kind": "return", "size": 3, "customer": {"name": "Ada"}}
    assert sent(service)["params"] == given | {"items": [{"article": 1.5}]}


def test_without_a_schema_json_alone_is_run_later(opened: Open, service: ConsoleService) -> None:
    """What is no JSON is not sent; the moment is that of the browser's clock."""
    page, dialog = opened()
    expect(dialog.get_by_role("textbox")).to_have_count(2)  # the text, and the moment
    dialog.get_by_label("Parameters (JSON)").fill('{"size": 4,}')
    dialog.get_by_role("button", name="Run now").click()
    expect(dialog.get_by_role("alert")).to_contain_text("nothing was sent")
    dialog.get_by_label("Parameters (JSON)").fill('{"size": 4}')
    dialog.get_by_label("Later at").check()
    dialog.get_by_label("Moment").fill("2099-03-29T10:00")
    assert violations(page) == []
    dialog.get_by_role("button", name="Plan it").click()
    page.wait_for_url("**/#/executions/*")
    execution = sent(service)
    assert (execution["state"], execution["params"]) == ("scheduled", {"size": 4})
    assert execution["plannedAt"].startswith("2099-03-29T08:00:00")


@pytest.mark.long
def test_whoever_runs_it_elsewhere_comes_to_the_form(console: Console, started: Starter) -> None:
    """From the list of jobs and from the palette, where the job refuses to run without parameters."""
    started.job("needs", {"url": "service://shop/ok"}, paramsSchema={"required": ["order"]})
    console.expect("422")
    page = console("#/jobs?text=needs")
    page.get_by_role("button", name="Run now").click()
    dialog = page.get_by_role("dialog", name="Run needs")
    expect(dialog.get_by_label("order")).to_be_visible()
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    page.keyboard.press("Control+k")
    page.keyboard.type("needs")
    page.get_by_role("option", name="Run needs").click()
    expect(dialog.get_by_label("order")).to_be_visible()
    dialog.get_by_label("order").fill("7")
    dialog.get_by_role("button", name="Run now").click()
    page.wait_for_url("**/#/executions/*")


ODD = ["__proto__", "constructor", "a/b~c", "", "<img src=x onerror='window.hit=1'>\u202egnp.exe"]
SLOW = "^(a+)+$"


def hostile() -> dict[str, Any]:
    """A schema with odd names, patterns that take for ever, and itself in itself, of many members."""
    named: dict[str, Any] = {key: {"type": "string"} for key in ODD}
    slow = {"slow": {"type": "string", "pattern": SLOW, "description": ODD[-1]}, "itself": {"$ref": "#"}}
    elsewhere = {"loop": {"$ref": "#/$defs/loop"}}
    many = {f"member-{number}": True for number in range(1_900)}
    return {
        "type": "object",
        "properties": named | slow | elsewhere | many,
        "$defs": {"loop": {"$ref": "#/$defs/loop"}},
    }


def test_a_hostile_schema_is_text(opened: Open, console: Console) -> None:
    """Patterns are never run, odd names are names, and a hundred of its members are drawn."""
    page, dialog = opened(hostile(), width=390)
    expect(dialog.locator(".field")).to_have_count(100)
    expect(dialog.get_by_text("further members are not drawn")).to_be_visible()
    dialog.get_by_label("slow").fill("a" * 60 + "!")
    for name in ODD[:3]:
        dialog.get_by_label(name, exact=True).fill("odd")
    text = dialog.get_by_label("Parameters (JSON)").input_value()
    assert json.loads(text) == dict.fromkeys(ODD[:3], "odd") | {"slow": "a" * 60 + "!"}
    assert page.evaluate("window.hit === undefined && ({}).odd === undefined")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert "\u202e" not in dialog.inner_text()


def test_what_fields_cannot_say_is_json(any_page: Page) -> None:
    """Alternatives, deep objects, lists and lost references; what describes no object has no fields."""
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(60):
        deep = {"type": "object", "properties": {"in": deep}}
    schemas = {
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "both": {"allOf": [{"type": "integer", "minimum": 1}]},
        "list": {"type": "array"},
        "lost": {"$ref": "#/nothing/here"},
        "far": {"$ref": "https://elsewhere.example/schema"},
        "deep": deep,
    }
    load = "const job = await import(new URL('screens/job.en.js', core.ASSETS).href);"
    read = "const read = (one) => job.flatten(job.readFields(one).fields).map((field) => field.kind);"
    given = [*({"properties": {"a": one}} for one in schemas.values()), True, {"type": "string"}, 7, None]
    found = evaluate(any_page, f"{load} {read} return JSON.parse(argument).map(read);", json.dumps(given))
    kinds = [["json"], ["number"], ["json"], ["json"], ["json"], ["object"] * 4 + ["json"]]
    assert found == [*kinds, [], [], [], []]
