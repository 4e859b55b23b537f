"""Pointers into what was posted (RFC 6901, SPEC section 4)."""

import pytest

from client_sdk.models import point_to_posted


@pytest.mark.parametrize(
    ("pointer", "definition", "expected"),
    [
        ("/checkUrl/url", {"checkUrl": "http://h/"}, "/checkUrl"),
        ("/checkUrl/url", {"checkUrl": {"url": "http://h/"}}, "/checkUrl/url"),
        ("/checkUrl", {"checkUrl": ""}, "/checkUrl"),
        ("/timer/misfire/limit", {"timer": "{}"}, "/timer"),
        ("/timer/period", {"timer": {"period": "x"}}, "/timer/period"),
        ("/checkUrls/url", {"checkUrl": "x"}, "/checkUrls/url"),
        ("/request/0/url", {"request": "x"}, "/request/0/url"),
        ("/request/0/url", {}, "/request/0/url"),
    ],
)
def test_a_pointer_leads_to_what_was_posted(
    pointer: str, definition: dict[str, object], expected: str
) -> None:
    """What was given as a text has no members (SPEC section 5)."""
    assert point_to_posted(pointer, definition) == expected
