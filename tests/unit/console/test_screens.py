"""What travels with a screen, and what comes with the page."""

import json
import re
from collections.abc import Iterator
from importlib.resources import as_file

from scheduler_service.console.files import own_files, read_files
from scheduler_service.console.modules import Bundle
from scheduler_service.console.screens import TextUse, screen_of_style, screens_of, write_screen
from tests.rows import each_row

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
    bundle = Bundle("const Screen = 1;\nexport { Screen };\n", ("Screen",), ())
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
