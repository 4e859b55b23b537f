"""Bundles: modules in the order of their dependencies, one list of exports, and precise refusals."""

import pytest

from scheduler_service.console.modules import (
    ModuleBundle,
    ModuleError,
    bundle_core,
    bundle_more,
    bundle_screen,
    read_module,
)
from tests.rows import each_row

TEXTS = {
    "main.js": (
        'import { b } from "./core/b.js";\nimport { shown } from "./components/shown.js";\nb(shown);\n'
    ),
    "core/a.js": "// What b needs.\n\nexport const a = 1;\n",
    "core/b.js": (
        'import { a } from "./a.js";\n\n/** Doubles. */\nexport function b(x) {\n  return a + x;\n}\n'
    ),
    "components/shown.js": 'import { a } from "../core/a.js";\nexport const shown = a;\n',
    "more.js": 'import "./components/drawn.js";\n',
    "components/drawn.js": (
        'import { b } from "../core/b.js";\nimport { line } from "./line.js";\n'
        "export const drawn = b(line);\n"
    ),
    "components/line.js": "export const line = 1;\n",
    "screens/jobs/screen.js": (
        'import { b, a } from "../../core.js";\nimport { Row } from "./parts/row.js";\n'
        "export const Screen = { row: Row, b, a };\n"
    ),
    "screens/jobs/parts/row.js": 'import { a } from "../../../core.js";\nexport const Row = a;\n',
}
SCREEN = "screens/jobs/screen.js"


def core(**changes: str) -> ModuleBundle:
    return bundle_core(TEXTS | {name.replace("__", "/") + ".js": text for name, text in changes.items()})


def more() -> ModuleBundle:
    return bundle_more(TEXTS, core=core())


def screen(text: str | None = None, name: str = "jobs") -> ModuleBundle:
    return bundle_screen(TEXTS if text is None else TEXTS | {SCREEN: text}, name, core=core(), more=more())


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
    found = screen()
    assert found.paths == ("screens/jobs/parts/row.js", SCREEN)
    assert found.text == (
        'import { a, b } from "../core.js";\nconst Row = a;\nconst Screen = { row: Row, b, a };\n'
        "export { Row, Screen };\n"
    )


def test_what_screens_share_is_a_file_that_takes_from_the_core() -> None:
    """Modules that the core has are not in it; a screen takes both from the core's name."""
    found = more()
    assert found.paths == ("components/line.js", "components/drawn.js", "more.js")
    assert found.text == (
        'import { b } from "./core.js";\nconst line = 1;\nconst drawn = b(line);\n\nexport { drawn, line };\n'
    )
    shown = screen('import { a, line } from "../../core.js";\nexport const Screen = { a, line };\n')
    assert shown.text.startswith('import { a } from "../core.js";\nimport { line } from "../more.js";\n')


def test_statements_of_two_modules_stay_apart() -> None:
    """One that ends without a semicolon does not call the brackets of the next one."""
    second = 'import { a } from "./a.js";\n(a);\nexport const b = 1;'
    assert "const a = 1\n;\n(a);" in core(core__a="export const a = 1", core__b=second).text
    # Comments on lines of their own go; those beside code stay, and so does what only looks like one
    text = "// one\n  /* two\n   lines */\na(); // stays\nb('// no comment');\n/* stays */ c();\n/* last */"
    assert read_module("x.js", text).text == "a(); // stays\nb('// no comment');\n/* stays */ c();\n"


def test_exports_are_found() -> None:
    """Also names that are taken from others by their own; not those within functions and templates."""
    text = (
        "export const a = 1;\nexport let b = [1, 2];\nconst c = `\n  export const shown = 1;`;\n"
        "export async function d() {\nconst e = 1;\n}\nexport function* f() {}\n"
        "export class I extends G {}\nexport const { j, k } = c;\nasync function l() {}\n"
    )
    assert sorted(read_module("x.js", text).exports) == ["I", "a", "b", "d", "f", "j", "k"]
    # What only looks like an import is taken: members of these names, `import(…)` and `import.meta`
    text = "const a = {\nimport: 1,\nexport() {},\n};\nimport(a);\nimport.meta.url;\n"
    assert read_module("x.js", text).text == text


@each_row(
    "text",
    [
        'import a from "./a.js";',
        'import * as a from "./a.js";',
        'import { a } from "vue";',
        "import { a } from './a.js';",
        "export default 1;",
        "export { a };",
        'export * from "./a.js";',
        "export var a = 1;",
        "export const { a: b } = c;",
    ],
)
def test_other_forms_are_refused(text: str) -> None:
    """The message names file and line."""
    with pytest.raises(ModuleError, match=r"^core/x\.js:2: this form is not taken"):
        read_module("core/x.js", f"a();\n{text}\n")


@each_row(
    ("path", "line", "words"),
    [
        ("core/a.js", 'import { b } from "./b.js";', "core/a.js:1: modules import in a circle: "),
        ("core/b.js", 'import { x } from "../main.js";', "in a circle: main.js > core/b.js > main.js"),
        ("core/b.js", 'import { c } from "./a.js";', "core/b.js:1: core/a.js exports no c"),
        ("core/b.js", 'import { c } from "./c.js";', "core/b.js:1: there is no core/c.js in this bundle"),
        ("core/b.js", 'import { x } from "../screens/x.js";', "no screens/x.js in this bundle"),
        ("core/b.js", 'import { x } from "../../../x.js";', "no ../../x.js in this bundle"),
        ("core/b.js", 'import { x } from "../core.js";', "no core.js in this bundle"),
    ],
)
def test_what_does_not_fit_together_is_refused(path: str, line: str, words: str) -> None:
    """Circles, unknown names and files, other folders."""
    with pytest.raises(ModuleError) as refused:
        bundle_core(TEXTS | {path: f"{line}\nexport const {path[5]} = 1;\n"})
    assert words in str(refused.value)


@each_row(
    ("text", "words"),
    [
        ("export const Other = 1;", "screens/jobs/screen.js:1: a screen exports Screen"),
        ('import { no } from "../../core.js";', "core.js exports no no"),
        ('import { a } from "../../core/a.js";', "import from screens/jobs/"),
        ('import { x } from "../job/x.js";', "no screens/job/x.js in this bundle"),
    ],
)
def test_screens_take_from_the_core_and_their_folder_alone(text: str, words: str) -> None:
    """And only what the core exports."""
    with pytest.raises(ModuleError) as refused:
        screen(text)
    assert words in str(refused.value)


def test_without_its_entry_there_is_no_bundle() -> None:
    """The message names the file."""
    with pytest.raises(ModuleError, match=r"^screens/none/screen\.js:1: there is no such file"):
        screen(name="none")
