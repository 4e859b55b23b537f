"""The table of docs/security.md: whose keys may use which route."""

from typing import NamedTuple

from tests.unit.docs.pages import read, rows


class Row(NamedTuple):
    """A line of the table."""

    route: str
    role: str
    service: bool
    labels: bool
    is_of_platform: bool

    def __str__(self) -> str:
        """As the page has it."""
        words = ("yes" if self.service else "no", "yes" if self.labels else "no")
        tenant = "`default`" if self.is_of_platform else "any"
        return f"| `{self.route}` | {self.role} | {' | '.join(words)} | {tenant} |"


def table() -> dict[str, Row]:
    """The table by route."""
    section = read("docs/security.md").partition("### What each role may do")[2].partition("\n## ")[0]
    found = [
        Row(cells[0].strip("`"), cells[1], cells[2] == "yes", cells[3] == "yes", cells[4] == "`default`")
        for cells in rows(section)
        if cells[0].startswith("`")
    ]
    return {row.route: row for row in found}
