"""What a module imports, exports and declares; other forms are refused with file, line and remedy."""

import pytest

from scheduler_service.console.declarations import Module, read_module
from scheduler_service.console.source import ModuleError, read_source
from tests.rows import each_row


def read(text: str, path: str = "core/x.js") -> Module:
    return read_module(read_source(path, text))


def test_imports_are_found() -> None:
    """Also over several lines and with comments; paths are those below the folder of the sources."""
    module = read(
        '// First.\nimport { a } from "./a.js";\n'
        'import {\n  b, // why\n  c,\n} from "../components/b.js";\n\na(b, c);\n'
    )
    assert [(one.path, one.names) for one in module.imports] == [
        ("core/a.js", ("a",)),
        ("components/b.js", ("b", "c")),
    ]


def test_names_of_the_top_level_are_found() -> None:
    """Exported ones and others; not those within functions, strings and templates."""
    module = read(
        "export const a = 1;\nexport let b = [1, 2];\n"
        "const c = (x, y = 2) => { const inner = `\nconst shown = 1;`; return inner; };\n"
        "export async function d() {\nconst e = 1;\n}\nexport function* f() {}\nclass G {}\nfunction h() {}\n"
        "export class I extends G {}\nexport const { j, k } = c;\nasync function l() {}\n"
    )
    assert list(module.declared) == ["a", "b", "c", "d", "f", "G", "h", "I", "j", "k", "l"]
    assert module.exports == ("a", "b", "d", "f", "I", "j", "k")


@each_row(
    ("text", "line", "words"),
    [
        ('import a from "./a.js";', 1, "this form of import"),
        ('import * as a from "./a.js";', 1, "this form of import"),
        ('import { a as b } from "./a.js";', 1, "this form of import"),
        ('import { a, default as b } from "./a.js";', 1, "this form of import"),
        ('import { } from "./a.js";', 1, "this form of import"),
        ('import { a } from "vue";', 1, "this form of import"),
        ('import { a } from "https://x.example/a.js";', 1, "this form of import"),
        ("\nimport { a } from './a.js';", 2, "this form of import"),
        ('import "./a.js";', 1, "main.js alone"),
        ('const a = 1;\nimport { b } from "./b.js";', 2, "at the top"),
        ('\nconst a = () => import("./b.js");', 2, "core/screens.js alone"),
        ("export default 1;", 1, "this form of export"),
        ("const a = 1;\nexport { a };", 2, "this form of export"),
        ('export * from "./a.js";', 1, "this form of export"),
        ('export { a } from "./a.js";', 1, "this form of export"),
        ("export var a = 1;\nexport default a;", 2, "this form of export"),
        ("  export const a = 1;", 1, "begins a line"),
        ("a();\nb(); const c = 1;", 2, "begins a line"),
        ("const a = 1,\n  b = 2;", 1, "one name at a time"),
        ("const { a: b } = c;", 1, "by their own names"),
        ("const [a] = b;", 1, "this form of declaration"),
        ("const a = 1;\n\nfunction a() {}", 3, "a is declared already in line 1"),
        ("export const history = [];", 1, "the browser's"),
        ("a();\n}", 2, "closes nothing"),
        ("\nfunction a() {\n", 2, "1 brackets are open"),
    ],
)
def test_other_forms_are_refused(text: str, line: int, words: str) -> None:
    """The message names file, line and what to write."""
    with pytest.raises(ModuleError) as refused:
        read(text)
    assert words in str(refused.value)
    assert refused.value.path == "core/x.js"
    if "one name" not in words:
        assert refused.value.line == line


def test_main_may_import_for_the_effect_and_screens_may_be_loaded() -> None:
    """Each of the two in its own file alone."""
    assert [one.names for one in read('import "./core/a.js";', "main.js").imports] == [()]
    assert read("export const load = (name) => import(name);", "core/screens.js").exports == ("load",)


@each_row(
    "text",
    [
        "const a = { import: 1, export: 2 };",
        "const a = {\n  import: 1,\n  export() {},\n};",
        "const a = import.meta.url;",
        "const a = b.import(1);",
        "const a = class {};",
        "const a = b ? c : d;",
        "for (const a of b) {\n  c(a);\n}",
        "const a = f(1, 2);",
        "const a = x => x;",
    ],
)
def test_what_only_looks_like_it_is_taken(text: str) -> None:
    """Members of these names, `import.meta`, declarations within statements."""
    assert set(read(text).declared) <= {"a"}
