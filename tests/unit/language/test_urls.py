"""Where a response may send the next request (SPEC sections 4 and 9)."""

from scheduler_service.language.urls import ForeignOrigin, NotAUrl, Whole, origin, resolve_whole
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


def test_a_service_answers_for_itself() -> None:
    """SPEC section 9: services are origins as well."""
    assert resolve_whole("/x", base="service://pay/a", follow=frozenset()) == Whole("service://pay/x")
    assert resolve_whole("/x", base="service:/a", follow=frozenset()) == Whole("service:/x")
    assert isinstance(resolve_whole("service://x/", base="service:/a", follow=frozenset()), ForeignOrigin)


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
