"""Reads files of definitions, strict JSON, JSON5 or YAML; errors and values have line and column."""

import json
import os
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from client_sdk.models import write_pointer
from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.json5 import LONGEST_INTEGER, Json5Error, Json5Reader

YAML_SUFFIXES = frozenset({".yaml", ".yml"})
MAX_VALUES = 1_000_000
LONGEST_BYTES = 16 << 20
"""Of a file: as much as the API takes in one request (SPEC section 10)."""
MOST_BYTES = 64 << 20
"""Of all files that are read together."""
JSON5_SUFFIXES = frozenset({".json5", ".jsonc"})
SUFFIXES = YAML_SUFFIXES | JSON5_SUFFIXES | {".json"}
"""Of the files that are read of a folder."""
KIND = "kind"


class DocumentKind(StrEnum):
    """What a document declares; `Job` where it does not say."""

    CALENDAR = "Calendar"
    SERVICE = "Service"
    JOB = "Job"


# A string, or a constant outside of any string.
_CONSTANTS = re.compile(r'"(?:[^"\\]|\\.)*"|(-?(?:NaN|Infinity))', re.DOTALL)


# A plain value that begins with a sign of YAML, or has a colon or a comment in it.
_TO_BE_QUOTED = re.compile(r"\s*(?:- +)*(?:[\w.-]+ *: +|- +)((?:[*&@`%?!|>]|\{\{|\[\[|[^\s\"'{[].*: ).*?)\s*")
# The same within braces or brackets, where a value ends at the next of them or at a comma, `${…}` apart.
_TO_BE_QUOTED_WITHIN = re.compile(
    r"[{[,] *(?:[\w.-]+ *: +)?((?:[*&@`%!|>]|[^\s\"'{}\[\],]*\$\{[^{}]*\})(?:\$\{[^{}]*\}|[^,{}\[\]])*)"
)


class DefinitionFile(NamedTuple):
    """The content of a file, or one document of it. `places`: JSON Pointer to (line, column), both from 1."""

    name: str
    value: Any
    places: dict[str, tuple[int, int]]

    def place_of(self, pointer: str) -> str:
        """`3:14`, the place of the value at `pointer` or of the nearest one around it."""
        while pointer not in self.places and pointer:
            pointer = pointer.rpartition("/")[0]
        line, column = self.places.get(pointer, (1, 1))
        return f"{line}:{column}"

    def definitions(self, pointer: str = "") -> "list[DefinitionInFile]":
        """Those of the array at `pointer`, or the one that is there."""
        value = self.value if not pointer else self.value.get(pointer[1:])
        if not isinstance(value, list):
            return [DefinitionInFile(value, self, pointer)]
        return [DefinitionInFile(one, self, f"{pointer}/{index}") for index, one in enumerate(value)]


class DefinitionInFile(NamedTuple):
    """What stands at `pointer` in a file; any value, for it is not checked."""

    value: Any
    document: DefinitionFile
    pointer: str

    @property
    def kind(self) -> DocumentKind:
        """Raises CommandError where it names none of these."""
        given = self.value.get(KIND, DocumentKind.JOB) if isinstance(self.value, dict) else DocumentKind.JOB
        if given not in list(DocumentKind):
            place = f"{self.document.name}:{self.document.place_of(f'{self.pointer}/{KIND}')}"
            kinds = ", ".join(sorted(DocumentKind))
            text = f"kind {given!r} is none of {kinds}; a document without kind is a Job"
            raise CommandError(f"{place}: {text}", Exit.USAGE)
        return DocumentKind(given)

    @property
    def named_by(self) -> str:
        """The member that names it."""
        return "jobId" if self.kind is DocumentKind.JOB else "name"

    @property
    def name(self) -> str | None:
        """The jobId of a job, the name of another kind; None where it has none that is a text."""
        name = self.value.get(self.named_by) if isinstance(self.value, dict) else None
        return name if isinstance(name, str) else None

    @property
    def body(self) -> Any:
        """What the service takes of it."""
        if not isinstance(self.value, dict):
            return self.value
        own = {KIND} if self.kind is DocumentKind.JOB else {KIND, "name"}
        return {name: value for name, value in self.value.items() if name not in own}

    @property
    def name_place(self) -> str:
        """`jobs.json:3:14`, where its name is."""
        return f"{self.document.name}:{self.document.place_of(f'{self.pointer}/{self.named_by}')}"


