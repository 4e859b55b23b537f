"""Bundles: modules in the order of their dependencies, one list of exports, and precise refusals."""

import pytest

from scheduler_service.console.modules import ModuleBundle, bundle_core, bundle_screen
from scheduler_service.console.source import ModuleError
from tests.rows import each_row

TEXTS = {
    "main.js": (
        'import { b } from "./core/b.js";\nimport { shown } from "./components/shown.js";\nb(shown);\n'
    ),
    "core/a.js": "// What b needs.\n\nexport const a = 1;\n",
    "core/b.js": (
        'import { a } from "./a.js";\n\n/** Doubles. */\nexport function b(x) {\n  return a + x;\n}\n'
    ),
    "components/shown.js": 'import { a } from "../core/a.js";\nexport const shown = a; // of a\n',
    "screens/jobs/screen.js": (
        'import { b, a } from "../../core.js";\nimport { Row } from "./parts/row.js";\n'
        "export const Screen = { row: Row, b, a };\n"
    ),
    "screens/jobs/parts/row.js": 'import { a } from "../../../core.js";\nexport const Row = a;\n',
}
SCREEN = "screens/jobs/screen.js"


def core(**changes: str) -> ModuleBundle:
    return bundle_core(TEXTS | {name.replace("__", "/") + ".js": text for name, text in changes.items()})


def test_a_bundle_has_each_module_once_in_order() -> None:
    """What is imported stands before who imports it, without imports, comments and `export`."""
    found = core()
    assert found.paths == ("core/a.js", "core/b.js", "components/shown.js", "main.js")
    assert found.exports == ("a", "b", "shown")
    assert found.text == (
        "const a = 1;\nfunction b(x) {\n  return a + x;\n}\n;\nconst shown = a;\nb(shown);\n"
        "export { a, b, shown };\n"
    )


def test_a_screen_imports_from_the_core_by_one_line() -> None:
    """All names that its modules take, whichever folder they are in."""
    found = bundle_screen(TEXTS, "jobs", core=core())
    assert found.paths == ("screens/jobs/parts/row.js", SCREEN)
    assert found.text == (
        'import { a, b } from "../core.js";\nconst Row = a;\nconst Screen = { row: Row, b, a };\n'
        "export { Row, Screen };\n"
    )


def test_statements_of_two_modules_stay_apart() -> None:
    """One that ends without a semicolon does not call the brackets of the next one."""
    second = 'import { a } from "./a.js";\n(a);\nexport const b = 1;'
    assert "const a = 1\n;\n(a);" in core(core__a="export const a = 1", core__b=second).text


def test_a_comment_over_lines_is_a_new_line() -> None:
    """It ends a statement as one does; one within a line is a blank."""
    text = core(core__a="export const a = 1 /* of\ntwo */\nexport let c = 2/**/- 1;\n").text
    assert text.startswith("const a = 1 \n\nlet c = 2 - 1;\n")


@each_row(
    ("path", "line", "words"),
    [
        ("core/a.js", 'import { b } from "./b.js";', "core/a.js:1: modules import in a circle: core/b.js > "),
        ("core/b.js", 'import { x } from "../main.js";', "in a circle: main.js > core/b.js > main.js"),
        ("core/b.js", 'import { c } from "./a.js";', "core/b.js:1: core/a.js exports no c"),
        ("core/b.js", 'import { c } from "./c.js";', "core/b.js:1: there is no core/c.js"),
        ("core/b.js", 'import { x } from "../screens/x.js";', "screens/x.js is not of this bundle"),
        ("core/b.js", 'import { x } from "../../../x.js";', "../../x.js is not of this bundle"),
        ("core/b.js", 'import { x } from "../core.js";', "core.js is not of this bundle"),
    ],
)
def test_what_does_not_fit_together_is_refused(path: str, line: str, words: str) -> None:
    """Circles, unknown names and files, other folders."""
    with pytest.raises(ModuleError) as refused:
        bundle_core(TEXTS | {path: f"{line}\nexport const {path[5]} = 1;\n"})
    assert words in str(refused.value)


def test_all_names_that_are_declared_twice_are_listed() -> None:
    """Not the first one alone, so that they are mended at once."""
    first = "const x = 1;\nconst y = 1;\nexport const a = 1;"
    second = 'import { a } from "./a.js";\nconst x = 1;\nconst y = 2;\nexport const b = a;'
    with pytest.raises(ModuleError) as refused:
        core(core__a=first, core__b=second)
    assert str(refused.value).splitlines() == [
        "core/b.js:2: x is declared in core/a.js:1, too; in a bundle names are unique",
        "core/b.js:3: y is declared in core/a.js:2, too; in a bundle names are unique",
    ]


@each_row(
    ("text", "words"),
    [
        ("export const Other = 1;", "screens/jobs/screen.js:1: a screen exports Screen"),
        ('import { no } from "../../core.js";', "core.js exports no no"),
        ('import { a } from "../../core/a.js";', "import from screens/jobs/ or core.js"),
        ('import { x } from "../job/x.js";', "screens/job/x.js is not of this bundle"),
        (
            'import { Row } from "./parts/row.js";\nconst a = Row;\nexport const Screen = a;',
            "screens/jobs/screen.js:2: a is imported in screens/jobs/parts/row.js:1",
        ),
    ],
)
def test_screens_take_from_the_core_and_their_folder_alone(text: str, words: str) -> None:
    """And only what the core exports, without another thing of that name."""
    with pytest.raises(ModuleError) as refused:
        bundle_screen(TEXTS | {SCREEN: text}, "jobs", core=core())
    assert words in str(refused.value)


def test_without_its_entry_there_is_no_bundle() -> None:
    """The message names the file."""
    with pytest.raises(ModuleError, match=r"^screens/none/screen\.js:1: there is no such file"):
        bundle_screen(TEXTS, "none", core=core())
