"""The cookie of a session: its attributes, and which of several counts."""

from typing import Any

import pytest

from scheduler_service.api.cookies import is_same_origin, session_cookies, write_cookie


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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    "origin", ["null", "", "http://", "http://[", "http://evil.example", "http://a.example:1"]
)
def test_another_origin_is_another(origin: str) -> None:
    """An empty name equals none."""
    assert not is_same_origin(origin, "a.example", "")
    assert is_same_origin("https://A.example", "", "a.example")
