"""Zones: local clocks, gaps, overlaps and names (SPEC section 3, time zone)."""

import shutil
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.domain.moments import HOUR, as_datetime, as_moment
from scheduler_service.timing import zones
from tests.rows import each_row

WORLD = [
    "UTC",
    "Europe/Paris",
    "America/New_York",
    "Asia/Kolkata",
    "Asia/Shanghai",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Africa/Monrovia",
    "Asia/Gaza",
    "Pacific/Apia",
    "America/Sao_Paulo",
    "America/Nuuk",
    "Europe/Dublin",
    "Antarctica/Troll",
    "Etc/GMT+12",
    "EST5EDT",
]


def at(text: str) -> int:
    return as_moment(datetime.fromisoformat(text).replace(tzinfo=UTC))


def reference(name: str) -> ZoneInfo:
    data = files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    return ZoneInfo.from_file(BytesIO(data))


def offset(info: ZoneInfo, moment: int) -> int:
    return as_datetime(moment).astimezone(info).utcoffset() // timedelta(milliseconds=1)


def test_gap_has_no_instant_and_ends_at_the_first_instant_after_it():
    """A skipped local time occurs never; the gap ends when the clocks have moved."""
    york = zones.load_zone("America/New_York")
    gone = at("2026-03-08T02:30:00")
    assert york.instants(gone) == ()
    assert york.after_gap(gone) == at("2026-03-08T07:00:00")
    assert york.after_gap(at("2026-03-08T02:00:00")) == at("2026-03-08T07:00:00")
    assert york.instants(at("2026-03-08T03:00:00")) == (at("2026-03-08T07:00:00"),)
    # A local time that occurs twice gives both moments, the first one first
    york = zones.load_zone("America/New_York")
    assert york.instants(at("2026-11-01T01:30:00")) == (at("2026-11-01T05:30:00"), at("2026-11-01T06:30:00"))
    assert york.instants(at("2026-11-01T02:00:00")) == (at("2026-11-01T07:00:00"),)
    assert york.after_gap(at("2026-11-01T01:30:00")) == at("2026-11-01T05:30:00")
    # Clocks still change in the last year of cron (SPEC section 3: 1970 to 2199)
    berlin = zones.load_zone("Europe/Berlin")
    assert berlin.to_local(at("2199-07-01T00:00:00")) - at("2199-07-01T00:00:00") == 2 * HOUR
    assert berlin.to_local(at("2199-12-31T00:00:00")) - at("2199-12-31T00:00:00") == HOUR


@each_row("name", WORLD)
def test_stretches_say_what_the_zone_file_says(name: str):
    """Every change from 1970 to 2200, to the millisecond, and nothing between."""
    zone, info = zones.load_zone(name), reference(name)
    probes = {start + delta for start in zone.starts[1:] for delta in (-1, 0)}
    probes |= {
        as_moment(datetime(year, month, 15, tzinfo=UTC)) for year in range(1970, 2201) for month in (1, 4, 8)
    }
    for moment in probes:
        shown = as_datetime(moment).astimezone(info).utcoffset()
        assert zone.to_local(moment) - moment == shown // timedelta(milliseconds=1), as_datetime(moment)


@given(
    name=st.sampled_from(sorted(zones.zone_names())),
    moment=st.datetimes(datetime(1970, 1, 2), datetime(2200, 12, 30), timezones=st.just(UTC)).map(as_moment),
)
def test_any_moment_in_any_zone(name: str, moment: int):
    """to_local is the zone file's; instants and after_gap invert it."""
    zone = zones.load_zone(name)
    local = zone.to_local(moment)
    assert local - moment == as_datetime(moment).astimezone(reference(name)).utcoffset() // timedelta(
        milliseconds=1
    )
    found = zone.instants(local)
    assert moment in found
    assert list(found) == sorted(set(found))
    assert zone.after_gap(local) == found[0]


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Paris",
        "europe/paris",
        "../zones",
        "/etc/passwd",
        "Europe/../Europe/Paris",
        "Europe",
        "Europe/Paris\0",
        "zone.tab",
        "__init__.py",
        "Europe\\Paris",
        pytest.param("Z" * 100_000, id="long"),
    ],
)
def test_unknown_names_are_refused(name: str):
    """Only an IANA name is a zone; the error names the value and the remedy."""
    with pytest.raises(ExpressionError) as refusal:
        zones.load_zone(name)
    assert refusal.value.code == "unknown_zone"
    assert repr(name[:64]) in refusal.value.message


