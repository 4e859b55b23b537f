"""Shows results: tables and pages for people, JSON or YAML for programs; colours on a terminal only."""

import codecs
import io
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from scheduler_service.cli.service_connection import SentPart, describe_flaws, read_flaws

MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)")
# Control characters that JSON leaves as they are, those that turn a text's direction, and half characters.
UNSEEN = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
STAND_INS = {
    "…": "...", "→": "->", "–": "-", "—": "-", "─": "-", "━": "-", "│": "|", "▁": "_",
    **dict.fromkeys("▂▃▄▅▆▇█", "#"),
}  # fmt: skip
YAML_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][-+]?[0-9]+)?$")
LONGEST_LINE = 1 << 20
"""Of YAML: a line is not folded, so that a change of it is seen as one."""
SPELLING = "punctual.spelling"
GAP = 2
COMFORT = 30
"""The width that a free column may take before spare columns are left out."""

Row = Mapping[str, Any]


class Format(StrEnum):
    """The values of `-o`."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class Column(NamedTuple):
    """A column of a table: its heading, and what it shows of a row (by default the member of this name).

    A cell of a `free` column may be folded; a `spare` column is left out where the terminal is too narrow.
    """

    name: str
    cell: Callable[[Row], Any] | None = None
    free: bool = False
    spare: bool = False

    def value(self, row: Row) -> Any:
        """What it shows of a row."""
        return row.get(self.name) if self.cell is None else self.cell(row)

    def text(self, row: Row) -> str:
        """The cell of a row."""
        return text_of(self.value(row))


def at(name: str, heading: str | None = None, *, spare: bool = False) -> Column:
    """A column of moments, in UTC to the second."""
    return Column(heading or name, lambda row: moment_text(row.get(name)), spare=spare)


def spell_out_what_streams_lack() -> None:
    """From here on standard output and error escape the characters that their encoding lacks.

    Python escapes them on standard error alone, and raises UnicodeEncodeError on standard output.
    """
    codecs.register_error(SPELLING, _spell)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not where it is closed, or another program's own
            with suppress(OSError):  # of a file that was replaced by a pipe meanwhile
                stream.reconfigure(errors=SPELLING)


def show(data: Any, form: Format, columns: Sequence[str | Column] = ()) -> None:
    """Prints `data`; as a table, `columns` of a list's items, or a single value's members."""
    if form is Format.JSON:
        text = write_json(data)
        print(text if _can_print(text) else UNSEEN.sub(_escape, json.dumps(data, indent=2)))
    elif form is Format.YAML:
        text = write_yaml(data)
        print(text if _can_print(text) else write_yaml(data, allow_unicode=False), end="")
    elif isinstance(data, list):
        RowsPage(columns)({"items": data})
    else:
        show_members(data)


@dataclass(frozen=True)
class RowsPage:
    """A page of a list as people read it. Notes follow it: `empty` if it has no rows, or the next cursor."""

    columns: Sequence[str | Column]
    empty: str = "nothing"

    def __call__(self, page: Mapping[str, Any]) -> None:
        """Prints the page."""
        if page["items"]:
            show_rows(page["items"], self.columns)
        else:
            note(self.empty)
        if page.get("nextCursor"):
            note(f"there is more: --cursor {page['nextCursor']}")


@dataclass(frozen=True)
class FieldsPage:
    """One thing as people read it: a line for each of `columns` that has a value."""

    columns: Sequence[str | Column]

    def __call__(self, data: Row) -> None:
        """Prints it."""
        show_fields((one.name, one.value(data)) for one in named(self.columns))


def show_as(data: Any, form: Format, page: Callable[[Any], None]) -> None:
    """Prints `data`: as `page` does for people, and whole for programs."""
    if form is Format.TABLE:
        page(data)
    else:
        show(data, form)


def show_rows(rows: Iterable[Row], columns: Sequence[str | Column], *, indent: int = 0) -> None:
    """A line per item, below the headings."""
    listed = named(columns)
    _print_table(listed, [[column.text(row) for column in listed] for row in rows], indent=indent)


def show_fields(pairs: Iterable[tuple[str, Any]], *, indent: int = 0) -> None:
    """A line per field, its name in front; fields that are None are left out."""
    rows = [[name, text_of(value)] for name, value in pairs if value is not None]
    _print_table([Column(""), Column("", free=True)], rows, indent=indent, headed=False)


def show_members(data: Any) -> None:
    """A line per member; nested values as JSON."""
    if isinstance(data, dict):
        show_fields((name, "-" if value is None else value) for name, value in data.items())
    else:
        print(text_of(data))


def text_of(value: Any) -> str:
    """A value as a cell; control characters are escaped, so that they cannot drive the terminal."""
    if value is None:
        return "-"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def lines_of(text: str) -> str:
    """Lines for a person; control characters in them are escaped like those of a cell."""
    return "\n".join(map(text_of, text.split("\n")))


def moment_text(moment: Any) -> str | None:
    """`2026-01-31 09:00:00Z`: a moment of the API to the second, in its own zone; anything else as it is."""
    found = MOMENT.fullmatch(moment) if isinstance(moment, str) else None
    return moment if found is None else f"{found[1]} {found[2]}{found[3]}"


def length_text(milliseconds: float | None) -> str | None:
    """`350 ms`, `12.5 s`, `3 min 20 s`, `5 h 3 min`, `2 d 4 h`."""
    if milliseconds is None:
        return None
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.1f} s"
    minutes, seconds = divmod(round(milliseconds / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = ((days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s"))
    first = next(index for index, (number, _) in enumerate(parts) if number)
    return " ".join(f"{number} {unit}" for number, unit in parts[first : first + 2] if number)


def total_text(total: Mapping[str, Any]) -> str:
    """`12`, `10000+`: a total of the API; with a plus there are more."""
    return f"{total['value']}{'+' if total['isCapped'] else ''}"


def total(name: str, member: str) -> Column:
    """A column with a total of the API."""
    return Column(name, lambda row: total_text(row[member]))


def counts(name: str, member: str) -> Column:
    """A column with numbers by name, those that are not 0."""
    return Column(name, lambda row: counts_text(row[member]))


def counts_text(counts: Mapping[str, int]) -> str | None:
    """`active 3, paused 1`: those that are not 0; None: all are."""
    return ", ".join(f"{name} {number}" for name, number in counts.items() if number) or None


def between(start: str | None, end: str | None) -> float | None:
    """The milliseconds between two moments of the API; None if one is missing."""
    if start is None or end is None:
        return None
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds() * 1000


def named(columns: Sequence[str | Column]) -> list[Column]:
    """The columns; a text is one that shows the member of this name."""
    return [Column(column) if isinstance(column, str) else column for column in columns]


def write_json(data: Any) -> str:
    """JSON escapes only what is below a space; a character above it may drive a terminal, too."""
    return UNSEEN.sub(_escape, json.dumps(data, ensure_ascii=False, indent=2))


def write_yaml(data: Any, *, allow_unicode: bool = True) -> str:
    """YAML, in which what is not seen is escaped: a text that has some is quoted."""
    import yaml

    class Dumper(yaml.SafeDumper):  # type: ignore[misc] # it has no types
        pass

    def write_text(dumper: Dumper, text: str) -> yaml.ScalarNode:
        style = '"' if UNSEEN.search(text) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, write_text)
    # A text that `cli.documents` would read as a number is quoted.
    Dumper.add_implicit_resolver("tag:yaml.org,2002:float", YAML_NUMBER, list("-+0123456789"))
    written = yaml.dump(data, Dumper=Dumper, sort_keys=False, allow_unicode=allow_unicode, width=LONGEST_LINE)
    return UNSEEN.sub(_escape, written)


def _can_print(text: str) -> bool:
    """Whether standard output has all characters: what programs read is escaped as their form has it."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _spell(error: UnicodeError) -> tuple[str, int]:
    """Stand-ins for characters (`codecs.register_error`): those of tables and frames, else their numbers."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(STAND_INS.get(one) or ascii(one)[1:-1] for one in letters), error.end


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def note(text: str) -> None:
    """Prints a line for a person, on standard error, behind what was printed before."""
    sys.stdout.flush()
    print(lines_of(text), file=sys.stderr)


def note_warnings(warnings: Iterable[Mapping[str, Any]], part: SentPart | None = None) -> None:
    """Prints the warnings of an answer, on standard error; `part` says from which file the request was."""
    for line in describe_flaws(read_flaws(warnings), part):
        note(f"warning: {line}")


def _print_table(
    columns: list[Column], rows: list[list[str]], *, indent: int = 0, headed: bool = True
) -> None:
    """Folds cells to the width of a terminal; without one, a row is one line of any length."""
    if sys.stdout.isatty():
        _print_folded(columns, rows, indent, headed=headed)
    else:
        _print_plain([[column.name for column in columns], *rows] if headed else rows, indent)


def _print_folded(columns: list[Column], rows: list[list[str]], indent: int, *, headed: bool) -> None:
    from rich.cells import cell_len
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table

    width, height = shutil.get_terminal_size()
    natural = [
        max(cell_len(text) for text in (column.name, *(row[index] for row in rows)))
        for index, column in enumerate(columns)
    ]
    widths = _share(columns, natural, width - indent)
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=headed)
    for index, own in widths.items():
        table.add_column(columns[index].name, overflow="fold", width=own)
    for row in rows:
        table.add_row(*(row[index] for index in widths))
    console = Console(markup=False, emoji=False, highlight=False, width=width, height=height)
    console.print(Padding(table, (0, 0, 0, indent)))


def _share(columns: list[Column], natural: list[int], width: int) -> dict[int, int]:
    """The columns that are shown, and their widths.

    Spare columns go, the last one first, until the free ones are comfortable; then these share what is left.
    """
    kept = list(range(len(columns)))
    free = [index for index in kept if columns[index].free]
    while True:
        left = width - GAP * (len(kept) - 1) - sum(natural[index] for index in kept if index not in free)
        spare = [index for index in kept if columns[index].spare]
        if not spare or sum(min(natural[index], COMFORT) for index in free) <= left:
            break
        kept.remove(spare[-1])
        free = [index for index in free if index in kept]
    widths = {index: natural[index] for index in kept}
    for count, index in enumerate(sorted(free, key=lambda index: natural[index])):
        widths[index] = max(1, min(natural[index], left // (len(free) - count)))
        left -= widths[index]
    return widths


def _print_plain(rows: list[list[str]], indent: int) -> None:
    from rich.cells import cell_len  # a letter of Chinese is two columns wide

    lengths = [[cell_len(cell) for cell in row] for row in rows]
    widths = [max(column) for column in zip(*lengths, strict=True)]
    for row, own in zip(rows, lengths, strict=True):
        cells = (cell + " " * (width - wide) for cell, width, wide in zip(row, widths, own, strict=True))
        print((" " * indent + (" " * GAP).join(cells)).rstrip())
