"""The tests lie where a reader looks for them, share fakes by plain modules, and use public members alone.

The test of `scheduler_service/ROOM/x.py` is `tests/unit/ROOM/test_x.py`, or several files `test_x_ASPECT.py`;
that of `client_sdk/ROOM/x.py` is `tests/unit/client_sdk/ROOM/test_x.py`. What several implementations promise
is held by `test_x_suite.py` in the folder above them.
"""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

from tests.unit.docs.pages import ROOT, parse_fresh

parse = cache(parse_fresh)
TESTS = ROOT / "tests"
UNIT = TESTS / "unit"
# So many of the modules with more than LONG lines of code, more than DOING of them in functions, have a test
# at their place.
LEAST_SHARE = 0.7
LONG, DOING = 40, 10
EVERYWHERE = ("__init__", "errors")
# Names that several modules of the service still have; the list may only shrink.
ALIKE = {
    "database",
    "queues",
    "schema",
    "snapshot",
    "writer",
}
# So many lines a function has at most, from `def` on; by "FILE:NAME" those that have more, and why.
MOST_LINES = 50
LONG_FUNCTIONS: dict[str, str] = {}

# Tests of something else than one module of the product, and what that is.
OTHER_SUBJECTS = {
    "test_layout": "the tests themselves",
    "test_positions": "structs that are made by position, in all rooms",
    "app/test_light_start": "what processes load before they serve",
    "app/test_work": "the work of one execution over all rooms, counted",
    "persistence/test_work": "the work of the embedded store, counted",
    "persistence/history/test_work": "the work of the history, counted",
    "persistence/test_catalogue_suite": "every catalogue",
    "persistence/test_lease_changes_suite": "what the queues of every store keep and show of leases",
    "persistence/test_queues_suite": "the queues of every store",
    "persistence/test_state_store_suite": "every state store",
    "persistence/history/test_servers": "the history on each database server, over its dialect",
    "persistence/sql/test_databases_of_0_1_0": "databases that 0.1.0 has written",
    "client_sdk/test_base_install": "what the base install imports",
}
# Folders that hold no tests of a room of the product.
OTHER_FOLDERS = {
    "bench": "the tools in tests/bench",
    "docs": "the pages in docs",
    "scripts": "the scripts, the Dockerfile, docker-compose.yml and the files in deploy",
}

# Lines that still use a private member of something else. Numbers may only shrink; a file without one goes.
PRIVATE_USES: dict[str, int] = {
    "conformance/hosts/process.py": 2,
    "unit/hosts/embedded/test_early_commit.py": 1,
    "wire/test_lost_claims.py": 1,
}
# A statement that imports something of `tests`, to the end of its line or brackets; a test module in it.
IMPORT_OF_TESTS = re.compile(r"^[ \t]*(?:from|import)[ \t]+tests\b(?:[^\n(]*\([^)]*\)|[^\n]*)", re.MULTILINE)
TEST_MODULE = re.compile(r"\btest_\w+")
# What may be a private member of something else: most files have none, and need not be parsed.
PRIVATE = re.compile(
    r"(?<!\bself)(?<!\bcls)\._(?!_)|^[ \t]*from .*\bimport\b(?:[^(\n]*|[^)]*)\b_(?!_)", re.MULTILINE
)
# Members that a library names so, though they are public.
NAMED_SO = {"_asdict", "_replace", "_fields", "_exit"}
# The Dapr SDK shows what its runtime holds by these alone.
OF_THE_DAPR_SDK = {"_actor_managers", "_active_actors", "_stub"}


@cache
def modules() -> tuple[Path, ...]:
    """The modules of the product, relative to the checkout."""
    found = (path for root in ("scheduler_service", "client_sdk") for path in (ROOT / root).rglob("*.py"))
    left_out = {"migrations"}
    return tuple(sorted(path.relative_to(ROOT) for path in found if not left_out & set(path.parts)))


def folder_of(module: Path) -> Path:
    """Where the test of a module lies, below `tests/unit`."""
    parts = module.parent.parts
    return Path(*(parts if parts[0] == "client_sdk" else parts[1:]))


def all_tests() -> list[Path]:
    return sorted(UNIT.rglob("test_*.py"))


def names_of(stem: str) -> Iterator[str]:
    """`cron_text_cases` may be about `cron_text_cases`, `cron_text` or `cron`."""
    words = stem.removeprefix("test_").split("_")
    yield from ("_".join(words[:end]) for end in range(len(words), 0, -1))


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """All statements in it, at any depth; to look into their expressions too takes five times as long."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for one in getattr(node, name, ()):
            if isinstance(one, ast.stmt):
                yield one
            yield from statements(one)


def code_lines(path: Path) -> int:
    """Lines that are neither blank, comment nor docstring."""
    numbered = enumerate(map(str.strip, path.read_text(encoding="utf-8").splitlines()), 1)
    lines = {number for number, line in numbered if line and not line.startswith("#")}
    return len(
        lines - {line for node in (parse(path), *statements_of(path)) for line in docstring_lines(node)}
    )


def docstring_lines(node: ast.AST) -> range:
    """The lines of a node's docstring, if it has one."""
    match node:
        case (
            ast.Module(body=[ast.Expr(value=ast.Constant(value=str())) as first, *_])
            | ast.ClassDef(body=[ast.Expr(value=ast.Constant(value=str())) as first, *_])
            | ast.FunctionDef(body=[ast.Expr(value=ast.Constant(value=str())) as first, *_])
            | ast.AsyncFunctionDef(body=[ast.Expr(value=ast.Constant(value=str())) as first, *_])
        ):
            return range(first.lineno, (first.end_lineno or first.lineno) + 1)
    return range(0)


