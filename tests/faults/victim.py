"""Runs real services in processes of their own, each of which kills itself at a chosen point.

The parent imports everything once and forks a process per order, so that a start costs little. Orders come as
lines of JSON on standard input (`Order`); what happens goes to standard output, a line of JSON each: `run`
is the order's, `what` is `listening` (with `url`, `pid`), `point` (with `name`, `number`), `killing` or
`ended` (with `code`, negative for a signal).
"""

import gc
import json
import os
import resource
import selectors
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from scheduler_service.app.server import serve
from scheduler_service.domain.errors import PunctualError
from scheduler_service.domain.wire import OutboundRequest, Outcome
from scheduler_service.ports.sending import MayGo, Sender, always
from scheduler_service.settings import load_settings
from scheduler_service.telemetry.decorators import PortDecorators
from scheduler_service.telemetry.logs import EventLog

LONGEST_ORDER = 65_536


class Order(msgspec.Struct):
    """One service to run. `point` 0: nothing is killed; `tells`: each point is told on its way.

    `only` has places (`before send`) and what is done there (`send`).
    `victim` is the process that is killed; 0: the service itself. `limits` are soft and hard limits of its
    process by name (`NOFILE`, `AS`); `environ` has more variables of its environment.
    """

    run: int
    folder: str
    log: str
    point: int = 0
    only: tuple[str, ...] = ()
    tells: bool = False
    victim: int = 0
    settings: dict[str, Any] = {}
    limits: dict[str, tuple[int, int]] = {}
    environ: dict[str, str] = {}


class Points:
    """Counts the passages of the points that are in `only` (none: all), and kills at the chosen one.

    Implements the fault points of store and history, on their threads, and serves the sender, on the loop.
    """

    def __init__(self, order: Order) -> None:
        self._order = order
        self._count = 0
        self._gate = threading.Lock()

    def before(self, point: str) -> None:
        self._pass(f"before {point}")

    def after(self, point: str) -> None:
        self._pass(f"after {point}")

    def _pass(self, name: str) -> None:
        order = self._order
        if order.only and name not in order.only and name.split()[1] not in order.only:
            return
        with self._gate:
            self._count += 1
            if order.tells:
                tell(order.run, "point", name=name, number=self._count)
            if self._count == order.point:
                tell(order.run, "killing", name=name, number=self._count)
                os.kill(order.victim or os.getpid(), signal.SIGKILL)
                if not order.victim:
                    signal.pause()


class TappedSender(Sender):
    """A sender with a point before and after each send."""

    def __init__(self, sender: Sender, points: Points) -> None:
        self._sender = sender
        self._points = points

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        self._points.before("send")
        outcome = await self._sender.send(request, may_go)
        self._points.after("send")
        return outcome

    async def close(self) -> None:
        await self._sender.close()


def tell(run: int, what: str, **members: object) -> None:
    """One line, in one write: those of many processes do not mix."""
    os.write(1, (json.dumps({"run": run, "what": what, **members}) + "\n").encode())


def run_service(order: Order) -> int:
    """Serves until it is killed or told to stop; the exit code.

    Its worker processes log beside its own log, in `LOG.workers`.
    """
    os.dup2(os.open(f"{order.log}.workers", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), 2)
    points = Points(order)
    loaded = load_settings({"server.port": 0, "store.data": order.folder, **order.settings}, {})

    async def began(url: str) -> None:
        tell(order.run, "listening", url=url, pid=os.getpid())

    decorators = PortDecorators(sender=lambda sender: TappedSender(sender, points))

    async def run(log: EventLog) -> None:
        await serve(loaded, log=log, decorators=decorators, faults=points, began=began)

    try:
        with Path(order.log).open("a") as stream:
            uvloop.run(run(EventLog(stream=stream)))
    except PunctualError as error:
        tell(order.run, "refused", message=str(error))
        return 3
    return 0


class Parent:
    """Forks a process per order and tells how it ended."""

    def __init__(self) -> None:
        self._runs: dict[int, int] = {}
        self._selector = selectors.DefaultSelector()
        # A child's end wakes the selector through this pipe.
        self._ends, child_ends = os.pipe()
        os.set_blocking(self._ends, False)
        os.set_blocking(child_ends, False)
        signal.set_wakeup_fd(child_ends)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def work(self) -> None:
        """Until standard input ends; what runs then is killed."""
        self._selector.register(0, selectors.EVENT_READ)
        self._selector.register(self._ends, selectors.EVENT_READ)
        rest = b""
        while True:
            ready = {key.fd for key, _ in self._selector.select()}
            if self._ends in ready:
                os.read(self._ends, LONGEST_ORDER)
                self._bury()
            if 0 in ready:
                data = os.read(0, LONGEST_ORDER)
                if not data:
                    break
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._start(msgspec.json.decode(line, type=Order))
        for pid in self._runs:
            os.kill(pid, signal.SIGKILL)

    def _start(self, order: Order) -> None:
        pid = os.fork()
        if pid:
            self._runs[pid] = order.run
            return
        code = 1
        try:
            self._become_child()
            for name, limit in order.limits.items():
                resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), limit)
            os.environ.update(order.environ)
            code = run_service(order)
        except BaseException as error:  # the parent's loop must not go on in the child
            tell(order.run, "broke", error=repr(error))
            raise
        finally:
            os._exit(code)

    def _become_child(self) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

    def _bury(self) -> None:
        while self._runs:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            tell(self._runs.pop(pid), "ended", code=os.waitstatus_to_exitcode(status))


def warm_up() -> None:
    """Serves once in memory, so that no child need load and prepare what all of them use late.

    What is there then stays as it is: a child that looked for garbage in it would copy all of it.
    """
    loaded = load_settings({"server.port": 0, "store.data": ":memory:"}, {})

    async def end(_: str) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    with Path(os.devnull).open("w") as nowhere:
        uvloop.run(serve(loaded, log=EventLog(stream=nowhere), began=end))
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    warm_up()
    Parent().work()
    sys.exit(0)
