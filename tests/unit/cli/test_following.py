"""punctual events where something else answers than a stream of this version."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.unit.cli.running import ended


@contextmanager
def streaming(body: bytes, media: str) -> Iterator[str]:
    """The url of a program that answers everything with this."""

    class Stream(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", media)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            return None

    with HTTPServer(("127.0.0.1", 0), Stream) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


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
def test_a_stream_that_cannot_be_read_is_said_why(
    capsys: pytest.CaptureFixture[str], body: bytes, media: str, why: str
) -> None:
    """It is not taken for an older service without one."""
    with streaming(body, media) as url:
        code, out, said = ended(capsys, "events", "--timeout", "20s", "--url", url)
    assert (code, out) == (1, "")
    assert why in said
    assert "punctual version" in said
