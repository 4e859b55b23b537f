"""Reading URLs strictly."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.transport.addresses import read_url
from scheduler_service.transport.errors import RefusedTarget
from tests.rows import each_row


@each_row(
    ("url", "origin", "path"),
    [
        ("http://example.com", "http://example.com", "/"),
        ("HTTPS://Example.COM:443/a?b=c#d", "https://example.com", "/a?b=c"),
        ("http://example.com.:8080?x", "http://example.com:8080", "/?x"),
        ("http://my_service:80/x", "http://my_service", "/x"),
        ("http://[2001:DB8::1]:8080/", "http://[2001:db8::1]:8080", "/"),
        ("http://example.com/订单/{1}", "http://example.com", "/%E8%AE%A2%E5%8D%95/%7B1%7D"),
        ("http://example.com/a%2Fb/../c", "http://example.com", "/a%2Fb/../c"),
    ],
)
def test_normal_form(url: str, origin: str, path: str) -> None:
    """Scheme and host in lower case, no default port, no fragment; the path stays as it was written."""
    place = read_url(url)
    assert (place.site.origin, place.path) == (origin, path)


@each_row("port", ["0", "65536", "x", "-1", "８０", "000080"])
def test_wrong_port(port: str) -> None:
    """A port is a number from 1 to 65535, in ASCII digits."""
    with pytest.raises(RefusedTarget):
        read_url(f"http://example.com:{port}/")


def test_messages_show_no_path_or_user() -> None:
    """What may be a secret, the path and user information, is in no message."""
    for url in (
        "http://user:hush@example.com/",
        "http://exa mple.com/hush",
        "ftp://h/hush",
        "http://1.2/hush",
    ):
        with pytest.raises(RefusedTarget) as caught:
            read_url(url)
        assert "hush" not in str(caught.value)


@settings(deadline=None)
@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_is_a_clean_place_or_refused(authority: str, rest: str) -> None:
    """Whatever is read: nothing in it ends a line of the head, and reading it again changes nothing."""
    try:
        place = read_url(f"http://{authority}/{rest}")
    except RefusedTarget:
        return
    written = place.site.origin + place.path
    assert written.isascii()
    assert written.isprintable()
    assert " " not in written
    assert read_url(written) == place