@cache
def statements_of(path: Path) -> tuple[ast.stmt, ...]:
    """All statements of a module."""
    return tuple(statements(parse(path)))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (one for one in statements_of(path) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))


def doing_lines(path: Path) -> int:
    """Lines of statements inside functions: a module of declarations has hardly any."""
    lines: set[int] = set()
    for node in functions(path):
        for one in node.body:
            if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)):
                lines.update(range(one.lineno, (one.end_lineno or one.lineno) + 1))
    return len(lines)


def has_test(module: Path) -> bool:
    """At its place, or as a suite in the folder above."""
    folder = UNIT / folder_of(module)
    stem = module.stem
    own = [folder / f"test_{stem}.py", *folder.glob(f"test_{stem}_*.py")]
    return any(path.is_file() for path in own) or (folder.parent / f"test_{stem}_suite.py").is_file()


def test_each_test_module_names_what_it_tests() -> None:
    """A module or a package of the product at the same place, else a reason in one of the lists above."""
    places = {(folder_of(module), module.stem) for module in modules()}
    packages = [module.parent for module in modules() if module.stem == "__init__" and len(module.parts) > 2]
    places |= {(folder_of(package), package.name) for package in packages}
    unknown = []
    for path in all_tests():
        place = path.relative_to(UNIT)
        if place.parts[0] in OTHER_FOLDERS or str(place.with_suffix("")) in OTHER_SUBJECTS:
            continue
        if not any((place.parent, name) in places for name in names_of(place.stem)):
            unknown.append(str(place))
    assert unknown == []


def test_the_reasons_are_needed() -> None:
    """A test that is gone leaves no line behind."""
    assert [name for name in OTHER_SUBJECTS if not (UNIT / f"{name}.py").is_file()] == []
    assert [name for name in OTHER_FOLDERS if not (UNIT / name).is_dir()] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports within functions count. The error names the circle."""
    graph = grimp.build_graph("scheduler_service", "client_sdk", cache_dir=None)
    TopologicalSorter(
        {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    ).prepare()


def test_most_modules_have_their_test_at_its_place() -> None:
    """The message names those that have none."""
    counted, missing = 0, []
    for module in modules():
        path = ROOT / module
        if module.stem == "__init__" or code_lines(path) <= LONG or doing_lines(path) <= DOING:
            continue
        counted += 1
        if not has_test(module):
            missing.append(str(module))
    share = 1 - len(missing) / counted
    assert share >= LEAST_SHARE, f"{share:.0%} of {counted}; without a test at its place:\n" + "\n".join(
        missing
    )


def test_each_class_of_the_service_has_a_name_of_its_own() -> None:
    """A reader who meets a name knows what it is, whatever file he is in."""
    service = (ROOT / path for path in modules() if path.parts[0] == "scheduler_service")
    defined = (one.name for path in service for one in statements_of(path) if isinstance(one, ast.ClassDef))
    assert [name for name, times in Counter(defined).items() if times > 1] == []


def test_each_module_of_the_service_has_a_name_of_its_own() -> None:
    """But for a resource of the API and its commands (`api/jobs`, `cli/jobs`), a port and what stands behind
    it (`ports/queues`), and the errors of each room.

    The message names those that are alike.
    """
    places: defaultdict[str, set[str]] = defaultdict(set)
    for package, room, *inner in (path.with_suffix("").parts for path in modules()):
        if package == "scheduler_service" and inner and room != "ports" and inner[-1] not in EVERYWHERE:
            places[inner[-1]].add("/".join(["api" if room == "cli" else room, *inner]))
    assert {name: found for name, found in places.items() if len(found) > 1 and name not in ALIKE} == {}


def long_functions() -> Iterator[str]:
    """The functions of the product with more than MOST_LINES lines, as "FILE:NAME"."""
    for module in modules():
        for node in functions(ROOT / module):
            if (node.end_lineno or node.lineno) - node.lineno >= MOST_LINES:
                yield f"{module.as_posix()}:{node.name}"


def test_functions_are_short() -> None:
    """An exception is listed above with its reason; one that is short again leaves no line behind."""
    assert sorted(long_functions()) == sorted(LONG_FUNCTIONS)


def test_no_test_module_imports_another() -> None:
    """What several share lies in a module of its own: fixtures in a `conftest.py`, all else by subject."""
    found = []
    for path in sorted(TESTS.rglob("*.py")):
        for line in IMPORT_OF_TESTS.findall(path.read_text(encoding="utf-8")):
            if TEST_MODULE.search(line):
                found.append(f"{path.relative_to(ROOT)}: {line}")
    assert found == []


def private_uses(path: Path) -> Iterator[int]:
    """The lines on which a file uses a private member of anything but itself."""
    for node in ast.walk(parse(path)):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                continue
            case ast.Attribute(attr=name) if name.startswith("_") and not name.startswith("__"):
                if name not in NAMED_SO | OF_THE_DAPR_SDK:
                    yield node.lineno
            case ast.ImportFrom(names=names, module=str(module)) if module.partition(".")[0] != "tests":
                if any(one.name.startswith("_") and not one.name.startswith("__") for one in names):
                    yield node.lineno


def test_tests_use_public_members_alone() -> None:
    """What a test needs to see, the product shows; the list above holds what is left of before."""
    found: Counter[str] = Counter()
    for path in sorted(TESTS.rglob("*.py")):
        is_suspect = PRIVATE.search(path.read_text(encoding="utf-8")) is not None
        if is_suspect and (uses := len(set(private_uses(path)))):
            found[str(path.relative_to(TESTS))] = uses
    assert dict(found) == PRIVATE_USES