def find_repeated(definitions: Iterable[DefinitionInFile]) -> dict[int, str]:
    """What is wrong with the names that an earlier one of the same kind in these files has, by index."""
    first: dict[tuple[DocumentKind, str], str] = {}
    found = {}
    for index, one in enumerate(definitions):
        if one.name is None:
            continue
        key = (one.kind, one.name)
        if key in first:
            what = "jobId" if one.kind is DocumentKind.JOB else f"{one.kind} name"
            found[index] = f"{what} {one.name!r} is given at {first[key]} already; choose another one"
        first.setdefault(key, one.name_place)
    return found


def read_document(source: Path) -> DefinitionFile:
    """The one document of a file, or of standard input if `source` is `-`, as `read_documents` reads it."""
    documents = read_documents(source)
    if len(documents) > 1:
        text = f"{documents[0].name} holds {len(documents)} documents; give a file with one"
        raise CommandError(f"{text}, or take 'punctual jobs apply' for many", Exit.USAGE)
    return documents[0] if documents else DefinitionFile(_name_of(source), None, {})


def read_one(source: Path, kind: DocumentKind, name: str | None = None) -> DefinitionFile:
    """The one document of a file, without `kind`, which it need not say, and without the name of what is none
    of a job: that is given on the command line. Raises CommandError where the file says something else.
    """
    document = read_document(source)
    value = document.value
    if not isinstance(value, dict):
        return document
    own = {KIND: kind.value} | ({} if kind is DocumentKind.JOB else {"name": name})
    for member, meant in own.items():
        if value.get(member, meant) != meant:
            place = f"{document.name}:{document.place_of(f'/{member}')}"
            raise CommandError(f"{place}: {member} {value[member]!r} is not {meant!r}", Exit.USAGE)
    return document._replace(value={key: inner for key, inner in value.items() if key not in own})


Refuse = Callable[[CommandError], None]


def _raise(error: CommandError) -> None:
    raise error


def read_sources(
    sources: Iterable[Path], *, allow_empty: bool = False, refuse: Refuse = _raise
) -> list[DefinitionFile]:
    """All documents of files and folders, in the order of their names. Raises CommandError.

    Of a folder, and of those in it, each file with one of `SUFFIXES`; what begins with a dot is left out. A
    folder behind a link is refused: what is not seen would be missing without a word. So is one without any
    such file, unless `allow_empty`. `refuse` is told of each file that cannot be read; where it does not
    raise, the others are read.
    """
    texts: list[tuple[Path, str]] = []
    found: list[DefinitionFile] = []
    left = MOST_BYTES
    for source in sources:
        files = list(_find_files(source, refuse))
        if not files and not allow_empty:
            kinds = ", ".join(sorted(SUFFIXES))
            raise CommandError(f"{source} holds no file of definitions ({kinds})", Exit.USAGE)
        for file in files:
            try:
                texts.append((file, read_text(file)))
            except CommandError as error:
                refuse(error)
                continue
            left -= len(texts[-1][1])
            if left < 0:
                message = f"the files together are larger than {MOST_BYTES >> 20} MiB; give them in parts"
                raise CommandError(message, Exit.USAGE)
    for file, text in texts:
        try:
            found += _read_all(file, _name_of(file), text)
        except CommandError as error:
            refuse(error)
    return found


def read_documents(source: Path) -> list[DefinitionFile]:
    """Reads a file, or standard input if `source` is `-`; YAML may have several documents, none is left out.

    The suffix decides the format, by default JSON; of standard input what it begins with. Raises CommandError
    with the line and column of the error.
    """
    return _read_all(source, _name_of(source), read_text(source))


def _read_all(source: Path, name: str, text: str) -> list[DefinitionFile]:
    is_given_yaml = str(source) == "-" and text.strip() and text.lstrip()[0] not in "{["
    if source.suffix.lower() in YAML_SUFFIXES or is_given_yaml:
        return list(_read_yaml(name, text))
    if source.suffix.lower() in JSON5_SUFFIXES:
        return [_read_json5(name, text)]
    return [_read_json(name, text)]


