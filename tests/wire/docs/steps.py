"""What a page asks its reader to do: files to save, programs to start, commands to enter.

* A block with a name ("Save this as `hello.json`:") is a file.
* A block `sh` is commands, each of which must succeed. What they print is not compared.
* A block `console` is commands behind `$ `, each with all that it prints. `…` stands for any text within a
  line, a line `…` for any lines. A text as `0f3c…-7` is the id that was printed there; later commands may
  name it.
* A block `sh` that begins with the comment `# in a terminal of its own` starts a program that keeps running.
"""

import shlex
from collections.abc import Iterator
from typing import NamedTuple

from tests.unit.docs.pages import Fence, fenced

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
