"""The cookie of a session, and which pages it is for, also behind proxies (SPEC section 14)."""

from typing import Any

import pytest

from scheduler_service.api.responses import ApiProblem
from scheduler_service.api.session_cookies import (
    check_origin,
    is_same_origin,
    public_prefix,
    session_cookies,
    write_cookie,
)
from tests.rows import each_row


def scope(*headers: tuple[str, str], **members: Any) -> dict[str, Any]:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    return {"headers": raw, "scheme": "http", "root_path": "", **members}


def test_the_cookie_is_closed_to_scripts_and_other_sites() -> None:
    """Twelve hours, for this service's path alone."""
    assert write_cookie(scope(), "abc").split("; ") == [
        "punctual_session=abc", "Path=/", "Max-Age=43200", "HttpOnly", "SameSite=Strict",
    ]  # fmt: skip
    assert "Path=/tools" in write_cookie(scope(("x-forwarded-prefix", "/tools/")), "abc").split("; ")
    assert "Path=/" in write_cookie(scope(("x-forwarded-prefix", "/a; Domain=evil")), "abc").split("; ")
    # Without a text it is removed: by the same name, path and attributes
    assert write_cookie(scope(), "").startswith("punctual_session=; Path=/; Max-Age=0;")


@each_row(
    ("headers", "scheme", "is_secure"),
    [
        ((), "http", False),
        ((), "https", True),
        ((("x-forwarded-proto", "https"),), "http", True),
        ((("x-forwarded-proto", "HTTPS, http"),), "http", True),
        ((("x-forwarded-proto", "http"),), "http", False),
    ],
)
def test_behind_tls_it_is_for_tls_alone(headers: Any, scheme: str, is_secure: bool) -> None:
    """Its own, or that of a proxy."""
    assert ("Secure" in write_cookie(scope(*headers, scheme=scheme), "abc").split("; ")) == is_secure


@each_row(
    ("own_url", "origin"),
    [
        ("https://jobs.example:8443", "https://jobs.example:8443"),
        ("https://jobs.example:443/tools", "https://jobs.example"),
        ("https://Jobs.example", "https://jobs.example"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_the_external_url_is_the_services_own_origin(own_url: str, origin: str) -> None:
    """A proxy may pass on a `Host` without a port, or its own, and not say that it spoke TLS."""
    for host in ("jobs.example", "127.0.0.1:8000"):
        given = scope(("host", host), ("origin", origin))
        check_origin(given, own_url)
        is_secure = "Secure" in write_cookie(given, "abc", own_url).split("; ")
        assert is_secure == origin.startswith("https:")
    for other in ("https://jobs.example:1", "http://jobs.example:8443", "https://evil.example", "null"):
        with pytest.raises(ApiProblem, match=r"server\.external_url"):
            check_origin(scope(("host", "127.0.0.1:8000"), ("origin", other)), own_url)


def test_a_page_of_the_own_host_by_another_scheme_is_foreign() -> None:
    """Who sits between can write one of http; without `own_url` nobody knows the scheme."""
    given = scope(("host", "jobs.example"), ("origin", "http://jobs.example"))
    check_origin(given, None)
    check_origin(given, "http://inner:8000")
    with pytest.raises(ApiProblem, match=r"server\.external_url"):
        check_origin(given, "https://jobs.example")


def test_a_page_by_plain_http_has_a_cookie_that_comes_back() -> None:
    """Browsers drop one with `Secure` there; without an origin the external URL decides."""
    for headers, is_secure in (((("origin", "http://127.0.0.1:8000"),), False), ((), True)):
        written = write_cookie(scope(*headers), "abc", "https://jobs.example").split("; ")
        assert ("Secure" in written) == is_secure


def test_cookies_of_other_names_are_left_out() -> None:
    """Of any number of headers, and of our name at most four."""
    given = scope(
        ("cookie", "a=1; punctual_session=x;punctual_session2=y"), ("cookie", " punctual_session = z")
    )
    assert session_cookies(given) == ["x"]
    many = "; ".join(f"punctual_session={number}" for number in range(9))
    assert session_cookies(scope(("cookie", many))) == ["0", "1", "2", "3"]
    assert session_cookies(scope(("cookie", ";;=;punctual_session"))) == [""]


@each_row("origin", ["null", "", "http://", "http://[", "http://evil.example", "http://a.example:1"])
def test_another_origin_is_another(origin: str) -> None:
    """An empty name equals none."""
    assert not is_same_origin(origin, "a.example", "")
    assert is_same_origin("https://A.example", "", "a.example")


def prefixed(said: str | None = None, **members: str) -> dict[str, object]:
    headers = [] if said is None else [(b"x-forwarded-prefix", said.encode("latin-1"))]
    return {"type": "http", "headers": headers, **members}


@each_row(
    ("said", "prefix"),
    [
        (None, ""),
        ("/punctual", "/punctual"),
        ("/tools/punctual-2/", "/tools/punctual-2"),
        ("/a.b/~c", "/a.b/~c"),
    ],
)
def test_plain_paths_count(said: str | None, prefix: str) -> None:
    """Without a slash at their end."""
    assert public_prefix(prefixed(said)) == prefix


@each_row(
    "said",
    ["", "/", "punctual", "//evil.example", "/\\evil.example", "https://evil.example", '/"><script>', "/a b",
     "/a;Domain=x", "/a%2f..", "/../x", "/a/../b", "/a/..", "/.", "/a//b", "/a\r\nx: y",
     "/" + "a" * 200, "/é"],
)  # fmt: skip
def test_all_else_is_left_out(said: str) -> None:
    """Addresses of other machines, markup, attributes of cookies, ways upwards, and what is too long."""
    assert public_prefix(prefixed(said)) == ""
    assert public_prefix(prefixed(said, root_path="/own")) == "/own"


def test_the_root_path_of_the_server_counts_without_a_header() -> None:
    """Below a mount, too; what cannot stand in an address is quoted."""
    assert public_prefix(prefixed(root_path="/own/")) == "/own"
    assert public_prefix(prefixed(root_path="/own/console", app_root_path="/own")) == "/own"
    assert public_prefix(prefixed("/proxy", root_path="/own/console", app_root_path="/own")) == "/proxy"
    assert public_prefix(prefixed(root_path="//evil.example/<b>")) == "/evil.example/%3Cb%3E"
