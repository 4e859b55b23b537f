"""docs/security.md: each attack of its tables has a test, and each page of tests/attack is named there."""

from tests.rows import each_row
from tests.unit.docs.pages import NAMED_TEST, ROOT, functions_of, read, rows

PAGE = "docs/security.md"


def attacks() -> list[list[str]]:
    """The rows of the tables below "What is defended"."""
    _, _, part = read(PAGE).partition("\n## What is defended\n")
    found = rows(part.partition("\n## ")[0])
    return [cells for cells in found if cells[0] not in ("attack", "---")]


@each_row("cells", attacks(), ids=lambda cells: str(cells[0]))
def test_every_attack_has_a_test(cells: list[str]) -> None:
    """In the last of three cells, in the form that is checked."""
    assert len(cells) == 3
    named = [NAMED_TEST.fullmatch(one.strip()) for one in cells[2].split("<br>")]
    assert all(named), cells[2]
    assert [one[0] for one in named if one and one[2] not in functions_of(one[1])] == []


def test_every_page_of_attacks_is_named() -> None:
    """An attack that the tests carry out has a row."""
    named = {path for path, _ in NAMED_TEST.findall(read(PAGE))}
    pages = {str(path.relative_to(ROOT)) for path in (ROOT / "tests/attack").glob("test_*.py")}
    assert pages - named == set()
