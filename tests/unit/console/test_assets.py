"""The console's files: joined from those of the package, hashed and compressed."""

import gzip
import json
import re
import sys
from collections.abc import Iterator
from hashlib import sha256
from importlib.resources import as_file
from pathlib import Path

import pytest

from scheduler_service.console.assets import (
    CARRIER,
    TextUse,
    own_files,
    read_files,
    read_vue,
    screen_of_style,
    screens_of,
    unused,
    write_screen,
)
from scheduler_service.console.modules import ModuleBundle, VueMissing
from tests.rows import each_row

PLACES = {
    "index.html",
    "vue.js",
    "core.js",
    "more.js",
    "console.css",
    "language/en.json",
    "language/zh.json",
    "icon.svg",
}

# Keys that begin so are put together of two values: by the filters of the list of jobs.
BEGINS = ("kind.", "lastOutcome.", "state.")


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


def test_the_same_files_have_the_same_hash(tmp_path: Path) -> None:
    """On every node; any change makes another one, so that no browser keeps an old file."""
    folder = tmp_path / "static"
    for name, text in {
        "index.html": "", "main.js": "", "more.js": "", "icons/icon.svg": "<svg/>", "language/zh.json": "{}",
        "language/en.json": "{}", "styles/00-tokens.css": "", "styles/50-job.css": "",
    }.items():  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    first = read_files(folder, vue=b"")
    assert read_files(folder, vue=b"").hash == first.hash
    seen = {first.hash}
    for name, added in {
        "index.html": " ", "main.js": "void 0;\n", "icons/icon.svg": " ", "styles/00-tokens.css": " ",
        "styles/50-job.css": " ",
    }.items():  # fmt: skip
        with (folder / name).open("a") as file:
            file.write(added)
        seen.add(read_files(folder, vue=b"").hash)
    (folder / "language/zh.json").write_text('{"a.b": "c"}')
    seen.add(read_files(folder, vue=b"").hash)
    seen.add(read_files(folder, vue=b"another").hash)
    assert len(seen) == 8


