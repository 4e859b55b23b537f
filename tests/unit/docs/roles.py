"""The table of docs/security.md: whose keys may use which route."""

from typing import NamedTuple

from tests.unit.docs.pages import read, rows


class Row(NamedTuple):
    """What the table says of a route."""

    route: str
    role: str
    service: bool
    labels: bool
    by_service: bool
    is_of_platform: bool


ROLES = ("viewer", "operator", "editor", "admin")
ENDED = ("none", "unknown", "revoked", "expired")


def expected(row: Row, kind: str) -> tuple[int, str] | None:
    """Status and code that the table promises to a caller; None: any answer that is not about its key.

    `kind` is a role, `service` or `labels` with the role of a key for that part, `other tenant` (an admin's
    of one that is not `default`), or one of `ENDED`.
    """
    if row.role == "none":
        return None
    if kind in ENDED:
        return 401, "unauthorized"
    if row.is_of_platform and kind == "other tenant":
        return 404, "absent"
    part, _, role = kind.rpartition(" ")
    if ROLES.index("admin" if kind == "other tenant" else role) < ROLES.index(row.role):
        return 403, "role"
    if row.by_service and part != "service":
        return 403, "scope"
    if (part == "service" and not row.service) or (part == "labels" and not row.labels):
        return 403, "scope"
    return None


def is_as_promised(row: Row, kind: str, status: int, code: str) -> bool:
    """Whether an answer is what the table promises."""
    promised = expected(row, kind)
    if promised is not None:
        return (status, code) == promised
    return status != 401 and (status, code) not in ((403, "role"), (403, "scope"))


def table() -> dict[str, Row]:
    """The table by route: a line has those that the same keys may use, in order of paths and methods."""
    section = read("docs/security.md").partition("### What each role may do")[2].partition("\n## ")[0]
    found: dict[str, Row] = {}
    for role, part, routes in (cells for cells in rows(section) if cells[2].startswith("`")):
        name, _, tenant = role.partition(" of ")
        by_service = part == "`service` alone"
        scopes = (by_service or part in ("both", "`service`"), part == "both", by_service)
        line = [route.strip("`") for route in routes.split(", ")]
        assert line == sorted(line, key=lambda route: route.split(" ")[::-1]), role
        assert found.keys().isdisjoint(line), role
        found |= {route: Row(route, name, *scopes, tenant == "`default`") for route in line}
    return found