def _find_files(source: Path, refuse: Refuse) -> Iterator[Path]:
    """The files of a folder, in order of their names; `source` itself where it is none."""
    if str(source) == "-" or not source.is_dir():
        yield source
        return
    waiting = _list(source, refuse)
    while waiting:
        entry = waiting.pop()
        if entry.name.startswith("."):
            continue
        if entry.is_symlink() and entry.is_dir():
            text = f"{entry.path} is a link to a folder, which is not followed; give that folder with -f"
            refuse(CommandError(text, Exit.USAGE))
        elif entry.is_dir():
            waiting += _list(Path(entry.path), refuse)
        elif Path(entry.name).suffix.lower() in SUFFIXES:
            if entry.is_file() or entry.is_symlink():
                yield Path(entry.path)
            else:
                refuse(CommandError(f"{entry.path} is no file; take it away", Exit.USAGE))


def _list(folder: Path, refuse: Refuse) -> "list[os.DirEntry[str]]":
    """What is in a folder, the last name first."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda one: one.name, reverse=True)
    except OSError as error:
        refuse(CommandError(f"{folder} cannot be read: {error.strerror}", Exit.USAGE))
        return []


def read_text(source: Path) -> str:
    """A file, or standard input if `source` is `-`, as text. Raises CommandError."""
    name = _name_of(source)
    try:
        raw = _read_bytes(source)
        if len(raw) > LONGEST_BYTES:
            message = f"{name} is larger than {LONGEST_BYTES >> 20} MiB, which no service takes; split it"
            raise CommandError(message, Exit.USAGE)
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {error.strerror}", Exit.USAGE) from error
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        message = f"{name} is not UTF-8: {error.reason} at line {line} (byte {error.start}); save it as UTF-8"
        raise CommandError(message, Exit.USAGE) from error


def _name_of(source: Path) -> str:
    return "standard input" if str(source) == "-" else str(source)


def _read_bytes(source: Path) -> bytes:
    """At most one byte more than a file may have: it may be a device without an end."""
    if str(source) == "-":
        return sys.stdin.buffer.read(LONGEST_BYTES + 1)
    with source.open("rb") as stream:
        return stream.read(LONGEST_BYTES + 1)


def _read_json(name: str, text: str) -> DefinitionFile:
    try:
        # Its values are dropped: numbers are not read, which Python refuses where they are long.
        json.loads(text, parse_constant=_refuse_constant, parse_int=len, parse_float=len)
    except json.JSONDecodeError as error:
        raise _wrong(name, "JSON", error.msg, error.lineno, error.colno) from error
    except _NotANumber as error:
        at = next(found.start() for found in _CONSTANTS.finditer(text) if found[1])
        place = _position(_lines(text), at)
        raise _wrong(name, "JSON", f"{error} is not a JSON number", *place) from error
    except (ValueError, RecursionError) as error:
        message = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
        raise CommandError(f"{name} is not valid JSON: {message}", Exit.USAGE) from error
    return _read_json5(name, text)


class _NotANumber(Exception):
    """`NaN` or `Infinity`, which JSON does not have."""


def _refuse_constant(constant: str) -> None:
    raise _NotANumber(constant)


def _read_json5(name: str, text: str) -> DefinitionFile:
    reader = Json5Reader(text)
    try:
        value = reader.read()
    except Json5Error as error:
        raise _wrong(name, "JSON", error.message, *_position(_lines(text), error.at)) from error
    lines = _lines(text)
    return DefinitionFile(
        name, value, {pointer: _position(lines, at) for pointer, at in reader.places.items()}
    )


def _lines(text: str) -> list[int]:
    """The offset at which each line begins."""
    return [0, *(match.end() for match in re.finditer("\n", text))]


def _position(lines: list[int], at: int) -> tuple[int, int]:
    line = bisect_right(lines, at)
    return line, at - lines[line - 1] + 1


def _read_yaml(name: str, text: str) -> Iterator[DefinitionFile]:
    """Its documents; one in which nothing is written is none."""
    try:
        loader = _JsonValueLoader(text)  # looks at the characters
    except yaml.YAMLError as error:
        raise CommandError(f"{name} cannot be read as YAML: {error}", Exit.USAGE) from error
    left = MAX_VALUES
    try:
        while loader.check_node():
            node = loader.get_node()
            left -= _size(node, {})
            if left < 0:
                raise _wrong(name, "YAML", f"its aliases expand to more than {MAX_VALUES} values", 1, 1)
            value = loader.construct_document(node)
            json.dumps(value, allow_nan=False)
            places: dict[str, tuple[int, int]] = {}
            _locate(name, node, "", places)
            if value is not None:
                yield DefinitionFile(name, value, places)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        advice = _advise_yaml([*text.splitlines(), ""][line - 1])
        raise _wrong(name, "YAML", error.problem or "it cannot be read", line, column, advice) from error
    except (yaml.YAMLError, TypeError, ValueError, RecursionError) as error:
        message = f"{name} cannot be read as YAML with the values of JSON: {error}"
        raise CommandError(message, Exit.USAGE) from error
    finally:
        loader.dispose()


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """The number of values with all aliases expanded; one that contains itself counts once."""
    if id(node) not in known:
        known[id(node)] = 1
        parts = node.value if isinstance(node, yaml.CollectionNode) else ()
        inner = (value for _, value in parts) if isinstance(node, yaml.MappingNode) else parts
        known[id(node)] = 1 + sum(_size(part, known) for part in inner)
    return known[id(node)]


def _locate(name: str, node: yaml.Node, pointer: str, places: dict[str, tuple[int, int]]) -> None:
    places[pointer] = (node.start_mark.line + 1, node.start_mark.column + 1)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = pointer + write_pointer([str(key.value)])
            place = (key.start_mark.line + 1, key.start_mark.column + 1)
            if key.value == "<<" and key.style is None and isinstance(value, yaml.CollectionNode):
                advice = "write its members out, or take an alias as the whole value"
                raise _wrong(name, "YAML", "merge keys (<<) are not read", *place, advice)
            if inner in places:
                raise _wrong(name, "YAML", f"the name {key.value!r} is given twice", *place)
            _locate(name, value, inner, places)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _locate(name, item, f"{pointer}/{index}", places)


def _construct_integer(loader: yaml.SafeLoader, node: yaml.Node) -> int | float:
    """A long one becomes a float, as in JSON5: Python refuses to read it as an integer."""
    if isinstance(node.value, str) and len(node.value) >= LONGEST_INTEGER:
        return float(node.value)
    number: int = loader.construct_yaml_int(node)
    return number


class _JsonValueLoader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML with JSON values only (the core schema): no dates, no `yes`, no sexagesimal numbers."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the base class has it so
        None: [
            ("tag:yaml.org,2002:null", re.compile(r"(null|~|)$")),
            ("tag:yaml.org,2002:bool", re.compile(r"(true|false)$")),
            ("tag:yaml.org,2002:int", re.compile(r"[-+]?(0|[1-9][0-9]*)$")),
            ("tag:yaml.org,2002:float", re.compile(r"[-+]?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][-+]?[0-9]+)?$")),
        ]
    }
    yaml_constructors = {  # noqa: RUF012 - the base class has it so
        **yaml.SafeLoader.yaml_constructors,
        "tag:yaml.org,2002:int": _construct_integer,
    }


def _advise_yaml(line: str) -> str:
    """What to write in a line whose value means something else in YAML, or an empty text."""
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return "indent with blanks, not with tabs"
    found = _TO_BE_QUOTED.fullmatch(line) or _TO_BE_QUOTED_WITHIN.search(line)
    return f"write the value in quotes: {json.dumps(found[1].rstrip(), ensure_ascii=False)}" if found else ""


def _wrong(name: str, form: str, message: str, line: int, column: int, advice: str = "") -> CommandError:
    text = f"{name} is not valid {form}: {message} at line {line}, column {column}"
    return CommandError(f"{text}; {advice}" if advice else text, Exit.USAGE)
