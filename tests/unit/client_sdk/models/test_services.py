"""What a service and its instances may say of themselves (SPEC section 13)."""

import pytest

from client_sdk.models import InstanceRegistration, ModelError, parse_model
from client_sdk.models.fields import LONGEST_ADDRESS, LONGEST_DESCRIPTION
from client_sdk.models.services import ServiceDeclaration
from tests.rows import each_row

BASE = "http://h/"


@each_row("model", [InstanceRegistration, ServiceDeclaration])
def test_an_address_has_a_longest_length(
    model: type[InstanceRegistration] | type[ServiceDeclaration],
) -> None:
    """So has what every list of instances shows; the error is one for people."""
    longest = BASE + "x" * (LONGEST_ADDRESS - len(BASE))
    assert parse_model(model, {"address": longest}).address == longest
    with pytest.raises(ModelError, match="at most 2048 characters"):
        parse_model(model, {"address": longest + "x"})


def test_a_description_too() -> None:
    """Of an instance."""
    longest = "x" * LONGEST_DESCRIPTION
    assert parse_model(InstanceRegistration, {"description": longest}).description == longest
    with pytest.raises(ModelError, match="at most 1024 characters"):
        parse_model(InstanceRegistration, {"description": longest + "x"})
