"""The executor itself: it follows what is right, and names page and line of what is wrong."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rows import each_row
from tests.wire.docs.executor import (
    Enter,
    Executor,
    Save,
    Start,
    WrongPage,
    compare,
    executor,
    fill_in,
    steps,
)

RIGHT = """
Save this as `names.txt`:

```text
ann
bob
```

```sh
WHO=$(head -n 1 names.txt) # variables stay
printf '%s\\n' "$WHO" \\
  "and more"
```

```console
$ echo "$WHO"; cat names.txt
ann
…
$ true
$ punctual version
punctual  …
python    3.…
formats   state …
$ punctual version |
  grep punctual
punctual  …
```
"""
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


def test_a_right_page_is_followed(reader: Executor) -> None:
    """To its end."""
    assert reader.follow("right.md", RIGHT) == 7


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_page_is_found(reader: Executor, wrong: str) -> None:
    """With its name, the line of the command, and what happened."""
    page, line, message = WRONG[wrong]
    with pytest.raises(WrongPage) as found:
        reader.follow("wrong.md", page)
    assert str(found.value).startswith(f"wrong.md:{line}: ")
    assert message in str(found.value)


def test_a_program_goes_on_running(reader: Executor) -> None:
    """On a port of its own, until the page has ended."""
    page = r"""
```sh
# in a terminal of its own
python3 -c "import http.server as h; s = h.HTTPServer(('127.0.0.1', 9000), h.SimpleHTTPRequestHandler); \
print('it listens', flush=True); s.serve_forever()"
```

```console
$ curl http://127.0.0.1:9000/ | grep -c 'Directory listing'
2
```
"""
    assert reader.follow("program.md", page) == 2


def test_steps() -> None:
    """Files, programs and commands, with their lines; a block of another kind asks for nothing."""
    page = (
        "Save it as `a.json`:\n```json\n{}\n```\n```java\nx\n```\n```sh\n# in a terminal of its own\na\n```\n"
    )
    page += "```sh\n# a comment\na 'b\nc'\n```\n```console\n$ a \\\n  b\nc\n\nd\n$ e\n```\n"
    assert list(steps(page)) == [
        Save(3, "a.json", "{}\n"),
        Start(10, "a"),
        Enter(14, "a 'b\nc'", None),
        Enter(18, "a \\\n  b", ("c", "", "d")),
        Enter(23, "e", ()),
    ]


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


def test_ids_are_known_afterwards() -> None:
    """Commands may name them, and they stay what they are."""
    known: dict[str, str] = {}
    assert compare(["id  0f3c…-7", "other 1b…"], "id  abc-7\nother ffff\n", known)
    assert (
        fill_in("punctual executions get 0f3c…-7 1b… 2c…", known) == "punctual executions get abc-7 ffff 2c…"
    )
    assert not compare(["0f3c…-7"], "abd-7\n", known)
