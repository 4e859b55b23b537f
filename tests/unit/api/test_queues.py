"""What the API takes from those who work on a queue (SPEC section 13)."""

import msgspec

from scheduler_service.api.queues import RESERVED, show_body
from scheduler_service.api.responses import ENCODER
from scheduler_service.engine.retry import NEVER_RETRIED
from scheduler_service.engine.warnings import CODES
from scheduler_service.language.json_values import LARGE_BYTES, as_json, parse_json
from tests.rows import each_row


def test_no_worker_can_say_what_is_never_retried() -> None:
    """Codes that policies do not match, or `*` does not, are Punctual's alone (SPEC section 6)."""
    assert NEVER_RETRIED | {"egress"} <= RESERVED
    # No worker can say what it cannot know
    own = CODES - RESERVED
    assert own == {"timeout", "response_too_large", "unsuccessful"}


BLANKS = b" " * LARGE_BYTES


@each_row(
    "body",
    [
        b'[1, 1.50, 1e400, "\xc3\xa4", {"a": null}]',
        b'"\xff"',
        b"[NaN]",
        b"not JSON",
        b"\xef\xbb\xbf[1]",
        b"[1],",
        b"[" * 100_000,
        b"[" * 1_000 + b"]" * 1_000,
    ],
)
def test_a_large_body_is_shown_as_a_small_one_is(body: bytes) -> None:
    """Though it is not decoded: the same value, and a text where it is no JSON."""
    shown = ENCODER.encode(show_body(body + BLANKS))
    assert parse_json(shown) == parse_json(as_json(parse_json(body + BLANKS)))


def test_a_large_body_of_many_values_is_not_decoded() -> None:
    """A MiB of `[{},{},…]` is 350,000 objects, and a claim may have four."""
    body = b"[" + b"{}," * LARGE_BYTES + b"{}]"
    assert isinstance(show_body(body), msgspec.Raw)
