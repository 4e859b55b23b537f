"""A real service in a process of its own, which kills itself, or another process, at a chosen point.

What happens goes to standard output, a line of JSON each: `what` is `listening` (with `url`), `point` or
`killing` (with `name`, `number`), `refused` or `broke` (with `message`).
"""

import json
import os
import resource
import signal
import threading
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from scheduler_service.app.lifetime import serve
from scheduler_service.app.local_service import open_service
from scheduler_service.domain.errors import PunctualError
from scheduler_service.domain.wire import OutboundRequest, Outcome
from scheduler_service.ports.sending import MayGo, Sender, always
from scheduler_service.settings import load_settings
from scheduler_service.telemetry.logs import EventLog
from tests.fault_points import EachPoint


class Order(msgspec.Struct):
    """One service to run. `point` 0: nothing is killed; `tells`: each point is told on its way.

    `only` has places (`before send`) and what is done there (`send`).
    `victim` is the process that is killed; 0: the service itself. `limits` are soft and hard limits of its
    process by name (`NOFILE`, `AS`).
    """

    folder: str
    log: str
    point: int = 0
    only: tuple[str, ...] = ()
    tells: bool = False
    victim: int = 0
    settings: dict[str, Any] = {}
    limits: dict[str, tuple[int, int]] = {}


class Points(EachPoint):
    """Counts the passages of the points that are in `only` (none: all), and kills at the chosen one.

    Implements the fault points of store and history, on their threads, and serves the sender, on the loop.
    """

    def __init__(self, order: Order) -> None:
        self._order = order
        self._count = 0
        self._gate = threading.Lock()

    def at(self, name: str) -> None:
        order = self._order
        if order.only and name not in order.only and name.split()[1] not in order.only:
            return
        with self._gate:
            self._count += 1
            if order.tells:
                tell("point", name=name, number=self._count)
            if self._count == order.point:
                tell("killing", name=name, number=self._count)
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


def tell(what: str, **members: object) -> None:
    """One line, in one write: it does not mix with what the process that forks says there."""
    os.write(1, (json.dumps({"what": what, **members}) + "\n").encode())


def run_service(order: Order) -> int:
    """Serves until it is killed or told to stop; the exit code.

    Its worker processes log beside its own log, in `LOG.workers`.
    """
    for name, limit in order.limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), limit)
    os.dup2(os.open(f"{order.log}.workers", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), 2)
    points = Points(order)
    loaded = load_settings({"server.port": 0, "store.data": order.folder, **order.settings}, {})

    async def began(url: str) -> None:
        tell("listening", url=url)

    opening = partial(open_service, faults=points, wrap_sender=lambda sender: TappedSender(sender, points))

    async def run(log: EventLog) -> None:
        await serve(loaded, log=log, opening=opening, began=began)

    try:
        with Path(order.log).open("a") as stream:
            uvloop.run(run(EventLog(stream=stream)))
    except PunctualError as error:
        tell("refused", message=str(error))
        return 3
    except BaseException as error:
        tell("broke", message=repr(error))
        raise
    return 0
