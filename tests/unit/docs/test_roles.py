"""The table of docs/security.md is that of the code: a role for each route (SPEC section 14)."""

from scheduler_service.api.application import OPERATIONS
from scheduler_service.api.request import ApiOperation, KeyScope
from tests.unit.docs.roles import Row, table


def row_of(operation: ApiOperation) -> Row:
    """What the code says of an operation."""
    if operation.is_open:
        return Row(operation.route, "none", True, True, operation.of_platform)
    scopes = (KeyScope.SERVICE in operation.scopes, KeyScope.LABELS in operation.scopes)
    return Row(operation.route, operation.role.value, *scopes, operation.of_platform)


def test_the_table_is_that_of_the_code() -> None:
    """Each operation is in it, and no other route."""
    assert table() == {operation.route: row_of(operation) for operation in OPERATIONS}
