"""Follows a page from its first line to its last, in an empty folder and on free ports."""

import contextlib
import io
import re
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from scheduler_service.cli.main import run
from tests.ports import free_port
from tests.unit.docs.pages import fenced, read
from tests.wire.docs.shell import Ended, Shell
from tests.wire.docs.shown import compare, fill_in
from tests.wire.docs.steps import Enter, Save, Start, Step, steps
from tests.wire.processes.process import Process, bare_environment

PORTS = ("8000", "9000", "9001", "9002")
SERVICE = PORTS[0]
SETTLING = 30.0
READY = r"listens|\"listening\"|running on"
QUIET = "punctual worker"
PLAIN = re.compile(r"punctual [\w\s./:@=,+*?#'\"{}\[\]-]*")


class WrongPage(AssertionError):
    """What happened is not what the page says; the message begins with page and line."""


class Executor:
    """Does what the pages say, one step after the other."""

    def __init__(self, folder: Path, ports: Mapping[str, str], stack: ExitStack) -> None:
        self._folder = folder
        self._ports = ports
        self._stack = stack
        self._environ = bare_environment(PUNCTUAL_URL=f"http://127.0.0.1:{ports[SERVICE]}")
        self._shell = stack.enter_context(Shell(folder, self._environ))
        self._known: dict[str, str] = {}
        self._settled = 0.0

    def follow(self, page: str, text: str) -> int:
        """Does all that the page says; how many steps that were. Raises WrongPage at the first difference."""
        asked = list(steps(text))
        for step in asked:
            if wrong := self._do(step):
                raise WrongPage(f"{page}:{step.line}: {wrong}")
        return len(asked)

    def save(self, name: str, text: str) -> None:
        """A file in the folder."""
        (self._folder / name).write_text(self._own(text), encoding="utf-8")

    def _do(self, step: Step) -> str | None:
        """What was wrong."""
        match step:
            case Save(_, name, text):
                self.save(name, text)
            case Start(_, command):
                return self._start(self._own(command))
            case Enter(_, command, shown):
                return self._enter(fill_in(self._own(command), self._known), shown)
        return None

    def _start(self, command: str) -> str | None:
        arguments = ["/bin/sh", "-c", command]
        process = self._stack.enter_context(Process(arguments, cwd=self._folder, environ=self._environ))
        try:
            if QUIET not in command:
                process.wait_for_line(READY)
        except AssertionError as never:
            return f"{command}: {never}"
        self._settled = time.monotonic() + SETTLING
        return None

    def _enter(self, command: str, shown: tuple[str, ...] | None) -> str | None:
        code, printed = self._run(command)
        # Who has just started a program tries again for a moment.
        while code > 0 and time.monotonic() < self._settled:
            code, printed = self._run(command)
        if code != 0:
            return f"{command}\nended with {code}:\n{printed}"
        if shown is not None and not compare([self._own(line) for line in shown], printed, self._known):
            wanted = "\n".join(shown)
            return f"{command}\nprinted:\n{printed.strip()}\nand not:\n{wanted}"
        return None

    def _run(self, command: str) -> Ended:
        return enter_here(command) if PLAIN.fullmatch(command) else self._shell.enter(command)

    def _own(self, text: str) -> str:
        """The text with ports that nobody else uses."""
        for port, own in self._ports.items():
            text = re.sub(rf"(?<!\d){port}(?!\d)", own, text)
        return text


def enter_here(command: str) -> Ended:
    """A plain command of Punctual, in this process: it need not load Python first."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = run(shlex.split(command)[1:])
    return Ended(code, printed.getvalue())


@contextlib.contextmanager
def executor(folder: Path) -> Iterator[Executor]:
    """One in `folder`, which becomes the working folder; what it starts ends with the block.

    Skips where the program `curl` is missing.
    """
    if shutil.which("curl") is None:
        pytest.skip("curl is missing")
    ports = {port: str(free_port()) for port in PORTS}
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PUNCTUAL_URL", f"http://127.0.0.1:{ports[SERVICE]}")
        for name in ("PUNCTUAL_KEY", "PUNCTUAL_CONFIG"):
            patch.delenv(name, raising=False)
        yield Executor(folder, ports, stack)


def file_of(page: str, name: str) -> str:
    """A file that a page shows."""
    return next(fence.body for fence in fenced(read(page)) if fence.name == name)
