"""Instances of services with sockets of their own, which register with any node of a real cluster."""

import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from tests.sidecar.stage import Stage

BEAT_SECONDS = 3.0
CALL_SECONDS = 3.0
KNOWN_WITHIN_MS = 2_000
BUSY_MS = 1_500
"""A machine on which all of this runs at once may be so late with a call."""
LINGER_SECONDS = 6.0
"""Whoever has left can be called for so long: a call would be astray."""
Aim = Literal["out", "there", "draining", "left"]


def wall() -> int:
    """Now, in ms."""
    return round(time.time() * 1_000)


class Instance:
    """One process of a service, as a thread. `aim` is what it is to be, as soon as a node has heard of it.

    `moments` says since when it was there, or was not (wall ms): a step may come while it is, and until all
    nodes know that it is not.
    """

    def __init__(self, stage: Stage, service: str, name: str, timers: Sequence[dict[str, Any]]) -> None:
        self.service = service
        self.name = name
        self.calls = 0
        self.astray: list[str] = []
        self.moments: list[tuple[int, bool]] = [(0, False)]
        self.deaths: list[int] = []
        self._stage = stage
        self._timers = list(timers)
        self._chance = random.Random(name)
        self._aim: Aim = "out"
        self._changed = threading.Condition()
        self._is_over = False
        self._is_registered = False
        self._drains = False
        self._out_since: int | None = 0
        self._server: _Server | None = None
        self._thread = threading.Thread(target=self._live)
        self._thread.start()

    @property
    def aim(self) -> Aim:
        return self._aim

    def become(self, aim: Aim) -> None:
        """It starts, drains, takes work again, or leaves as it should."""
        with self._changed:
            if aim != "there":
                self._note(is_there=False)
            self._aim = aim
            self._changed.notify()

    def die(self) -> None:
        """Its connections are gone, and nobody is told."""
        with self._changed:
            self._note(is_there=False)
            self.deaths.append(wall())
            self._aim = "out"
            if self._server is not None:
                self._server.end()
            self._changed.notify()

    def end(self) -> None:
        """The thread ends."""
        with self._changed:
            self._is_over = True
            self._changed.notify()
        self._thread.join(60)
        if self._server is not None:
            self._server.end()

    def answer(self) -> tuple[int, dict[str, str]]:
        """To a call: 503 where it drains."""
        out = self._out_since
        if out is not None and wall() - out > KNOWN_WITHIN_MS + BUSY_MS:
            self.astray.append(f"{self.name} at {wall()}, out since {out}")
        if self._aim == "draining":
            return 503, {"X-Instance-State": "draining"}
        self.calls += 1
        return 200, {}

    def _note(self, *, is_there: bool) -> None:
        if self.moments[-1][1] is not is_there:
            self.moments.append((wall(), is_there))

    def _live(self) -> None:
        while not self._is_over:
            with contextlib.suppress(OSError):
                self._follow()
            with self._changed:
                if not self._is_over and self._is_as_aimed():
                    self._changed.wait(BEAT_SECONDS)

    def _is_as_aimed(self) -> bool:
        match self._aim:
            case "there":
                return self._is_registered and not self._drains
            case "draining":
                return self._is_registered and self._drains
            case _:
                return self._server is None

    def _follow(self) -> None:
        """One step towards the aim, or a sign of life."""
        aim = self._aim
        if aim == "out":
            self._is_registered = self._drains = False
            self._server = None
        elif aim == "left":
            self._leave()
        else:
            self._stay(drains=aim == "draining")

    def _stay(self, *, drains: bool) -> None:
        if self._server is None:
            self._server = _Server(self.answer)
        if not drains:
            self._out_since = None  # it may be called before it has read the answer
        if not self._is_registered:
            said = {"address": self._server.url}
            self._is_registered = self._call("PUT", "", said) in (200, 201)
            if self._is_registered:
                self._drains = False
        if self._is_registered:
            status = self._call("POST", "/heartbeat", {"load": 0, "draining": drains})
            self._is_registered = status != 404
            if status == 200:
                self._drains = drains
                self._settle("draining" if drains else "there")

    def _settle(self, aim: Aim) -> None:
        with self._changed:
            if aim == "draining":
                self._out_since = self._out_since or wall()
            elif self._aim == aim:
                self._note(is_there=True)

    def _leave(self) -> None:
        if self._is_registered:
            if self._call("DELETE", "", None) not in (200, 204, 404):
                return
            self._is_registered = False
            self._out_since = self._out_since or wall()
            time.sleep(LINGER_SECONDS)
        if self._server is not None:
            self._server.end()
            self._server = None

    def _call(self, method: str, path: str, body: object) -> int:
        """At any node, and at another one where that does not answer."""
        names = list(self._stage.cluster.nodes)
        self._chance.shuffle(names)
        status = 0
        for name in names:
            whole = f"/services/{self.service}/instances/{self.name}{path}"
            status, _ = self._stage.call(name, method, whole, body, seconds=CALL_SECONDS)
            if status not in (0, 503):
                return status
        time.sleep(0.2)
        return status


class _Server:
    """Answers on a port of its own until it ends with all its connections."""

    def __init__(self, answer: Callable[[], tuple[int, dict[str, str]]]) -> None:
        connections: set[socket.socket] = set()
        self._connections = connections

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                connections.add(self.request)
                super().setup()

            def finish(self) -> None:
                connections.discard(self.request)
                with contextlib.suppress(OSError, ValueError):
                    super().finish()

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                status, headers = answer()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def handle(self) -> None:
                with contextlib.suppress(OSError, ValueError):
                    super().handle()

            def log_message(self, *arguments: Any) -> None:
                return None

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def end(self) -> None:
        """May be called again."""
        self._server.shutdown()
        self._server.server_close()
        for one in list(self._connections):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class RealFleet:
    """All instances of some services."""

    def __init__(self, stage: Stage, services: Sequence[str], count: int, chance: random.Random) -> None:
        self._chance = chance
        self.instances = [
            Instance(stage, service, f"{service}-{number}", ())
            for number in range(count)
            for service in (services[number % len(services)],)
        ]

    def happen(self) -> None:
        """One instance starts, drains, goes on, leaves or dies."""
        one = self._chance.choice(self.instances)
        if one.aim in ("out", "left"):
            one.become("there")
            return
        what = self._chance.choice(("drain", "go on", "leave", "die", "nothing"))
        if what == "drain":
            one.become("draining")
        elif what == "go on":
            one.become("there")
        elif what == "leave":
            one.become("left")
        elif what == "die":
            one.die()

    def bring_all(self) -> None:
        """All are there in the end."""
        for one in self.instances:
            one.become("there")

    def end(self) -> None:
        """All threads end."""
        for one in self.instances:
            one.end()

    def was_there(self, service: str, since: int, until: int) -> bool:
        """Whether at each moment of this time an instance was there, one or another (wall ms)."""
        own = [one for one in self.instances if one.service == service]
        edges = sorted({since, *(at for one in own for at, _ in one.moments if since < at <= until)})
        return all(any(_is_there(one, at) for one in own) for at in edges)

    def died_within(self, service: str, since: int, until: int) -> bool:
        """Whether an instance died in this time."""
        own = [one for one in self.instances if one.service == service]
        return any(since <= at <= until for one in own for at in one.deaths)


def _is_there(one: Instance, at: int) -> bool:
    return [is_there for moment, is_there in list(one.moments) if moment <= at][-1]
