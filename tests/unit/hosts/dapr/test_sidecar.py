"""Errors of the sidecar's connection, as the host sees them."""

from typing import Any

import grpc
import pytest

from scheduler_service.hosts.dapr.sidecar import Sidecar
from scheduler_service.ports.errors import StoreUncertain

pytestmark = pytest.mark.anyio


class Unreachable:
    """An actor client whose daprd is gone."""

    async def invoke_method(self, *_: object, **__: object) -> bytes:
        """Fails as gRPC does."""
        nothing = grpc.aio.Metadata()
        raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, nothing, nothing, details="refused")


async def test_an_error_of_grpc_is_a_store_error_that_names_its_code() -> None:
    """Nothing above the sidecar meets an error of gRPC: whether the turn was taken is uncertain."""
    client: Any = Unreachable()
    with pytest.raises(StoreUncertain, match=r"UNAVAILABLE: refused; is daprd running\?"):
        await Sidecar(client=client).invoke("job", b"")
