"""Forks commands and services of Punctual from one process that has loaded everything: a start costs a tenth.

What is to be run is one message on the socket whose descriptor is the first argument: JSON of `Command`, and
with it three descriptors: standard output and error of the program, and a pipe on which its process id is
written at once, and its exit code when it has ended (negative for a signal), a line each. The second argument
is a file that has the seconds of CPU of all that have ended (`SPENT`).
"""

import contextlib
import gc
import importlib
import os
import runpy
import selectors
import signal
import socket
import struct
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import msgspec
import uvloop

from scheduler_service.__main__ import main as punctual
from scheduler_service.app.lifetime import serve
from scheduler_service.cli.main import commands
from scheduler_service.settings import load_settings
from scheduler_service.telemetry.logs import EventLog
from tests.faults.victim import Order, run_service

LONGEST = 1 << 17
THREADS_END_SECONDS = 30.0
# What commands load when they are given.
LATE = ("alembic.command", "httpcore", "mako.template", "rich.markdown", "rich.table", *(
    f"scheduler_service.maintenance.{name}" for name in ("backup", "database_keys", "doctor", "folder_repair")
))  # fmt: skip
SPENT = struct.Struct("d")


class Command(msgspec.Struct):
    """A command line without its first word, and where it runs; or a service, where one is given.

    A line that begins with `-m` is that of a module.
    """

    arguments: list[str]
    folder: str
    environ: dict[str, str]
    service: Order | None = None


class Parent:
    """Forks a process per message and tells how it ended."""

    def __init__(self, orders: socket.socket, costs: int) -> None:
        self._orders = orders
        self._costs = costs
        self._spent = 0.0
        self._running: dict[int, int] = {}
        self._selector = selectors.DefaultSelector()
        # A child's end wakes the selector through this pipe.
        self._ends, self._end = os.pipe()
        for end in (self._ends, self._end):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._end)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def work(self) -> Command | None:
        """None when there are no more messages, all that runs then being killed; in each child its own."""
        self._selector.register(self._orders, selectors.EVENT_READ)
        self._selector.register(self._ends, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in self._selector.select()}
            if self._ends in ready:
                os.read(self._ends, LONGEST)
                self._bury()
            if self._orders.fileno() in ready:
                data, descriptors, _, _ = socket.recv_fds(self._orders, LONGEST, 3)
                if not data:
                    break
                command = msgspec.json.decode(data, type=Command)
                if self._is_child(*descriptors):
                    return command
        for pid in self._running:
            os.kill(pid, signal.SIGKILL)
        return None

    def _is_child(self, out: int, err: int, told: int) -> bool:
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._selector.close()
            self._orders.close()
            os.setsid()
            for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (out, 1), (err, 2)):
                os.dup2(source, target)
                os.close(source)
            for descriptor in (told, self._costs, self._ends, self._end, *self._running.values()):
                os.close(descriptor)
            return True
        self._running[pid] = told
        _tell(told, pid)
        for descriptor in (out, err):
            os.close(descriptor)
        return False

    def _bury(self) -> None:
        while self._running:
            pid, status, used = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                return
            self._spent += used.ru_utime + used.ru_stime
            os.pwrite(self._costs, SPENT.pack(self._spent), 0)
            told = self._running.pop(pid)
            _tell(told, os.waitstatus_to_exitcode(status))
            os.close(told)


def _tell(told: int, number: int) -> None:
    # Whoever gave the order may have gone; then the orders end as well.
    with contextlib.suppress(BrokenPipeError):
        os.write(told, f"{number}\n".encode())


def become(folder: str, environ: Mapping[str, str]) -> None:
    """This process stands in `folder`, and has this environment and no other."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    sys.path[0] = folder


def warm_up() -> None:
    """Serves once in memory, so that no child need load and prepare what all of them use late.

    What is there then stays as it is: a child that looked for garbage in it would copy all of it.
    """
    commands()
    for name in LATE:
        importlib.import_module(name)
    loaded = load_settings({"server.port": 0, "store.data": ":memory:"}, {})

    async def end(_: str) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    with Path(os.devnull).open("w") as nowhere:
        uvloop.run(serve(loaded, log=EventLog(stream=nowhere), began=end))
    # The thread that watches the loop was told to end, and on a crowded machine it has not yet.
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(THREADS_END_SECONDS)
    assert threading.active_count() == 1, "a fork has no thread but the one that forks"
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    warm_up()
    given = Parent(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])).work()
    if given is not None:
        become(given.folder, given.environ)
        if given.service is not None:
            os._exit(run_service(given.service))
        if given.arguments[0] == "-m":
            sys.argv[:] = given.arguments[1:]
            runpy.run_module(given.arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv[:] = ["punctual", *given.arguments]
            punctual()
