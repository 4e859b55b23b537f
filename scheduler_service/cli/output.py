"""How results are shown: a table for people, JSON or YAML for programs; no colour off a terminal."""

import json
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table


class Format(StrEnum):
    """What `-o` chooses."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def show(data: Any, form: Format, columns: Sequence[str] = ()) -> None:
    """Prints `data`; as a table, `columns` of a list's items, or a single value's members."""
    if form is Format.JSON:
        print(json.dumps(data, ensure_ascii=False, indent=2))
    elif form is Format.YAML:
        print(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), end="")
    elif isinstance(data, list):
        show_rows(data, columns)
    else:
        show_members(data)


def show_page(page: dict[str, Any], form: Format, columns: Sequence[str]) -> None:
    """Prints a list as the API answers it; a table says where it goes on."""
    if form is not Format.TABLE:
        show(page, form)
        return
    show(page["items"], form, columns)
    if page["nextCursor"]:
        note(f"there is more: --cursor {page['nextCursor']}")


def show_rows(rows: Iterable[dict[str, Any]], columns: Sequence[str]) -> None:
    """A line per item."""
    _print_table(columns, [[text_of(row.get(column)) for column in columns] for row in rows])


def show_members(data: Any) -> None:
    """A line per member; nested values as JSON."""
    if isinstance(data, dict):
        _print_table((), [[name, text_of(value)] for name, value in data.items()])
    else:
        print(text_of(data))


def text_of(value: Any) -> str:
    """A value in a cell; what would move a terminal's cursor or colour it is written as an escape."""
    if value is None:
        return "-"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def note(text: str) -> None:
    """A line for a person, beside the result."""
    print(text, file=sys.stderr)


def note_warnings(envelope: dict[str, Any]) -> None:
    """The warnings of an answer."""
    for warning in envelope.get("warnings") or []:
        note(f"warning: {warning.get('pointer') or '/'}: {warning.get('message')} [{warning.get('code')}]")


def _print_table(header: Sequence[str], rows: list[list[str]]) -> None:
    """Folded to the width of a terminal; off one a line stays a line, however long."""
    if not sys.stdout.isatty():
        _print_plain([list(header), *rows] if header else rows)
        return
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=bool(header))
    for column in header or ("", ""):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(markup=False, emoji=False, highlight=False).print(table)


def _print_plain(rows: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
