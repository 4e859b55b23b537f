"""The executor itself: it names page and line of what is wrong; pages that are right are run beside this."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rows import each_row
from tests.wire.docs.executor import (
    Executor,
    WrongPage,
    compare,
    executor,
)

WRONG = {
    "output": ("text\n\n```console\n$ echo a\na\n$ echo b\nc\n```\n", 6, "printed:\nb\nand not:\nc"),
    "more output": ("```console\n$ printf 'a\\nb\\n'\na\n```\n", 2, "and not:\na"),
    "output unsaid": ("```console\n$ echo a\n```\n", 2, "printed:\na"),
    "command": ("```sh\ntrue\nfalse\n```\n", 3, "ended with 1"),
    "no such command": ("```sh\nno-such-command\n```\n", 2, "ended with 127"),
    "command of ours": (
        "```sh\npunctual timers preview never\n```\n",
        2,
        "punctual timers preview never\nended with",
    ),
    "option": ("```sh\npunctual jobs list --none\n```\n", 2, "ended with 2"),
    "shell": ("```sh\nexit 3\n```\n", 2, "the shell has ended"),
    "program": ("```sh\n# in a terminal of its own\necho never ready\n```\n", 3, "it ended before"),
    "request": ("```sh\ncurl http://127.0.0.1:9000/\n```\n", 2, "ended with 7"),
}


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Executor]:
    """One in an empty folder; nothing listens on the ports of its pages."""
    with executor(tmp_path) as made:
        yield made


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_page_is_found(reader: Executor, wrong: str) -> None:
    """With its name, the line of the command, and what happened."""
    page, line, message = WRONG[wrong]
    with pytest.raises(WrongPage) as found:
        reader.follow("wrong.md", page)
    assert str(found.value).startswith(f"wrong.md:{line}: ")
    assert message in str(found.value)


@each_row(
    ("shown", "printed", "fits"),
    [
        (["a  b"], "a      b\n", True),
        (["a … c"], "a b c\n", True),
        (["a … c"], "a b d\n", False),
        (["a", "…", "c"], "a\nb\nb\nc\n", True),
        (["a", "…"], "a\n", True),
        (["a.c"], "abc\n", False),
        (["0f3c…-1 is 0f3c…-1"], "aa-1 is aa-1\n", True),
        (["0f3c…-1 is 0f3c…-1"], "aa-1 is ab-1\n", False),
        (["0f3c…-1"], "aa-2\n", False),
    ],
)
def test_what_varies(shown: list[str], printed: str, fits: bool) -> None:
    """`…` is any text in a line, a line of it any lines; ids are the same wherever they stand."""
    assert compare(shown, printed, {}) is fits
