"""Addresses of services for a job without a server (SPEC section 9)."""

import pytest

from client_sdk.lite import DefinitionRefused, LiteJob
from tests.wire.target import Reply, Target

pytestmark = pytest.mark.anyio


async def test_services_have_addresses(target: Target) -> None:
    """`service://name` and `serviceName` go to the address that was given, wherever they stand."""
    definition = {
        "request": [
            {"url": "service://files/run?a=${size}"},
            {"url": "service://main/run", "serviceName": "files"},
        ],
        "async": True,
        "checkUrl": "service://files/check",
        "checkRateSeconds": 0.1,
        "notification": [{"url": "service://files/told", "stateEquals": "finalSucceed"}],
    }
    target.always("/base/check", Reply(body={"status": "succeed"}))
    async with LiteJob(definition, services={"files": f"{target.url}/base/"}) as job:
        assert (await job.run({"size": 1})).state == "succeeded"
    assert [one.path for one in target.seen] == ["/base/run", "/base/main/run", "/base/check", "/base/told"]
    assert target.seen[0].query == {"a": "1"}


def test_a_service_without_an_address_is_refused() -> None:
    """Before anything is sent; `service:/path` has no owner here."""
    steps = [{"url": url} for url in ("service://other/run", "service:/run", "http://h/")]
    with pytest.raises(
        DefinitionRefused, match="service 'other' was given in services, it has 'files'"
    ) as caught:
        LiteJob({"request": steps, "checkUrl": {"url": "service://b/"}}, services={"files": "http://h"})
    flaws = [(flaw.pointer, flaw.code) for flaw in caught.value.errors]
    assert flaws == [(f"/{place}/url", "no_instance") for place in ("request/0", "request/1", "checkUrl")]
