"""The console's files as they are served: joined, divided by screens, hashed and compressed once."""

import gzip
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path

from scheduler_service import how_to_install
from scheduler_service.console.modules import (
    CORE,
    MORE,
    ModuleBundle,
    VueMissing,
    bundle_core,
    bundle_more,
    bundle_screen,
)

TYPES = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
}
HASH_LENGTH = 16
COMPILED_APART = b"//# allFunctionsCalledOnLoad\n"
"""Lets V8 compile a file as it arrives, on a thread of its own; to other browsers it is a comment.

Without it the page's own thread compiles each function when it is first called, 30 ms of its CPU.
"""
CARRIER = "trame_client"
PLACE = Path("module/vue3-www/vue.global.js")
_NAMED = re.compile(r"[\"'`]([A-Za-z]\w*(?:\.\w+)+)[\"'`]")
_BEGUN = re.compile(r"`([A-Za-z]\w*\.[\w.]*)\$\{")
_FORM = re.compile(r"\.(?:zero|one|two|few|many|other)$")
_STYLE = re.compile(r"styles/50-([\w-]+)\.css")


@dataclass(frozen=True, slots=True)
class ConsoleAsset:
    """A file: its content, the same compressed, and its media type."""

    content: bytes
    compressed: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class ConsoleFiles:
    """All files by the names under which they are served, the page, and the hash of all that."""

    index: str
    assets: Mapping[str, ConsoleAsset]
    hash: str


def own_files() -> Traversable:
    """The folder of the console's sources in this package."""
    return files("scheduler_service.console") / "static"


def read_files(root: Traversable, *, vue: bytes | None = None) -> ConsoleFiles:
    """Reads, joins and compresses what is below `root`, which takes a fraction of a second.

    `vue` None: that of its package. Raises ModuleError for a module that bundles cannot take, VueMissing.
    """
    texts = dict(_texts(root))
    served = {"vue.js": read_vue() if vue is None else vue}
    served |= {name: text.encode() for name, text in _join_all(texts).items()}
    served |= {name: COMPILED_APART + served[name] for name in ("vue.js", CORE)}
    index = texts["index.html"]
    digest = sha256(index.encode())
    for name, content in sorted(served.items()):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    assets = {name: _asset(name, content) for name, content in served.items()}
    return ConsoleFiles(index, assets, digest.hexdigest()[:HASH_LENGTH])


def _texts(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, str]]:
    """(path, text) of all files, in the order of their names."""
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        path = prefix + entry.name
        if entry.is_dir():
            yield from _texts(entry, f"{path}/")
        elif entry.name.rpartition(".")[2] in {*TYPES, "html"}:
            yield path, entry.read_text(encoding="utf-8")


def _join_all(texts: Mapping[str, str]) -> dict[str, str]:
    modules = {path: text for path, text in texts.items() if path.endswith(".js")}
    screens = screens_of(modules)
    core, more, bundles = _bundle(modules)
    styles = _join_styles(texts, screens)
    joined = {CORE: core.text, MORE: more.text, "console.css": styles[""]}
    use = TextUse(modules)
    for path, language in _languages(texts):
        divided = use.divide(json.loads(texts[path]))
        joined[path] = write_json(divided[""])
        for name, bundle in bundles.items():
            file = f"screens/{name}.{language}.js"
            joined[file] = write_screen(bundle, texts=divided[name], styles=styles[name])
    joined |= {path.removeprefix("icons/"): text for path, text in texts.items() if path.startswith("icons/")}
    return joined


def _bundle(
    modules: Mapping[str, str],
) -> tuple[ModuleBundle, ModuleBundle, dict[str, ModuleBundle]]:
    """The core, what several screens use, and each screen by its name. Raises ModuleError."""
    core = bundle_core(modules)
    more = bundle_more(modules, core=core)
    screens = {name: bundle_screen(modules, name, core=core, more=more) for name in screens_of(modules)}
    return core, more, screens


