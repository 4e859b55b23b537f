"""Roles include those before them (SPEC section 14)."""

from scheduler_service.security.callers import Role


def test_each_role_includes_those_before_it() -> None:
    """Viewer, operator, editor, admin."""
    roles = list(Role)
    assert roles == ["viewer", "operator", "editor", "admin"]
    for rank, role in enumerate(roles):
        assert [role.includes(other) for other in roles] == [other <= rank for other in range(len(roles))]
