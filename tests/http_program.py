"""A program on loopback that answers HTTP as a test says."""

import ssl
import sys
import threading
from collections.abc import Callable, Mapping
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self


class Asked(NamedTuple):
    """A request as it came; `path` with its query."""

    method: str
    path: str
    headers: Message
    body: bytes


class Said(NamedTuple):
    """An answer; its length is added to `headers`, and the moment where they have none."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}


class HttpProgram:
    """Listens from the beginning until `close`; each connection has a thread of its own.

    `answer` None closes the connection without an answer. With a `context` it speaks TLS.
    """

    def __init__(
        self, answer: Callable[[Asked], Said | None], *, context: ssl.SSLContext | None = None
    ) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # an answer in one packet: in two it may wait 40 ms for the caller

            def take(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                said = answer(Asked(self.command, self.path, self.headers, body))
                if said is None:
                    self.close_connection = True
                    return
                respond = self.send_response_only if "Date" in said.headers else self.send_response
                respond(said.status)
                for name, value in {**said.headers, "Content-Length": str(len(said.body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(said.body)

            do_GET = do_POST = do_PUT = do_DELETE = take  # noqa: N815 - names of the library

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.port = int(self._server.server_address[1])
        self.url = f"http{'s' if context else ''}://127.0.0.1:{self.port}"
        if context is not None:
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listens no more."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, address: Any) -> None:
        """A caller that has gone, or does not trust the certificate, is no error."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, address)
