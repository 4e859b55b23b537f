"""The console's files as they are served: joined, hashed and compressed once."""

import gzip
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

from scheduler_service.console.modules import CORE, bundle_core, bundle_screen
from scheduler_service.console.screens import (
    TextUse,
    screen_of_style,
    screens_of,
    write_json,
    write_screen,
)
from scheduler_service.console.vue import read_vue

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


@dataclass(frozen=True, slots=True)
class Asset:
    """A file: its content, the same compressed, and its media type."""

    content: bytes
    compressed: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class ConsoleFiles:
    """All files by the names under which they are served, the page, and the hash of all that."""

    index: str
    assets: Mapping[str, Asset]
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
    core = bundle_core(modules)
    bundles = {name: bundle_screen(modules, name, core=core) for name in screens}
    styles = _join_styles(texts, screens)
    joined = {CORE: core.text, "console.css": styles[""]}
    use = TextUse(modules)
    for path, language in _languages(texts):
        divided = use.divide(json.loads(texts[path]))
        joined[path] = write_json(divided[""])
        for name, bundle in bundles.items():
            file = f"screens/{name}.{language}.js"
            joined[file] = write_screen(bundle, texts=divided[name], styles=styles[name])
    joined |= {path.removeprefix("icons/"): text for path, text in texts.items() if path.startswith("icons/")}
    return joined


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
    core = bundle_core(modules)
    used = set(core.paths)
    for name in screens_of(modules):
        used |= set(bundle_screen(modules, name, core=core).paths)
    return sorted(set(modules) - used)


def _asset(name: str, content: bytes) -> Asset:
    return Asset(content, gzip.compress(content, 9, mtime=0), TYPES[name.rpartition(".")[2]])
