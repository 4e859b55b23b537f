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


def show_rows(rows: Iterable[dict[str, Any]], columns: Sequence[str]) -> None:
    """A line per item."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(text_of(row.get(column)) for column in columns))
    _console().print(table)


def show_members(data: Any) -> None:
    """A line per member; nested values as JSON."""
    if not isinstance(data, dict):
        print(text_of(data))
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in data.items():
        table.add_row(name, text_of(value))
    _console().print(table)


def text_of(value: Any) -> str:
    """A value in a cell."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def tell(text: str) -> None:
    """A line for a person, beside the result."""
    print(text, file=sys.stderr)


def tell_warnings(envelope: dict[str, Any]) -> None:
    """The warnings of an answer."""
    for warning in envelope.get("warnings") or []:
        tell(f"warning: {warning.get('pointer') or '/'}: {warning.get('message')} [{warning.get('code')}]")


def _console() -> Console:
    return Console(soft_wrap=True, markup=False, emoji=False, highlight=False)
