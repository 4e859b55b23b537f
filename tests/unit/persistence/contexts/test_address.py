"""Addresses of Redis servers, shown without their passwords."""

import pytest

from scheduler_service.persistence.contexts.address import Address, read_address

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://h", Address("h", 6379, 0, is_encrypted=False)),
        ("rediss://h:1/3", Address("h", 1, 3, is_encrypted=True)),
        ("redis://:p%40@[::1]:2", Address("::1", 2, 0, is_encrypted=False, password="p@")),
        ("redis://u:p@h/1", Address("h", 6379, 1, is_encrypted=False, user="u", password="p")),
    ],
)
def test_addresses_are_read(url: str, address: Address) -> None:
    """Host, port, database, user and password; shown without the last two."""
    assert read_address(url) == address
    assert "p@" not in str(address)
    assert "u:" not in repr(address)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "redis://",
        "http://h",
        "redis://h/x",
        "redis://h:0",
        "redis://h:x",
        "redis://:secret@h?db=1",
        "redis://h#f",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    """With how it is written, and without what was written: it may hold a password."""
    with pytest.raises(ValueError, match=r"redis://\[USER:PASSWORD@\]HOST") as refused:
        read_address(url)
    assert "secret" not in str(refused.value)
