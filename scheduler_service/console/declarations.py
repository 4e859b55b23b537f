"""Reads what a module imports, exports and declares, and refuses every form that bundles cannot take."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from posixpath import dirname, join, normpath

from scheduler_service.console.source import SourceText

_NAME = r"[A-Za-z_$][\w$]*"
_IMPORT = re.compile(rf'import\s*\{{((?:\s*{_NAME}\s*,)*\s*(?:{_NAME})?)\s*\}}\s*from\s*"(\.[^"\n]*)";')
_EFFECT = re.compile(r'import\s*"(\.[^"\n]*)";')
_IMPORT_WORD = re.compile(r"^[ \t]*(import)\b(?!\s*[.(:,=}?)])", re.MULTILINE)
_DYNAMIC = re.compile(r"(?<![\w$.])import\s*\(")
_EXPORT_WORD = re.compile(r"^[ \t]*(export)\b(?!\s*[.(:,=}?)])", re.MULTILINE)
_DECLARED = re.compile(
    rf"(?P<export>export\s+)?(?:(?P<kind>const|let|var)\s+(?:(?P<one>{_NAME})|\{{(?P<many>[^{{}}]*)\}})"
    rf"|(?:async\s+)?function\b\s*\*?\s*(?P<function>{_NAME})|class\s+(?P<class>{_NAME}))(?![\w$])"
)
_MARK = re.compile(
    r"(?P<open>[\[({])|(?P<close>[\])}])"
    r"|(?P<declared>^(?:export\s+)?(?:const|let|var|class|function|async\s+function)(?![\w$]))"
    r"|(?P<hidden>(?<![\w$.])(?:const|let|var)(?![\w$:]))|(?P<another>,\s*[A-Za-z_$][\w$]*\s*=(?![=>]))",
    re.MULTILINE,
)
_GLOBAL_NAMES = """
    Array Blob Boolean Date Error Intl JSON Map Math Number Object Promise Set String URL URLSearchParams Vue
    clearInterval clearTimeout console crypto document fetch history localStorage location navigator
    performance requestAnimationFrame sessionStorage setInterval setTimeout window
"""
GLOBALS = frozenset(_GLOBAL_NAMES.split())
"""A module of a bundle that declared one of these would take it from all the others."""
EFFECTS_IN = "main.js"
DYNAMIC_IN = "core/screens.js"


@dataclass(frozen=True, slots=True)
class Import:
    """One import: its place in the text, the path of the module, and the names (none: for its effect)."""

    start: int
    end: int
    path: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Module:
    """What a module says. `declared` maps its names at the top level to their places in the text.

    `exports` are those of them that it exports, and `export_words` the places of the word `export`.
    """

    source: SourceText
    imports: tuple[Import, ...]
    declared: dict[str, int]
    exports: tuple[str, ...]
    export_words: tuple[tuple[int, int], ...]


def read_module(source: SourceText) -> Module:
    """Reads a module. Raises ModuleError for what is not of the form that decision 40 has."""
    imports = tuple(_imports(source))
    for found in _DYNAMIC.finditer(source.code):
        if source.path != DYNAMIC_IN:
            raise source.refuse(found.start(), f"import(…) stands in {DYNAMIC_IN} alone; import by a line")
    declared: dict[str, int] = {}
    exports: list[str] = []
    words: list[tuple[int, int]] = []
    for found in _declarations(source):
        for name in _names(source, found):
            _check_name(source, name, found.start(), declared)
            declared[name] = found.start()
            if found["export"]:
                exports.append(name)
        if found["export"]:
            words.append(found.span("export"))
    _check_exports(source, {start for start, _ in words})
    return Module(source, imports, declared, tuple(exports), tuple(words))


def _imports(source: SourceText) -> Iterator[Import]:
    end = 0
    for word in _IMPORT_WORD.finditer(source.code):
        start = word.start(1)
        if source.plain[end:start].strip():
            raise source.refuse(start, "imports stand at the top; move this one there")
        named, effect = _IMPORT.match(source.plain, start), _EFFECT.match(source.plain, start)
        found = named or effect
        if found is None or (named is not None and not named[1].strip()):
            message = 'this form of import is not taken; write import { a, b } from "./x.js";'
            raise source.refuse(start, message)
        if effect and source.path != EFFECTS_IN:
            raise source.refuse(start, f"an import without names stands in {EFFECTS_IN} alone; name them")
        end = found.end()
        names = tuple(re.findall(_NAME, named[1])) if named else ()
        target = normpath(join(dirname(source.path), found[2] if named else found[1]))
        yield Import(start, end, target, names)


def _declarations(source: SourceText) -> Iterator[re.Match[str]]:
    """The declarations at the top level, each at the begin of a line."""
    depth = 0
    names_from: int | None = None
    for mark in _MARK.finditer(source.code):
        if mark["open"]:
            depth += 1
        elif mark["close"]:
            depth -= 1
        if depth < 0:
            raise source.refuse(mark.start(), f"{mark[0]!r} closes nothing; look for what is missing before")
        if depth or mark["open"] or mark["close"]:
            continue
        if mark["hidden"]:
            raise source.refuse(mark.start(), "a declaration at the top level begins a line of its own")
        if mark["another"]:
            if names_from is not None and ";" not in source.code[names_from : mark.start()]:
                raise source.refuse(mark.start(), "declare one name at a time at the top level")
            continue
        found = _DECLARED.match(source.code, mark.start())
        if found is None:
            message = "this form of declaration is not taken; declare names, or { a, b }, one kind a line"
            raise source.refuse(mark.start(), message)
        names_from = found.end() if found["kind"] else None
        yield found
    if depth:
        raise source.refuse(len(source.text) - 1, f"{depth} brackets are open at the end; close them")


def _names(source: SourceText, found: re.Match[str]) -> list[str]:
    one = found["one"] or found["function"] or found["class"]
    if one:
        return [one]
    names = [part.strip() for part in found["many"].split(",") if part.strip()]
    if not names or not all(re.fullmatch(_NAME, name) for name in names):
        raise source.refuse(found.start(), "take members by their own names: const { a, b } = …")
    return names


def _check_name(source: SourceText, name: str, place: int, declared: dict[str, int]) -> None:
    if name in declared:
        line = source.line_of(declared[name])
        raise source.refuse(place, f"{name} is declared already in line {line}; name one of them otherwise")
    if name in GLOBALS:
        raise source.refuse(place, f"{name} is the browser's, for all modules of a bundle; use another name")


def _check_exports(source: SourceText, known: set[int]) -> None:
    for word in _EXPORT_WORD.finditer(source.code):
        if word.start(1) not in known:
            message = (
                "this form of export is not taken; write export const, let, function, async function or "
                "class with a name"
            )
            raise source.refuse(word.start(1), message)