def test_styles_are_joined_in_the_order_of_their_names(tmp_path: Path) -> None:
    """And files of other kinds are left out."""
    for name, text in {
        "index.html": "", "main.js": "", "more.js": "", "styles/10-b.css": "b{}\n",
        "styles/00-a.css": "a{}\n", "notes.txt": "x", "styles/.hidden.swp": "x",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = read_files(tmp_path, vue=b"")
    assert found.assets["console.css"].content == b"a{}\nb{}\n"
    assert set(found.assets) == {"vue.js", "core.js", "more.js", "console.css"}


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


BANNER = b"/**\n* vue v3.5.13\n* (c) 2018-present Yuxi (Evan) You and Vue contributors\n* @license MIT\n**/"
DIGEST = "c459ba7cc8db65c982589fa5d64c7ff478877e8e5b0fd75683207cec6a4e89e8"


def test_the_file_is_the_one_that_was_looked_at() -> None:
    """Its version, licence and checksum; another one changes this test after a look at the file."""
    script = read_vue()
    assert script.startswith(BANNER)
    assert sha256(script).hexdigest() == DIGEST
    # The carrier is not imported: only its file is read
    read_vue()
    assert CARRIER not in sys.modules


@each_row("carrier", ["no_such_package", "json"])
def test_without_it_the_message_says_what_to_install(carrier: str) -> None:
    """No package of that name, or one without the file."""
    with pytest.raises(VueMissing, match=r"in a checkout of Punctual: pip install '\.\[console\]'"):
        read_vue(carrier)


JOBS, QUEUES, SHELL = "screens/jobs/screen.js", "screens/queues/screen.js", "shell/navigation.js"


def owner(key: str, modules: dict[str, str]) -> str:
    """The screen with which a text of this key travels; the screens are jobs and queues."""
    divided = TextUse({JOBS: "", QUEUES: "", **modules}).divide({key: "a text"})
    return next(name for name, texts in divided.items() if key in texts)


@each_row(
    ("key", "modules", "name"),
    [
        ("jobs.empty", {JOBS: 't("jobs.empty")'}, "jobs"),
        ("jobs.empty", {}, "jobs"),
        ("jobs.title", {JOBS: 't("jobs.title")', SHELL: '["/jobs", "jobs.title"]'}, ""),
        ("jobs.title", {JOBS: 't("jobs.title")', QUEUES: "t('jobs.title')"}, ""),
        ("jobs.count.one", {SHELL: 't("jobs.count", { count })'}, ""),
        ("jobs.count.one", {QUEUES: 't("jobs.countless")'}, "jobs"),
        ("jobs.state.on", {SHELL: "t(`jobs.state.${state}`)"}, ""),
        ("jobs.state.on", {JOBS: "t(`jobs.state.${state}`)"}, "jobs"),
        ("action.close", {JOBS: 't("action.close")'}, ""),
        ("job.title", {JOBS: 't("job.title")'}, ""),
    ],
)
def test_a_text_travels_with_the_screen_that_alone_names_it(
    key: str, modules: dict[str, str], name: str
) -> None:
    """And whose name it begins with: keys that are put together of values stay with the page."""
    assert owner(key, modules) == name


def test_each_text_is_with_the_page_or_with_one_screen() -> None:
    """In both languages with the same, and nothing is lost."""
    with as_file(own_files()) as real:
        modules = {path.relative_to(real).as_posix(): path.read_text() for path in real.rglob("*.js")}
        texts = {name: json.loads((real / f"language/{name}.json").read_text()) for name in ("en", "zh")}
    divided = {name: TextUse(modules).divide(all_of) for name, all_of in texts.items()}
    places = [{part: list(found) for part, found in one.items()} for one in divided.values()]
    assert places[0] == places[1]
    assert sorted(key for keys in places[0].values() for key in keys) == sorted(texts["en"])
    assert len(places[0][""]) < len(texts["en"]) / 2


def test_the_file_of_a_screen_carries_its_texts_and_styles() -> None:
    """As its default export, which no module has of its own."""
    bundle = ModuleBundle("const Screen = 1;\nexport { Screen };\n", ("Screen",), ())
    text = write_screen(bundle, texts={"jobs.a": '"中"\n'}, styles="a { b: c }\n")
    assert text == (
        bundle.text + 'export default {"texts":{"jobs.a":"\\"中\\"\\n"},"styles":"a { b: c }\\n"};\n'
    )


def test_screens_are_served_in_each_language() -> None:
    """`screens/NAME.LANGUAGE.js`; what is in them is not with the page."""
    served = read_files(own_files()).assets
    for language, word in {"en": "This timer is written", "zh": "此定时器写为"}.items():
        assert word.encode() in served[f"screens/editor.{language}.js"].content
    assert b".editor .section" in served["screens/editor.zh.js"].content
    assert b".editor .section" not in served["console.css"].content
    assert "screens/editor.js" not in served


@each_row(
    ("path", "name"),
    [
        ("styles/50-job.css", "job"),
        ("styles/50-jobs.css", "jobs"),
        ("styles/50-job-month.css", "job"),
        ("styles/50-month.css", None),
        ("styles/60-job.css", None),
        ("styles/50-job.txt", None),
    ],
)
def test_styles_of_a_screen_bear_its_name(path: str, name: str | None) -> None:
    """All others come with the page."""
    assert screen_of_style(path, ["job", "jobs"]) == name


def test_styles_of_a_screen_are_for_it_alone() -> None:
    """Others would look otherwise once it was visited: what several use stands in `60-several.css`.

    And nothing there is loaded from elsewhere: a style sheet that a script adopts takes no @import.
    """
    with as_file(own_files()) as real:
        modules = {path.relative_to(real).as_posix(): path.read_text() for path in real.rglob("*.js")}
        styles = {path.relative_to(real).as_posix(): path.read_text() for path in real.glob("styles/50-*")}
    for path, text in styles.items():
        name = screen_of_style(path, screens_of(modules))
        assert name is not None, f"{path} names no screen"
        assert not re.search(r"url\(|@import", text), path
        others = {
            one
            for module, code in modules.items()
            if not module.startswith(f"screens/{name}/")
            for one in _classes(code)
        }
        for selector in _selectors(text):
            used = set(re.findall(r"\.([a-zA-Z][\w-]*)", selector))
            assert used - others, f"{path}: {selector} is for others, too"


def _selectors(text: str) -> Iterator[str]:
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    for selectors in re.findall(r"([^{}]+)\{", text):
        if not selectors.strip().startswith(("@", "from", "to")):
            yield from map(str.strip, selectors.split(","))


def _classes(code: str) -> Iterator[str]:
    """The words in the class attributes of a module's markup."""
    for whole, computed in re.findall(r'class=(?:"([^"]*)"|\$\{((?:[^{}]|\{[^{}]*\})*)\})', code):
        words = whole or " ".join(re.findall(r"[\"'`]([^\"'`]*)[\"'`]", computed))
        yield from re.findall(r"[a-zA-Z][\w-]*", words)
