"""Joins modules to a bundle, so that a browser asks for a few files and not for each module.

A bundle has the text of its modules in the order of their dependencies, without their imports, the word
`export` and comments on lines of their own, and one list of exported names at its end. The form that modules
have is in decision 40. What each browser refuses itself, as a name that two modules of a bundle declare, is
left to it; the tests of the console load every bundle.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from posixpath import dirname, join, normpath

from scheduler_service.domain.errors import PunctualError

MAIN = "main.js"
CORE = "core.js"
"""The bundle of `main.js`; the name by which modules of a screen import from it, and from `MORE`."""
MORE = "more.js"
"""The bundle of what several screens use and the first page does not, loaded with the first of them."""
CORE_FOLDERS = ("core/", "components/", "shell/")
SCREEN = "Screen"
_NAME = re.compile(r"[\w$]+")
_COMMENT = re.compile(r"^[ \t]*(?://[^\n]*|/\*(?:(?!\*/).)*\*/[ \t]*)(?:\n|\Z)", re.MULTILINE | re.DOTALL)
_IMPORT = re.compile(r'^import (?:\{([^}]*)\} from )?"(\.[^"\n]*)";(?:\n|\Z)', re.MULTILINE)
_EXPORT = re.compile(
    r"^export (?=(?:const|let) (?P<names>[\w$]+|\{[^{}:]*\})"
    r"|(?:async )?function\*? (?P<function>[\w$]+)|class (?P<class>[\w$]+))",
    re.MULTILINE,
)
_BEGIN = re.compile(r"^(?:import|export)\b(?!\s*[.(:,=])", re.MULTILINE)


class ConsoleError(PunctualError):
    """The console cannot be served; the message names the remedy."""


class VueMissing(ConsoleError):
    """The package that carries Vue is not installed."""


class ModuleError(ConsoleError):
    """A module is not of the form that a bundle takes: `FILE:LINE: what, and what to do`."""

    def __init__(self, path: str, line: int, message: str) -> None:
        super().__init__(f"{path}:{line}: {message}")


@dataclass(frozen=True, slots=True)
class ModuleBundle:
    """A module for browsers: its text, its exports, and the paths of the modules in it, in their order."""

    text: str
    exports: tuple[str, ...]
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConsoleModule:
    """A module of the sources: its path, its text, and the names that it exports."""

    path: str
    text: str
    exports: frozenset[str]


def bundle_core(texts: Mapping[str, str]) -> ModuleBundle:
    """`main.js` with all that it imports below `core`, `components` and `shell`.

    `texts` maps paths to texts. Raises ModuleError with file, line and remedy.
    """
    return _join(_EntryModules(texts, folders=(MAIN, *CORE_FOLDERS), outside={}).collect(MAIN))


def bundle_more(texts: Mapping[str, str], *, core: ModuleBundle) -> ModuleBundle:
    """`more.js` with all that it imports and `core` does not have.

    Raises ModuleError with file, line and remedy.
    """
    reading = _EntryModules(texts, folders=(MORE, *CORE_FOLDERS), outside={CORE: core})
    return _join(reading.collect(MORE), taken=reading.taken, root="./")


def bundle_screen(
    texts: Mapping[str, str], name: str, *, core: ModuleBundle, more: ModuleBundle
) -> ModuleBundle:
    """`screens/NAME/screen.js` with what it imports from its folder; the rest comes from `core` and `more`.

    Raises ModuleError with file, line and remedy.
    """
    folder = f"screens/{name}/"
    entry = f"{folder}screen.js"
    reading = _EntryModules(texts, folders=(folder,), outside={CORE: core, MORE: more})
    modules = reading.collect(entry)
    if SCREEN not in modules[-1].exports:
        message = f"a screen exports {SCREEN}; declare it by export const {SCREEN}"
        raise ModuleError(entry, 1, message)
    return _join(modules, taken=reading.taken, root="../")


class _EntryModules:
    """The modules that an entry needs, in the order of their dependencies.

    `taken` are names of other bundles, `outside`, by the name of the bundle.
    """

    def __init__(
        self, texts: Mapping[str, str], *, folders: Collection[str], outside: Mapping[str, ModuleBundle]
    ) -> None:
        self.taken: dict[str, set[str]] = {name: set() for name in outside}
        self._texts = texts
        self._folders = tuple(folders)
        self._outside = outside
        self._found: dict[str, ConsoleModule] = {}
        self._open: list[str] = []

    def collect(self, entry: str) -> tuple[ConsoleModule, ...]:
        """All of them; the entry is the last."""
        if entry not in self._texts:
            raise ModuleError(entry, 1, "there is no such file; it is the entry of a bundle")
        self._visit(entry)
        return tuple(self._found.values())

    def _visit(self, path: str) -> ConsoleModule:
        text = self._texts[path]
        self._open.append(path)
        for found in _IMPORT.finditer(text):
            target, names = normpath(join(dirname(path), found[2])), set(_NAME.findall(found[1] or ""))
            exports, wrong = self._exports_of(target)
            if wrong is None and (lacking := names.difference(exports)):
                wrong = f"{target} exports no {', '.join(sorted(lacking))}; export it there"
            if wrong is not None:
                raise ModuleError(path, line_of(text, found.start()), wrong)
            if target == CORE or self._is_outside(target):
                for name, bundle in self._outside.items():
                    self.taken[name] |= names.intersection(bundle.exports)
        self._open.pop()
        module = self._found[path] = read_module(path, text)
        return module

    def _exports_of(self, target: str) -> tuple[Collection[str], str | None]:
        """What `target` exports, and what is wrong with importing it."""
        if target == CORE and self._outside:
            return {name for bundle in self._outside.values() for name in bundle.exports}, None
        if self._is_outside(target):
            return read_module(target, self._texts[target]).exports, None
        if target in self._open:
            return (), f"modules import in a circle: {' > '.join([*self._open, target])}; move what both need"
        if target not in self._texts or not target.startswith(self._folders):
            return (), f"there is no {target} in this bundle; import from {', '.join(self._folders)}"
        return (self._found.get(target) or self._visit(target)).exports, None

    def _is_outside(self, target: str) -> bool:
        """Whether a module that could be in this bundle is in another one."""
        known = any(target in bundle.paths for bundle in self._outside.values())
        return known and target.startswith(self._folders)


def read_module(path: str, text: str) -> ConsoleModule:
    """A module as a bundle has it. Raises ModuleError for another form of import or export."""
    named = (found["names"] or found["function"] or found["class"] for found in _EXPORT.finditer(text))
    exports = frozenset(name for names in named for name in _NAME.findall(names))
    taken = {found.start() for form in (_IMPORT, _EXPORT) for found in form.finditer(text)}
    for other in _BEGIN.finditer(text):
        if other.start() not in taken:
            message = (
                'this form is not taken; write import { a } from "./x.js"; or export before a declaration'
            )
            raise ModuleError(path, line_of(text, other.start()), message)
    kept = _COMMENT.sub("", _EXPORT.sub("", _IMPORT.sub("", text))).strip()
    # The next module may begin with a bracket, which would go on with the last statement of this one.
    end = "\n" if kept.endswith(";") or not kept else "\n;\n"
    return ConsoleModule(path, kept + end, exports)


def line_of(text: str, position: int) -> int:
    """The line of a position, from 1."""
    return text.count("\n", 0, position) + 1


def _join(
    modules: Iterable[ConsoleModule], *, taken: Mapping[str, Collection[str]] | None = None, root: str = ""
) -> ModuleBundle:
    """The bundle, which takes names from others, that lie at `root` as it is seen from the bundle."""
    exports = sorted(name for module in modules for name in module.exports)
    parts = [
        f'import {{ {", ".join(sorted(names))} }} from "{root}{bundle}";\n'
        for bundle, names in (taken or {}).items()
        if names
    ]
    parts += [module.text for module in modules]
    if exports:
        parts.append(f"export {{ {', '.join(exports)} }};\n")
    return ModuleBundle("".join(parts), tuple(exports), tuple(module.path for module in modules))
