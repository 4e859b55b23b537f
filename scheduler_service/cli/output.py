"""Shows results: a table for people, JSON or YAML for programs; colours on a terminal only."""

import json
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any


class Format(StrEnum):
    """The values of `-o`."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def show(data: Any, form: Format, columns: Sequence[str] = ()) -> None:
    """Prints `data`; as a table, `columns` of a list's items, or a single value's members."""
    if form is Format.JSON:
        print(json.dumps(data, ensure_ascii=False, indent=2))
    elif form is Format.YAML:
        import yaml

        print(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), end="")
    elif isinstance(data, list):
        show_rows(data, columns)
    else:
        show_members(data)


def show_page(page: dict[str, Any], form: Format, columns: Sequence[str]) -> None:
    """Prints a page of a list; after a table, a note names the next cursor."""
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
    """A value as a cell; control characters are escaped, so that they cannot drive the terminal."""
    if value is None:
        return "-"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def note(text: str) -> None:
    """Prints a line for a person, on standard error."""
    print(text, file=sys.stderr)


def note_warnings(warnings: Iterable[dict[str, Any]]) -> None:
    """Prints the warnings of an answer, on standard error."""
    for warning in warnings:
        note(f"warning: {warning.get('pointer') or '/'}: {warning.get('message')} [{warning.get('code')}]")


def _print_table(header: Sequence[str], rows: list[list[str]]) -> None:
    """Folds cells to the width of a terminal; without one, a row is one line of any length."""
    if not sys.stdout.isatty():
        _print_plain([list(header), *rows] if header else rows)
        return
    from rich.console import Console
    from rich.table import Table

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
