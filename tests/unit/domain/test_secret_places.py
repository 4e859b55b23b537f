"""The places of secrets in a request: filled when it is sent, hidden where it is shown (SPEC section 14)."""

import json
from urllib.parse import parse_qs

from scheduler_service.domain.secret_places import (
    IN_FORM,
    IN_JSON_IN_FORM,
    IN_TEXT,
    Unfilled,
    fill_places,
    rewrite_places,
    write_place,
)
from scheduler_service.domain.wire import AtSend, OutboundRequest
from tests.rows import each_row

MARK = "secret0123456789abcdef"
NASTY = 'a"b\\c&d=e+f %g é/{$}'
VALUES = {"TOKEN": "t0p", "NASTY": NASTY, "LINES": "one\r\nX-Evil: 1"}
NAMES = ("LINES", "NASTY", "TOKEN")


def place(name: str) -> str:
    return write_place(MARK, NAMES.index(name))


def request(url: str = "http://t/", body: bytes | None = None, **headers: str) -> OutboundRequest:
    return OutboundRequest("POST", url, tuple(headers.items()), body, at_send=AtSend("default", MARK, NAMES))


def filled(given: OutboundRequest) -> OutboundRequest:
    found = fill_places(given, VALUES.get)
    assert isinstance(found, OutboundRequest)
    return found


def test_each_place_is_filled_as_it_needs() -> None:
    """Percent-encoded in a query, as it is in a header, as the content of a string in JSON."""
    body = json.dumps({"a": f"x{place('NASTY')}y", "b": [place("TOKEN"), place("TOKEN")]}).encode()
    found = filled(
        request(f"http://t/p?k={place('NASTY')}&l=1", body, Authorization=f"Bearer {place('TOKEN')}")
    )
    assert parse_qs(found.url.partition("?")[2]) == {"k": [NASTY], "l": ["1"]}
    assert found.headers == (("Authorization", "Bearer t0p"),)
    assert json.loads(found.body or b"") == {"a": f"x{NASTY}y", "b": ["t0p", "t0p"]}
    assert found.at_send is None


def test_bodies_that_are_no_json() -> None:
    """In a form percent-encoded, also JSON in it; in other texts as it is."""
    form = rewrite_places(f"k={place('NASTY')}&l=1", MARK, IN_FORM)
    assert parse_qs((filled(request(body=form.encode())).body or b"").decode()) == {"k": [NASTY], "l": ["1"]}
    text = rewrite_places(f"<a>{place('NASTY')}</a>", MARK, IN_TEXT)
    assert filled(request(body=text.encode())).body == f"<a>{NASTY}</a>".encode()
    within = rewrite_places(f"k=%5B%22{place('NASTY')}%22%5D", MARK, IN_JSON_IN_FORM)
    (found,) = parse_qs((filled(request(body=within.encode())).body or b"").decode())["k"]
    assert json.loads(found) == [NASTY]


@each_row(
    ("given", "message"),
    [
        (request(A=place("LINES")), "header A: ${secrets.LINES}: has a control character"),
        (request(f"http://t/?k={write_place(MARK, 0)}"), ""),
    ],
)
def test_a_header_has_no_line_end(given: OutboundRequest, message: str) -> None:
    """It would be a header of its own; in a query it is encoded."""
    found = fill_places(given, VALUES.get)
    assert isinstance(found, Unfilled) == bool(message)
    assert not isinstance(found, Unfilled) or message in found.message


@each_row(
    "given",
    [
        request(f"http://t/?k={place('TOKEN')}"),
        request(A=place("TOKEN")),
        request(body=place("TOKEN").encode()),
    ],
)
def test_a_missing_secret_is_named(given: OutboundRequest) -> None:
    """With the field in which it stands."""
    found = fill_places(given, lambda _: None)
    assert isinstance(found, Unfilled)
    assert "${secrets.TOKEN}: there is no secret of that name" in found.message


def test_values_are_filled_in_once() -> None:
    """A value that looks like a place is a value."""
    twice = {"TOKEN": place("NASTY"), "NASTY": "never"}
    found = fill_places(request(A=place("TOKEN"), B=place("TOKEN")), twice.get)
    assert isinstance(found, OutboundRequest)
    assert found.headers == (("A", place("NASTY")), ("B", place("NASTY")))


def test_in_a_path_a_value_may_be_several_segments() -> None:
    """The address of a chat robot; what else could end the path is encoded."""
    given = request(f"http://t/hook/{place('TOKEN')}/x?k={place('TOKEN')}")
    assert (
        fill_places(given, lambda _: "T0/B1/a?b#c").url
        == "http://t/hook/T0/B1/a%3Fb%23c/x?k=T0%2FB1%2Fa%3Fb%23c"
    )  # type: ignore[union-attr]


@each_row("value", ["../admin", "a/./b", "/a", "a/", "a//b", ".."])
def test_in_a_path_a_value_leads_nowhere_else(value: str) -> None:
    """It cannot be sent."""
    found = fill_places(request(f"http://t/hook/{place('TOKEN')}"), lambda _: value)
    assert isinstance(found, Unfilled)
    assert "would change the path" in found.message