def _languages(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(path, name) of each language."""
    for path in texts:
        if path.startswith("language/"):
            yield path, path.removeprefix("language/").removesuffix(".json")


def _join_styles(texts: Mapping[str, str], screens: Collection[str]) -> dict[str, str]:
    """The styles of each screen, and as "" those of the page, in the order of their names."""
    joined = dict.fromkeys(("", *screens), "")
    for path, text in texts.items():
        if path.startswith("styles/") and path.endswith(".css"):
            joined[screen_of_style(path, screens) or ""] += text
    return joined


def unused(texts: Mapping[str, str]) -> list[str]:
    """The modules that are in no bundle, which is a mistake in the sources. Raises ModuleError."""
    modules = {path: text for path, text in texts.items() if path.endswith(".js")}
    core, more, screens = _bundle(modules)
    used = {path for bundle in (core, more, *screens.values()) for path in bundle.paths}
    return sorted(set(modules) - used)


def _asset(name: str, content: bytes) -> ConsoleAsset:
    return ConsoleAsset(content, gzip.compress(content, 9, mtime=0), TYPES[name.rpartition(".")[2]])


def read_vue(carrier: str = CARRIER) -> bytes:
    """The script that defines `Vue`. Raises VueMissing, which says what to install."""
    spec = find_spec(carrier)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        file = Path(folder) / PLACE
        if file.is_file():
            return file.read_bytes()
    raise VueMissing(
        f"the console needs Vue from the package {carrier}, which is not there; {how_to_install('console')}"
    )


def screens_of(paths: Collection[str]) -> list[str]:
    """The names of the screens: the folders below `screens` that have a `screen.js`."""
    return [
        path.split("/")[1] for path in paths if path.startswith("screens/") and path.endswith("/screen.js")
    ]


class TextUse:
    """Which modules name which texts. `modules` maps paths to sources."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        named = {path: _ModuleKeys(text) for path, text in modules.items()}
        self._elsewhere = {
            name: [names for path, names in named.items() if not path.startswith(f"screens/{name}/")]
            for name in screens_of(modules)
        }

    def divide(self, texts: Mapping[str, str]) -> dict[str, dict[str, str]]:
        """The texts of one language by the screen with which they travel; those of "" come with the page.

        A text whose key begins with the name of a screen travels with it, unless a module elsewhere names
        the key: whole (without its plural form), or by the begin of a template, as `jobs.${name}`.
        """
        divided: dict[str, dict[str, str]] = {name: {} for name in ("", *self._elsewhere)}
        for key, text in texts.items():
            name = key.partition(".")[0]
            is_its_own = name in self._elsewhere and not any(one.hold(key) for one in self._elsewhere[name])
            divided[name if is_its_own else ""][key] = text
        return divided


class _ModuleKeys:
    """The keys that a module names."""

    def __init__(self, text: str) -> None:
        self._whole = frozenset(_NAMED.findall(text))
        self._begun = tuple(set(_BEGUN.findall(text)))

    def hold(self, key: str) -> bool:
        return key in self._whole or _FORM.sub("", key) in self._whole or key.startswith(self._begun)


def screen_of_style(path: str, screens: Collection[str]) -> str | None:
    """The screen with which `styles/50-NAME.css` or `styles/50-NAME-MORE.css` travels; None: the page."""
    found = _STYLE.fullmatch(path)
    name = found[1] if found else ""
    while name and name not in screens:
        name = name.rpartition("-")[0]
    return name or None


def write_screen(bundle: ModuleBundle, *, texts: Mapping[str, str], styles: str) -> str:
    """The file of a screen in one language: its modules, and `{texts, styles}` as its default export."""
    carried = write_json({"texts": texts, "styles": styles})
    return f"{bundle.text}export default {carried};\n"


def write_json(value: object) -> str:
    """JSON without blanks, which is JavaScript as well (ECMA-262 since 2019)."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
