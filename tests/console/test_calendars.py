"""Calendars in a browser: made, read, imported, changed with what that moves in sight (SPEC section 3)."""

import re
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.console.browsing import ZONE, Console, evaluate, violations
from tests.console.service import ConsoleService
from tests.console.starter import Starter

FILE = """BEGIN:VCALENDAR
BEGIN:VEVENT
DTSTART;VALUE=DATE:20991001
DTEND;VALUE=DATE:20991003
SUMMARY:National Day
END:VEVENT
END:VCALENDAR
"""


@pytest.fixture
def client(service: ConsoleService, console: Console) -> Iterator[httpx.Client]:
    """A program that uses the API; the calendar `plant` goes at the end, after the jobs."""
    with service.caller() as client:
        yield client
        console.close()
        client.delete("/calendars/plant")


def put(client: httpx.Client, **members: Any) -> None:
    """Stores the calendar `plant`."""
    client.put("/calendars/plant", json=members).raise_for_status()


def stored(client: httpx.Client, year: int = 2099) -> Any:
    """The calendar `plant` as it is stored, with the days of a year."""
    return client.get("/calendars/plant", params={"year": year}).json()["data"]


def read_days(page: Page, *keys: str) -> str:
    """What the year says after these keys."""
    for key in keys:
        page.get_by_role("slider").press(key)
    return page.get_by_role("slider").get_attribute("aria-valuetext") or ""


def test_a_calendar_is_made_with_keys_a_list_and_a_file(
    console: Console, client: httpx.Client, tmp_path: Path
) -> None:
    """The year follows what is typed, read, and pressed in it; what is refused stands at its field."""
    page = console("#/calendars")
    page.get_by_role("link", name="New calendar").click()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("A calendar needs a name.")).to_be_visible()
    page.get_by_label("Name").fill("office")
    expect(page.get_by_text("There is a calendar with this name.")).to_be_visible()
    page.get_by_label("Name").fill("plant")
    page.get_by_label("Sat").check()
    page.get_by_label("Free days").fill("2099-12-24\n2099-13-01")
    expect(page.get_by_text("Line 2: ")).to_be_visible()
    page.get_by_label("Free days").fill("2099-12-24")
    page.get_by_role("button", name="Import days").click()
    dialog = page.get_by_role("dialog")
    (file := tmp_path / "days.ics").write_text(FILE)
    dialog.get_by_label("iCalendar file").set_input_files(file)
    dialog.get_by_role("button", name="Read it").click()
    expect(dialog.get_by_role("listitem")).to_have_text(re.compile("1 Oct 2099 – .*2 Oct 2099.*free day"))
    assert violations(page) == []
    dialog.get_by_role("button", name="Add 1 entry").click()
    page.get_by_role("button", name="Import days").click()
    dialog.get_by_label("Or a list").fill("2099-10-04 make-up\n2099-10-x")
    dialog.get_by_label("What these days are").select_option("work")
    console.expect("422")
    dialog.get_by_role("button", name="Read it").click()
    expect(dialog.get_by_role("alert")).to_contain_text("2099-10-x")
    dialog.get_by_label("Or a list").fill("2099-10-04 make-up")
    dialog.get_by_role("button", name="Read it").click()
    dialog.get_by_role("button", name="Add 1 entry").click()
    expect(page.get_by_label("Made-up days")).to_have_value("2099-10-04")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**/#/calendars/plant")
    assert stored(client)["free"] == ["2099-10-01/2099-10-02", "2099-12-24"]
    assert (stored(client)["work"], stored(client)["week"]) == (["2099-10-04"], [1, 2, 3, 4, 5, 6])


def test_a_year_is_read_and_changed_day_by_day(console: Console, client: httpx.Client) -> None:
    """By keys and as a table; Enter makes a day free, or worked, and takes that back."""
    put(client, free=["2099-01-05/2099-01-07"], work=["2099-01-03"])
    page = console("#/calendars/plant?year=2099")
    assert read_days(page, "Home", "Home") == "Thu, 1 Jan 2099: working day"
    assert read_days(page, "ArrowRight", "ArrowRight") == "Sat, 3 Jan 2099: made-up day"
    assert read_days(page, "ArrowRight") == "Sun, 4 Jan 2099: free by the week"
    assert read_days(page, "Enter", "ArrowRight") == "Mon, 5 Jan 2099: free day"
    page.get_by_text("As a table").click()
    table = page.get_by_role("table", name="Days of 2099")
    expect(table.get_by_role("row")).to_have_count(3)
    expect(table.get_by_role("row").last).to_have_text(
        re.compile("Mon, 5 Jan 2099 – Wed, 7 Jan 2099free day3")
    )
    page.get_by_role("link", name="Edit").click()
    assert read_days(page, "Home", "Home", *["ArrowRight"] * 5, "Enter") != ""
    expect(page.get_by_label("Free days")).to_have_value("2099-01-05\n2099-01-07")
    read_days(page, "ArrowLeft", "ArrowLeft", "Enter")
    expect(page.get_by_label("Made-up days")).to_have_value("2099-01-03/2099-01-04")
    expect(page.get_by_role("slider")).to_have_attribute("aria-valuetext", "Sun, 4 Jan 2099: made-up day")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**/#/calendars/plant")
    assert stored(client)["work"] == ["2099-01-03/2099-01-04"]


