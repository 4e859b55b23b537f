"""Joins modules to a bundle, so that a browser asks for a few files and not for each module.

A bundle has the text of its modules in the order of their dependencies, without their imports, comments and
the word `export`, and one list of exported names at its end. The form that modules have is in decision 40.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from scheduler_service.console.declarations import Import, Module, read_module
from scheduler_service.console.source import ModuleError, SourceText, read_source

MAIN = "main.js"
CORE = "core.js"
"""The bundle of `main.js`; the name by which modules of a screen import from it."""
CORE_FOLDERS = ("core/", "components/", "shell/")
SCREEN = "Screen"


@dataclass(frozen=True, slots=True)
class ModuleBundle:
    """A module for browsers: its text, its exports, and the paths of the modules in it, in their order."""

    text: str
    exports: tuple[str, ...]
    paths: tuple[str, ...]


def bundle_core(texts: Mapping[str, str]) -> ModuleBundle:
    """`main.js` with all that it imports below `core`, `components` and `shell`.

    `texts` maps paths to texts. Raises ModuleError with file, line and remedy.
    """
    modules = _EntryModules(texts, folders=(MAIN, *CORE_FOLDERS), core=None).collect(MAIN)
    return _join(modules, outside=())


def bundle_screen(texts: Mapping[str, str], name: str, *, core: ModuleBundle) -> ModuleBundle:
    """`screens/NAME/screen.js` with what it imports from its folder; the rest comes from `core`.

    Raises ModuleError with file, line and remedy.
    """
    folder = f"screens/{name}/"
    entry = f"{folder}screen.js"
    modules = _EntryModules(texts, folders=(folder,), core=core).collect(entry)
    if SCREEN not in modules[-1].exports:
        raise ModuleError(entry, 1, f"a screen exports {SCREEN}; declare it by export const {SCREEN}")
    return _join(modules, outside=_taken(modules))


class _EntryModules:
    """The modules that an entry needs, in the order of their dependencies."""

    def __init__(
        self, texts: Mapping[str, str], *, folders: Collection[str], core: ModuleBundle | None
    ) -> None:
        self._texts = texts
        self._folders = tuple(folders)
        self._core = core
        self._found: dict[str, Module] = {}
        self._names: dict[str, Module] = {}
        self._open: list[str] = []
        self._doubled: list[ModuleError] = []

    def collect(self, entry: str) -> tuple[Module, ...]:
        """All of them; the entry is the last."""
        if entry not in self._texts:
            raise ModuleError(entry, 1, "there is no such file; it is the entry of a bundle")
        self._visit(entry)
        if self._doubled:
            first, *others = self._doubled
            also = "".join(f"\n{error}" for error in others)
            raise ModuleError(first.path, first.line, f"{first.reason}{also}")
        return tuple(self._found.values())

    def _visit(self, path: str) -> Module:
        module = read_module(read_source(path, self._texts[path]))
        self._open.append(path)
        for one in module.imports:
            exports = self._exports_of(module.source, one)
            for name in one.names:
                if name not in exports:
                    message = f"{one.path} exports no {name}; export it there, or take it from elsewhere"
                    raise module.source.refuse(one.start, message)
        self._open.pop()
        for name, place in module.declared.items():
            if name in self._names:
                other = self._names[name].source
                where = f"{other.path}:{other.line_of(self._names[name].declared[name])}"
                message = f"{name} is declared in {where}, too; in a bundle names are unique"
                self._doubled.append(module.source.refuse(place, message))
            self._names.setdefault(name, module)
        self._found[path] = module
        return module

    def _exports_of(self, source: SourceText, one: Import) -> Collection[str]:
        if one.path == CORE and self._core is not None:
            return self._core.exports
        if one.path in self._open:
            circle = " > ".join([*self._open[self._open.index(one.path) :], one.path])
            raise source.refuse(one.start, f"modules import in a circle: {circle}; move what both need")
        if not one.path.startswith(self._folders) or one.path == MAIN:
            remedy = f"import from {', '.join(self._folders)}" + (f" or {CORE}" if self._core else "")
            raise source.refuse(one.start, f"{one.path} is not of this bundle; {remedy}")
        if one.path not in self._texts:
            raise source.refuse(one.start, f"there is no {one.path}; correct the path")
        return (self._found.get(one.path) or self._visit(one.path)).exports


def _taken(modules: Iterable[Module]) -> list[str]:
    """The names that come from the core; none of them may be declared here as well."""
    taken = {
        name: (module, one)
        for module in modules
        for one in module.imports
        if one.path == CORE
        for name in one.names
    }
    for module in modules:
        for name, place in module.declared.items():
            if name in taken:
                other = taken[name][0].source
                where = f"{other.path}:{other.line_of(taken[name][1].start)}"
                raise module.source.refuse(place, f"{name} is imported in {where}; name this one otherwise")
    return sorted(taken)


def _join(modules: Iterable[Module], *, outside: Collection[str]) -> ModuleBundle:
    exports = sorted(name for module in modules for name in module.exports)
    parts = [f'import {{ {", ".join(outside)} }} from "../{CORE}";\n'] if outside else []
    parts += map(_strip, modules)
    if exports:
        parts.append(f"export {{ {', '.join(exports)} }};\n")
    return ModuleBundle("".join(parts), tuple(exports), tuple(module.source.path for module in modules))


def _strip(module: Module) -> str:
    """The text of a module without its imports, the word `export` and its comments; ends with a new line."""
    source = module.source
    cuts = [(one.start, one.end, "") for one in module.imports]
    cuts += [(start, end, "") for start, end in module.export_words]
    cuts += [_cut_comment(source.text, *place) for place in source.comments]
    parts: list[str] = []
    at = 0
    for start, end, kept in sorted(cuts):
        if start < at:
            continue  # a comment within an import
        parts += [source.text[at:start], kept]
        at = end
    text = "".join([*parts, source.text[at:]]).strip()
    # The next module may begin with a bracket, which would go on with the last statement of this one.
    return f"{text}\n" if text.endswith(";") or not text else f"{text}\n;\n"


def _cut_comment(text: str, start: int, end: int) -> tuple[int, int, str]:
    """What is cut for a comment: its whole lines, where nothing else is on them.

    A comment over several lines ends a statement as a new line does (ECMA-262, section 12.4).
    """
    line = text.rfind("\n", 0, start) + 1
    stop = end if end == len(text) else end + 1
    if not text[line:start].strip() and text[end:stop] in ("", "\n"):
        return line, stop, ""
    return start, end, "\n" if "\n" in text[start:end] else " " if text.startswith("/*", start) else ""
