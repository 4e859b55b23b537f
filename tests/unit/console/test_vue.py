"""Vue comes from a package that carries it; which file that is, is pinned."""

import sys
from hashlib import sha256

import pytest

from scheduler_service.console.errors import VueMissing
from scheduler_service.console.vue import CARRIER, read_vue
from tests.rows import each_row

BANNER = b"/**\n* vue v3.5.13\n* (c) 2018-present Yuxi (Evan) You and Vue contributors\n* @license MIT\n**/"
DIGEST = "c459ba7cc8db65c982589fa5d64c7ff478877e8e5b0fd75683207cec6a4e89e8"


def test_the_file_is_the_one_that_was_looked_at() -> None:
    """Its version, licence and checksum; another one changes this test after a look at the file."""
    script = read_vue()
    assert script.startswith(BANNER)
    assert sha256(script).hexdigest() == DIGEST


def test_the_carrier_is_not_imported() -> None:
    """Only its file is read."""
    read_vue()
    assert CARRIER not in sys.modules


@each_row("carrier", ["no_such_package", "json"])
def test_without_it_the_message_says_what_to_install(carrier: str) -> None:
    """No package of that name, or one without the file."""
    with pytest.raises(VueMissing, match=r"in a checkout of Punctual: pip install '\.\[console\]'"):
        read_vue(carrier)