def test_what_a_change_moves_is_seen_before_it_is_saved(
    console: Console, client: httpx.Client, started: Starter
) -> None:
    """Which jobs, from which moment; another's change is not overwritten unasked; a used one stays."""
    put(client)
    step = {"url": "service://shop/ok"}
    monday = date.today() + timedelta(14 - date.today().weekday())
    saturday = monday - timedelta(2)
    timer = {"period": "0 0 9 * * ?", "timezone": ZONE, "calendar": "plant"}
    started.job("follows", step, timer=timer)
    page = console("#/calendars/plant?edit=true")
    changes = page.get_by_role("listitem").filter(has=page.get_by_role("link", name="follows"))
    expect(page.get_by_text("None of 1 jobs would fire at other moments.")).to_be_visible()
    page.get_by_label("Free days").fill(str(monday))
    page.get_by_label("Made-up days").fill(str(saturday))
    expect(page.get_by_text("1 of 1 jobs would fire at other moments.")).to_be_visible()
    moments = changes.get_by_role("listitem")
    expect(moments.first).to_have_text(f"{saturday} 09:00:00new")
    expect(moments.nth(1)).to_have_text(f"{monday} 09:00:00no longer")
    assert violations(page) == []
    put(client, free=["2099-02-02"])
    console.expect("412", "409")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    meanwhile = page.get_by_role("dialog", name="plant was changed meanwhile")
    assert stored(client)["free"] == ["2099-02-02"]
    meanwhile.get_by_role("button", name="Replace it").click()
    page.wait_for_url("**/#/calendars/plant")
    assert stored(client)["free"] == [str(monday)]
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("dialog", name="plant is in use")).to_contain_text("follows")
    page.keyboard.press("Escape")
    client.delete("/jobs/follows").raise_for_status()
    page.reload()
    console.settle(page)
    console.expect("404")  # what the page asks for while it is deleted
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.wait_for_url("**/#/calendars")
    assert client.get("/calendars/plant").status_code == 404


@pytest.mark.long
def test_what_is_not_saved_outlives_the_screen(console: Console, client: httpx.Client) -> None:
    """Whoever leaves by a link is asked; by another way it is there again, until it is given up."""
    put(client, free=["2099-01-05"])
    page = console("#/calendars/plant?edit=true")
    page.get_by_label("Free days").fill("2099-01-06")
    page.evaluate("location.hash = '#/jobs'")
    console.settle(page)
    page.go_back()
    expect(page.get_by_label("Free days")).to_have_value("2099-01-06")
    page.get_by_role("button", name="Start again").click()
    expect(page.get_by_label("Free days")).to_have_value("2099-01-05")
    page.get_by_label("Free days").fill("2099-01-07")
    page.get_by_role("link", name="Jobs").click()
    page.get_by_role("dialog").get_by_role("button", name="Leave").click()
    page.wait_for_url("**/#/jobs")
    page.go_back()
    expect(page.get_by_label("Free days")).to_have_value("2099-01-05")


def test_days_and_plans_are_compared(any_page: Page) -> None:
    """Spans are taken apart and joined; moments are told as far as both plans are known."""
    load = "const own = await import(new URL('screens/calendars.en.js', core.ASSETS).href);"
    edits = [
        ("2099-01-05/2099-01-07", "2099-01-06", False, "2099-01-05\n2099-01-07"),
        ("2099-01-05\nno date", "2099-01-06", True, "2099-01-05/2099-01-06\nno date"),
        ("2099-02-30\n", "2099-03-01", True, "2099-03-01\n2099-02-30"),
    ]
    told = evaluate(
        any_page, f"{load} return argument.map((one) => own.withDay(...one));", [one[:3] for one in edits]
    )
    assert told == [one[3] for one in edits]
    plans = {"before": ["1", "2", "3", "4", "5"], "after": ["2", "3", "4", "5", "6"]}
    assert evaluate(any_page, f"{load} return own.momentsOf(argument);", plans) == [
        ["1", "gone"], ["2", "stays"], ["3", "stays"], ["4", "stays"], ["5", "stays"],
    ]  # fmt: skip
    ended = {"before": ["1", "2"], "after": ["1", "3"]}
    assert evaluate(any_page, f"{load} return own.momentsOf(argument);", ended) == [
        ["1", "stays"],
        ["2", "gone"],
        ["3", "added"],
    ]
    week = "return [[1, 2, 3, 4, 5], [1, 2, 4, 6], [], [7]].map(own.weekWords);"
    assert evaluate(any_page, f"{load} {week}") == ["Mon – Fri", "Mon, Tue, Thu, Sat", "–", "Sun"]


@pytest.mark.long
def test_a_timer_gets_a_calendar_in_the_editor(
    console: Console, client: httpx.Client, started: Starter
) -> None:
    """Its firings follow what is chosen; a name alone is written as a text, and all else is kept."""
    put(client, week=[1])
    started.job(
        "weekly",
        {"url": "service://shop/ok"},
        timer={"period": "0 0 9 * * ?", "endAt": "2199-01-01 00:00:00"},
    )
    page = console("#/jobs/weekly/edit?view=both")
    fields = page.get_by_role("group").filter(has=page.get_by_role("heading", name="When"))
    firings = fields.get_by_role("table").get_by_role("row")
    fields.get_by_label("Calendar").select_option("plant")
    expect(firings.filter(has_text="Mon")).to_have_count(6)
    text = page.get_by_label("Definition as JSON")
    expect(text).to_have_value(re.compile('"endAt": "2199-01-01 00:00:00",\\s+"calendar": "plant"'))
    fields.get_by_label("On its").select_option("free")
    expect(firings.filter(has_text="Mon")).to_have_count(0)
    fields.get_by_label("On other days").select_option("next")
    expect(text).to_have_value(
        re.compile('"calendar": {\\s+"name": "plant",\\s+"days": "free",\\s+"otherwise": "next"')
    )
    expect(page.locator(".firings.busy")).to_have_count(0)
    assert violations(page) == []
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**/#/jobs/weekly")
    chosen = {"name": "plant", "days": "free", "otherwise": "next"}
    assert client.get("/jobs/weekly").json()["data"]["definition"]["timer"]["calendar"] == chosen
