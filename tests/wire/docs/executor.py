"""Follows a page from its first line to its last, in an empty folder and on free ports."""

import contextlib
import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from scheduler_service.cli.main import run
from tests.ports import free_port
from tests.unit.docs.pages import Fence, fenced, read
from tests.wire.processes.process import Process, bare_environment

ANY = "…"
ID = re.compile(r"[0-9a-f]{2,8}…(?:-\d+)?(?![\w…])")
_PLAIN = re.compile(r"[ \t]+")


def compare(shown: Sequence[str], printed: str, known: dict[str, str]) -> bool:
    """Whether they fit; the ids that were printed are then in `known`. How wide a gap is does not matter."""
    texts = [_plain(line) for line in printed.strip("\n").splitlines()]
    patterns = [_plain(line) for line in shown]
    names: dict[str, str] = {}
    whole = "".join(_line(pattern, known, names) for pattern in patterns)
    found = re.fullmatch(whole, "".join(f"{text}\n" for text in texts))
    if found is None:
        return False
    known.update({token: found[name] for name, token in names.items()})
    return True


def fill_in(command: str, known: Mapping[str, str]) -> str:
    """The command with the ids that it names."""
    return ID.sub(lambda match: known.get(match[0], match[0]), command)


def _plain(line: str) -> str:
    return _PLAIN.sub(" ", line.rstrip())


def _line(pattern: str, known: Mapping[str, str], names: dict[str, str]) -> str:
    """The expression of one line; `names` gets the groups of ids that are not known yet."""
    if pattern == ANY:
        return "(?:.*\n)*?"
    parts, at = [], 0
    for match in ID.finditer(pattern):
        parts += [_text(pattern[at : match.start()]), _id(match[0], known, names)]
        at = match.end()
    return "".join([*parts, _text(pattern[at:]), "\n"])


def _text(pattern: str) -> str:
    return ".*".join(re.escape(part) for part in pattern.split(ANY))


def _id(token: str, known: Mapping[str, str], names: dict[str, str]) -> str:
    if token in known:
        return re.escape(known[token])
    earlier = next((name for name, named in names.items() if named == token), None)
    if earlier is not None:
        return f"(?P={earlier})"
    name = f"id{len(names)}"
    names[name] = token
    return rf"(?P<{name}>[0-9a-f]+{re.escape(token.partition(ANY)[2])})"


OWN_TERMINAL = "# in a terminal of its own"
PROMPT = "$ "


class Save(NamedTuple):
    """A file to save."""

    line: int
    name: str
    text: str


class Start(NamedTuple):
    """A program that goes on running."""

    line: int
    command: str


class Enter(NamedTuple):
    """A command, and what the page shows that it prints; None: the page does not say."""

    line: int
    command: str
    shown: tuple[str, ...] | None


Step = Save | Start | Enter


def steps(text: str) -> Iterator[Step]:
    """What a page asks for, in its order."""
    for fence in fenced(text):
        if fence.name is not None and fence.language not in ("sh", "console"):
            yield Save(fence.line, fence.name, fence.body)
        elif fence.language == "sh" and fence.body.startswith(OWN_TERMINAL):
            yield from (Start(*one) for one in _commands(fence))
        elif fence.language == "sh":
            yield from (Enter(*one, None) for one in _commands(fence))
        elif fence.language == "console":
            yield from _session(fence)


def _commands(fence: Fence) -> Iterator[tuple[int, str]]:
    """The commands of a block; one may take several lines."""
    lines = list(enumerate(fence.body.splitlines(), fence.line))
    while lines:
        line, text = lines.pop(0)
        while _goes_on(text) and lines:
            text += "\n" + lines.pop(0)[1]
        if text.strip() and not text.startswith("#"):
            yield line, text


def _session(fence: Fence) -> Iterator[Enter]:
    """The commands of a block that shows what they print."""
    lines = list(enumerate(fence.body.splitlines(), fence.line))
    while lines:
        line, text = lines.pop(0)
        assert text.startswith(PROMPT), f"line {line}: a console begins with a command: {text!r}"
        text = text.removeprefix(PROMPT)
        while _goes_on(text) and lines:
            text += "\n" + lines.pop(0)[1]
        shown = []
        while lines and not lines[0][1].startswith(PROMPT):
            shown.append(lines.pop(0)[1])
        yield Enter(line, text, tuple(shown))


def _goes_on(text: str) -> bool:
    """Whether a shell would wait for another line of the command."""
    if text.endswith(("\\", "|")):
        return True
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True
    return False


PATIENCE = 60.0
END = "end-of-the-command"
# A status that is no success is a failure: no page shows a refused request as one that is done.
BEGIN = 'curl() { command curl --silent --show-error --fail-with-body "$@"; }\n'


class Ended(NamedTuple):
    """How a command ended, and all that it printed."""

    code: int
    printed: str


class Shell:
    """Use it in `with`: what it has started in the background ends with the block."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._popen = subprocess.Popen(
            ["/bin/sh"],
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._write(BEGIN)

    def __enter__(self) -> "Shell":
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()
        self._popen.wait(PATIENCE)
        for stream in (self._popen.stdin, self._popen.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def enter(self, command: str) -> Ended:
        """Variables and the folder stay as the command leaves them; its input is empty."""
        with contextlib.suppress(BrokenPipeError):
            self._write(f"{{ {command}\n}} </dev/null\nprintf '\\n{END} %d\\n' \"$?\"\n")
        watch = threading.Timer(PATIENCE, self._kill)
        watch.start()
        try:
            return self._read()
        finally:
            watch.cancel()

    def _read(self) -> Ended:
        assert self._popen.stdout is not None
        lines: list[str] = []
        for line in self._popen.stdout:
            if line.startswith(END):
                return Ended(int(line.split()[1]), "".join(lines))
            lines.append(line)
        return Ended(-1, "".join([*lines, "(the shell has ended, or the command took too long)\n"]))

    def _write(self, text: str) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.write(text)
        self._popen.stdin.flush()

    def _kill(self) -> None:
        if self._popen.poll() is None:
            os.killpg(self._popen.pid, signal.SIGKILL)


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
