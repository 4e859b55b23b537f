"""punctual events where something else answers than a stream of this version."""

import pytest

from tests.http_program import HttpProgram, Said
from tests.unit.cli.running import Ran


@pytest.mark.parametrize(
    ("body", "media", "why"),
    [
        (b"data: [[[\n\n", "text/event-stream", "has data that is not JSON"),
        (b"data: 1\n\n", "text/event-stream", "has data that is not an object"),
        (b'data: {"event": 5}\n\n', "text/event-stream", "the answer is not a Event"),
        (b"data: " + b"a" * (2 << 20), "text/event-stream", "has a frame of more than 1 MiB"),
        (b"<html>", "text/html", "answered 200, but not as a scheduler does"),
    ],
    ids=["deep", "number", "other", "endless", "page"],
)
def test_a_stream_that_cannot_be_read_is_said_why(ran: Ran, body: bytes, media: str, why: str) -> None:
    """It is not taken for an older service without one."""
    with HttpProgram(lambda _: Said(200, body, {"Content-Type": media})) as program:
        code, out, said = ran("events", "--timeout", "20s", "--url", program.url)
    assert (code, out) == (1, "")
    assert why in said
    assert "punctual version" in said
