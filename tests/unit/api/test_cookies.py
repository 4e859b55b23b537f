"""The cookie of a session: its attributes, and which of several counts."""

from typing import Any

import pytest

from scheduler_service.api.cookies import check_origin, is_same_origin, session_cookies, write_cookie
from scheduler_service.api.responses import ApiProblem
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


def test_a_page_by_plain_http_has_a_cookie_that_comes_back() -> None:
    """Browsers drop one with `Secure` there; without an origin the external URL decides."""
    for headers, is_secure in (((("origin", "http://127.0.0.1:8000"),), False), ((), True)):
        written = write_cookie(scope(*headers), "abc", "https://jobs.example").split("; ")
        assert ("Secure" in written) == is_secure


def test_without_a_text_it_is_removed() -> None:
    """By the same name, path and attributes."""
    assert write_cookie(scope(), "").startswith("punctual_session=; Path=/; Max-Age=0;")


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
