"""Where a response may send the next request (SPEC sections 4 and 9)."""

import pytest

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.language.expression import Names
from scheduler_service.language.template import compile_url
from scheduler_service.language.urls import (
    ForeignOrigin,
    NotAUrl,
    Whole,
    check_authority,
    origin,
    resolve_whole,
)
from tests.rows import each_row

BASE = "http://h/b/c/d;p?q"
FOLLOW = frozenset({"https://ok.example:443", "http://Other"})


@each_row(
    ("value", "expected"),
    [
        ("http://h/x", "http://h/x"),
        ("http://H:80/x", "http://H:80/x"),
        ("g", "http://h/b/c/g"),
        ("./g/.", "http://h/b/c/g/"),
        ("/g", "http://h/g"),
        ("//h", "http://h"),
        ("?y", "http://h/b/c/d;p?y"),
        ("#s", "http://h/b/c/d;p?q#s"),
        ("../../../g", "http://h/g"),
        ("g;x=1/../y", "http://h/b/c/y"),
        ("..", "http://h/b/"),
        ("https://ok.example/x", "https://ok.example/x"),
        ("http://other:80/", "http://other:80/"),
        ("/路", "http://h/%E8%B7%AF"),
    ],
)
def test_what_leads_to_an_allowed_origin_is_resolved(value: str, expected: str) -> None:
    """SPEC section 4: against the step that answered (RFC 3986 section 5.4)."""
    assert resolve_whole(value, base=BASE, follow=FOLLOW) == Whole(expected)


@each_row(
    "value",
    [
        "https://h/x",
        "http://h:81/x",
        "//evil/x",
        "http://h.evil/",
        "ftp://h/x",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "service://h/x",
        "http://user@h/x",
        "http://h@evil/x",
        "//h:80@evil",
    ],
)
def test_another_origin_is_foreign(value: str) -> None:
    """SPEC section 9: a whole URL of another origin is `egress`, and so is user information."""
    assert isinstance(resolve_whole(value, base=BASE, follow=FOLLOW), ForeignOrigin)


@each_row(
    "value",
    [
        "",
        "a b",
        "\\\\evil",
        "/\\evil",
        "http://h/\r\nx",
        "\x00",
        "http://h:99999/",
        "http:g",
        "http://",
        "1:x",
    ],
)
def test_a_text_that_is_no_url_is_told_apart(value: str) -> None:
    """SPEC section 9: a value that is no URL is `template`."""
    assert isinstance(resolve_whole(value, base=BASE, follow=FOLLOW), NotAUrl)


@each_row("value", ["/..//evil/x", "/.//evil", "service:/..//evil/x"])
def test_a_path_is_never_read_as_a_host(value: str) -> None:
    """Behind `service:` a path with two slashes would name another service."""
    assert isinstance(resolve_whole(value, base="service:/a", follow=frozenset()), NotAUrl)


@each_row(
    ("url", "expected"),
    [
        ("HTTP://A.b/x?y", "http://a.b:80"),
        ("https://a", "https://a:443"),
        ("http://[::1]:8080/", "http://[::1]:8080"),
        ("service://name/x", "service://name"),
        ("service:/x", "service:"),
        ("nonsense", ""),
        ("http://a:b:c/", ""),
    ],
)
def test_an_origin_names_its_port(url: str, expected: str) -> None:
    """SPEC section 9: `scheme://host:port`."""
    assert origin(url) == expected


NAMES = Names(environment=frozenset({"BASE", "HOST", "PORT"}))


def check(url: str) -> None:
    """As a step's url."""
    check_authority(compile_url(url, names=NAMES))


@each_row(
    ("url", "said", "column"),
    [
        ("http://h:0/", "port '0'", 9),
        ("http://h:65536/", "port '65536'", 9),
        ("https://h:99999", "port '99999'", 10),
        ("http://h:80a/x", "port '80a'", 9),
        ("http://h:+80/", "port '+80'", 9),
        ("http://h:٨٠/", "port '٨٠'", 9),
        ("http://h:000080/", "port '000080'", 9),
        ("http://[::1]:x/", "port 'x'", 13),
        ("HTTP://h:http/${a}", "port 'http'", 9),
        ("http://h:x?q=${a}", "port 'x'", 9),
        ("http://:80/", "no host", 7),
        ("http://:/", "no host", 7),
        ("http://[]:80/", "no host", 7),
        ("http:///x", "no host", 5),
        ("http://?x", "no host", 5),
        ("http://::1/", "not HOST or HOST:PORT", 7),
        ("http://[::1/", "not HOST or HOST:PORT", 7),
        ("http://[::1]x/", "not HOST or HOST:PORT", 7),
        ("http://user@h/", "user information", 5),
        ("http://user:secret@h:80/", "user information", 5),
        ("https://@h/", "user information", 6),
        ("service://user@name/", "user information", 8),
        ("service://{foo}/x", "use {serviceName} or {serviceGateway}", 10),
        ("service://{servicename}/x", "is not a placeholder", 10),
        ("service://{serviceName}x/x", "is not a placeholder", 10),
        ("service://name}/x", "is not a placeholder", 10),
        ("service://{}", "is not a placeholder", 10),
        ("service://name:80/x", "a service has no port", 14),
        ("SERVICE://name:/x", "a service has no port", 14),
        ("service://{serviceName}:80/", "a service has no port", 23),
        ("service:///x", "no host", 8),
        ("service://é/x", "'é' is not a service name", 10),
        ("service://%C3%A9/x", "'é' is not a service name", 10),
        ("service://-name/x?a=${a}", "'-name' is not a service name", 10),
        ("service://127.0.0.1/x", "'127.0.0.1' is read as a numeric address", 10),
        ("service://../x", "'..' is not a service name", 10),
        (f"service://{'n' * 129}/x", "is not a service name", 10),
    ],
)
def test_a_host_that_nothing_reaches_is_refused(url: str, said: str, column: int) -> None:
    """Everything that can be known is checked when the job is created, with its place (SPEC section 4)."""
    with pytest.raises(ExpressionError) as caught:
        check(url)
    assert said in caught.value.message
    assert caught.value.column == column


@each_row(
    "url",
    [
        "http://h/",
        "http://h",
        "http://h:1/",
        "http://h:65535/",
        "http://h:/",
        "http://h:00080/",
        "http://[::1]/",
        "http://[::1]:80/${a}",
        "http://h/a:b@c",
        "http://h?a=b:c@d",
        "http://h#:x",
        "service:/x:80",
        "service://Mixed.Case-1/x",
        "service://_x/",
        "service://name/x:80/{foo}",
        "service://{serviceName}/x",
        "service://{serviceGateway}/name/x",
        "queue://work",
        "system://clean",
        "http://${HOST}/",
        "http://${HOST}:99999/",
        "http://h:${PORT}/",
        "http://h:9${PORT}/x",
        "service://${HOST}:80/",
        "${BASE}:99999/",
        "${schedulingFeedbackUrl}",
        "${next}",
    ],
)
def test_what_may_be_reached_passes(url: str) -> None:
    """What a variable says is judged when it is sent; paths and queries are free."""
    check(url)
