"""The console's files: joined from those of the package, hashed and compressed."""

import gzip
import json
import re
import shutil
from importlib.resources import as_file
from pathlib import Path

import pytest

from scheduler_service.console.files import own_files, read_files, unused

PLACES = {
    "index.html",
    "vue.js",
    "core.js",
    "console.css",
    "language/en.json",
    "language/zh.json",
    "icon.svg",
}

# Keys that begin so are put together of two values: by the filters of the list of jobs.
BEGINS = ("kind.", "lastOutcome.", "state.")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the real sources."""
    with as_file(own_files()) as real:
        return Path(shutil.copytree(real, tmp_path / "static"))


def test_the_real_sources_are_taken() -> None:
    """The bundler refuses nothing, and every name that the page asks for is there."""
    found = read_files(own_files())
    assert PLACES - {"index.html"} <= found.assets.keys()
    assert all(word in found.index for word in ("{{base}}", "{{assets}}", "{{version}}"))
    for asset in found.assets.values():
        assert gzip.decompress(asset.compressed) == asset.content


def test_what_each_page_runs_is_compiled_beside_it() -> None:
    """The first line of Vue and of the core says so to browsers; files of screens are too small for it."""
    found = read_files(own_files())
    lines = {
        name: one.content.partition(b"\n")[0] for name, one in found.assets.items() if name.endswith("js")
    }
    compiled = {name for name, line in lines.items() if line == b"//# allFunctionsCalledOnLoad"}
    assert compiled == {"vue.js", "core.js"}


def test_each_module_is_in_a_bundle() -> None:
    """One that nobody imports would be missing in the browser: main.js imports it, or it goes."""
    with as_file(own_files()) as real:
        texts = {path.relative_to(real).as_posix(): path.read_text() for path in real.rglob("*.js")}
    assert unused(texts) == []
    assert unused(texts | {"core/lonely.js": ""}) == ["core/lonely.js"]


def test_the_same_files_have_the_same_hash(folder: Path) -> None:
    """On every node; any change makes another one, so that no browser keeps an old file."""
    first = read_files(folder)
    assert read_files(folder).hash == first.hash == read_files(own_files()).hash
    seen = {first.hash}
    for name, added in {
        "index.html": " ", "main.js": "void 0;\n", "icons/icon.svg": " ", "styles/00-tokens.css": " ",
        "styles/50-job.css": " ",
    }.items():  # fmt: skip
        with (folder / name).open("a") as file:
            file.write(added)
        seen.add(read_files(folder).hash)
    chinese = folder / "language/zh.json"
    chinese.write_text(chinese.read_text().replace("{", '{"a.b": "c",', 1))
    seen.add(read_files(folder).hash)
    seen.add(read_files(folder, vue=b"another").hash)
    assert len(seen) == 8


def test_styles_are_joined_in_the_order_of_their_names(tmp_path: Path) -> None:
    """And files of other kinds are left out."""
    for name, text in {
        "index.html": "", "main.js": "", "styles/10-b.css": "b{}\n", "styles/00-a.css": "a{}\n",
        "notes.txt": "x", "styles/.hidden.swp": "x",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = read_files(tmp_path, vue=b"")
    assert found.assets["console.css"].content == b"a{}\nb{}\n"
    assert set(found.assets) == {"vue.js", "core.js", "console.css"}


def test_languages_are_flat_sorted_and_of_the_same_keys() -> None:
    """One key a line, so that changes of two people merge."""
    texts = {}
    for name in ("en", "zh"):
        text = (own_files() / "language" / f"{name}.json").read_text(encoding="utf-8")
        texts[name] = json.loads(text)
        assert all(isinstance(value, str) and value for value in texts[name].values())
        assert list(texts[name]) == sorted(texts[name])
        assert len(text.strip().splitlines()) in (len(texts[name]) + 2, 1)
    assert texts["en"].keys() == texts["zh"].keys()


def test_each_text_is_used_and_there() -> None:
    """By its key, or by one completed where it is used: t(`jobs.${name}`); plurals without their form."""
    with as_file(own_files()) as real:
        code = "\n".join(path.read_text(encoding="utf-8") for path in real.rglob("*.js"))
        texts = json.loads((real / "language/en.json").read_text(encoding="utf-8"))
    keys = {key.removesuffix(".one").removesuffix(".other") for key in texts}
    begins = tuple(set(re.findall(r"`([a-z]\w*\.[\w.]*)\$\{", code)))
    named = set(re.findall(r"[\"'`]([a-z]\w*(?:\.\w+)*)[\"'`]", code))
    assert sorted(key for key in keys - named if not key.startswith((*begins, *BEGINS))) == []
    assert sorted(set(re.findall(r"\bt\(\"([^\"]+)\"", code)) - keys) == []


def test_the_dark_colours_are_the_same_by_choice_and_by_system() -> None:
    """CSS cannot say once what holds by an attribute and by a media query: the two blocks stay equal."""
    text = (own_files() / "styles" / "00-tokens.css").read_text(encoding="utf-8")
    blocks = re.findall(r':root\[data-theme="(?:dark|auto)"\] \{([^}]*)\}', text)
    chosen, of_system = ([line.strip() for line in block.strip().splitlines()] for block in blocks)
    assert chosen == of_system