def test_a_near_miss_is_answered_with_the_right_name():
    """The remedy is the name that was probably meant."""
    with pytest.raises(ExpressionError, match="did you mean 'Europe/Paris'"):
        zones.load_zone("europe/paris")
    # Every suggested zone exists: what the message says can be written
    assert set(zones.WRONG_NAMES.values()) <= zones.zone_names()
    assert {one for found in zones.ABBREVIATIONS.values() for one in found} <= zones.zone_names()
    assert not {known.lower() for known in zones.zone_names()} & set(zones.WRONG_NAMES)


@each_row(
    ("name", "remedy"),
    [
        ("Asia/Peking", "did you mean 'Asia/Shanghai'?"),
        ("Asia/Beijing", "did you mean 'Asia/Shanghai'?"),
        ("beijing", "did you mean 'Asia/Shanghai'?"),
        ("Asia/Mumbai", "did you mean 'Asia/Kolkata'?"),
        ("GMT+8", "give 'Asia/Shanghai', or 'Etc/GMT-8', whose sign is reversed"),
        ("UTC+8", "give 'Asia/Shanghai', or 'Etc/GMT-8', whose sign is reversed"),
        ("UTC+08:00", "give 'Asia/Shanghai', or 'Etc/GMT-8', whose sign is reversed"),
        ("+0800", "give 'Asia/Shanghai', or 'Etc/GMT-8', whose sign is reversed"),
        ("utc-5", "give the IANA name of a place in it, or 'Etc/GMT+5', whose sign is reversed"),
        ("UTC+05:30", "give the IANA name of a place in it, or 'UTC'"),
        ("GMT+20", "give the IANA name of a place in it, or 'UTC'"),
        ("+00:00", "did you mean 'UTC'?"),
        ("UTC8", "give 'Asia/Shanghai', or 'Etc/GMT-8', whose sign is reversed"),
        ("Z", "Z means UTC: write 'UTC'"),
        ("utc", "did you mean 'UTC'?"),
        (
            "CST",
            "ambiguous; give an IANA name, such as 'America/Chicago', 'Asia/Shanghai' or 'America/Havana'",
        ),
        (
            "cdt",
            "ambiguous; give an IANA name, such as 'America/Chicago', 'Asia/Shanghai' or 'America/Havana'",
        ),
        ("PST", "ambiguous; give an IANA name, such as 'America/Los_Angeles' or 'Asia/Manila'"),
        ("IST", "such as 'Asia/Kolkata', 'Europe/Dublin' or 'Asia/Jerusalem'"),
        ("BST", "such as 'Europe/London' or 'Asia/Dhaka'"),
        ("EST5", "such as 'America/New_York' or 'America/Panama'"),
        ("JST", "an abbreviation is not an IANA name; give 'Asia/Tokyo'"),
        ("XYZ", "give an IANA name such as 'Asia/Shanghai' or 'UTC'"),
        ("China Standard Time", "did you mean 'Asia/Shanghai'?"),
        ("W. Europe Standard Time", "did you mean 'Europe/Berlin'?"),
        ("Central European Standard Time", "did you mean 'Europe/Warsaw'?"),
        ("E. Africa Standard Time", "it is no IANA name; give one, such as 'Asia/Shanghai' or 'UTC'"),
        ("Eastern (US & Canada) Daylight Time", "did you mean 'America/New_York'?"),
        ("Berlin", "did you mean 'Europe/Berlin'?"),
        ("New York", "did you mean 'America/New_York'?"),
        ("Europe/Berln", "did you mean 'Europe/Berlin'?"),
        ("Europe/Frankfurt", "give an IANA name such as 'Asia/Shanghai' or 'UTC'"),
    ],
)
def test_usual_names_that_are_no_zones(name: str, remedy: str):
    """A city is answered with its zone, an offset never with a zone of another offset."""
    with pytest.raises(ExpressionError) as refusal:
        zones.load_zone(name)
    assert refusal.value.message.endswith(remedy)


def test_a_changed_rule_changes_the_digest(tmp_path: Path):
    """The version of a package says nothing where it was patched, or is found on another path."""

    def digest(package: str, *rules: str) -> str:
        folder = tmp_path / package / "zoneinfo" / "Europe"
        folder.mkdir(parents=True)
        (tmp_path / package / "zones").write_text("Europe/Oslo\n")
        shutil.copy(str(files("tzdata").joinpath("zoneinfo", *rules)), folder / "Oslo")
        return zones.digest_zones(tmp_path / package)

    before = digest("before", "Europe", "Berlin")
    assert digest("same", "Europe", "Berlin") == before
    assert digest("after", "Asia", "Tokyo") != before
