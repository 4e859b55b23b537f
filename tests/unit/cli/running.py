"""Commands in this process, and programs that answer them."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

Ran = Callable[..., tuple[int, str, str]]
"""Runs a command in this process; what it gives is the exit code, the output, and the messages."""
Said = tuple[int, str, bytes]
"""The status, the type and the body of an answer."""


def enveloped(data: Any, status: int = 200) -> Said:
    """An answer as a scheduler writes it."""
    return status, "application/json", json.dumps({"resp_code": status, "data": data}).encode()


@contextmanager
def answering(answer: Callable[[str, Message, bytes], Said | None]) -> Iterator[str]:
    """The url of a program on loopback: `answer` has the status, type and body for each request.

    It gets the method, the headers and the body; None closes the connection without an answer.
    """

    class Program(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            said = answer(self.command, self.headers, body)
            if said is not None:
                status, media, content = said
                self.send_response(status)
                self.send_header("Content-Type", media)
                self.end_headers()
                self.wfile.write(content)

        do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - so it is called by http.server

        def log_message(self, *arguments: object) -> None:
            return None

    with HTTPServer(("127.0.0.1", 0), Program) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
