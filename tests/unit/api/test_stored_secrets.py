"""Secrets over the API: stored, listed, removed, and never shown (SPEC section 14)."""

from typing import Any

import httpx
import pytest

from scheduler_service.engine.program import Surroundings
from scheduler_service.ports.shared_tables import StoredSecret
from scheduler_service.security.secret_vault import MOST_SECRETS, Seal, SecretVault
from scheduler_service.security.secrets import GivenSecrets, SecretSources
from tests.manual_clock import ManualClock
from tests.rows import each_row
from tests.unit.api.stores import START
from tests.unit.api.world import World, definition, pointers
from tests.unit.security.memory_secrets import MemorySecrets

VALUE, OTHER = "t0p-secret-of-the-shop", "the-next-secret"


class Kept:
    """A service with a vault, and one secret of the settings."""

    def __init__(self) -> None:
        self.table = MemorySecrets()
        self.vault = SecretVault(table=self.table, seal=Seal([bytes(32)]), clock=ManualClock(wall=START))
        given = GivenSecrets({"default": {"OF_SETTINGS": ("given-value",)}, "team": {"OTHERS": ("others",)}})
        secrets = SecretSources([given, self.vault])
        around = Surroundings(has_secret=lambda *name: bool(secrets.find(*name)))
        self.world = World(secret_vault=self.vault, secrets=secrets, surroundings=around)
        self.client = self.world.client()

    async def put(self, name: str, **body: Any) -> httpx.Response:
        return await self.client.put(f"/secrets/{name}", json=body)


@pytest.fixture
def kept() -> Kept:
    return Kept()


async def test_a_secret_is_stored_and_never_shown(kept: Kept) -> None:
    """Nor in the audit, the log, or any later answer; lists have names, sources and dates."""
    answer = await kept.put("SHOP_TOKEN", value=VALUE)
    assert answer.status_code == 200, answer.text
    stored = {"name": "SHOP_TOKEN", "source": "stored", "values": 1}
    data = answer.json()["data"]
    assert {name: data[name] for name in stored} == stored
    assert data["createdAt"] == data["updatedAt"] == "2026-01-01T00:00:00.000Z"
    assert kept.vault.find("default", "SHOP_TOKEN") == (VALUE,)
    listed = await kept.client.get("/secrets")
    assert [one["name"] for one in listed.json()["data"]["items"]] == ["OF_SETTINGS", "SHOP_TOKEN"]
    assert listed.json()["data"]["canStore"] is True
    audit = await kept.client.get("/audit")
    assert "putSecret" in audit.text
    assert "SHOP_TOKEN" in audit.text
    for text in (answer.text, listed.text, audit.text, repr(kept.world.logged), repr(kept.table.rows)):
        assert VALUE not in text
        assert "given-value" not in text


async def test_a_secret_that_does_not_exist_is_warned_of_until_it_is_stored(kept: Kept) -> None:
    """Where a definition is posted, alone or in an array, also of a shape that is known, and in previews."""
    posted = definition(request=[{"url": "http://a.test/", "headers": {"X": "${secrets.SHOP_TOKEN}"}}])
    template = {"template": "k ${secrets.SHOP_TOKEN}", "place": "header"}
    codes = [[("/request/0/headers/X", "unknown_secret")]] * 2 + [[("/template", "unknown_secret")]]
    for number, expected in enumerate((codes, codes, [[]] * 3)):
        if not expected[0]:
            await kept.put("SHOP_TOKEN", value=VALUE)
        one = (await kept.client.post(f"/jobs/one-{number}", json=posted)).json()
        many = (await kept.client.post("/jobs", json=[posted | {"jobId": f"many-{number}"}])).json()
        tried = (await kept.client.post("/templates/preview", json=template)).json()
        found = (one["warnings"], many["data"]["items"][0]["warnings"], tried["warnings"])
        assert [[(flaw["pointer"], flaw["code"]) for flaw in flaws] for flaws in found] == expected


async def test_a_replaced_one_may_stay_the_second(kept: Kept) -> None:
    """Until the targets know the new one."""
    await kept.put("A", value=VALUE)
    answer = await kept.put("A", value=OTHER, keepEarlier=True)
    assert answer.json()["data"]["values"] == 2
    assert kept.vault.find("default", "A") == (OTHER, VALUE)
    await kept.put("A", value=[OTHER, VALUE])
    assert kept.vault.find("default", "A") == (OTHER, VALUE)
    await kept.put("A", value=OTHER)
    assert kept.vault.find("default", "A") == (OTHER,)


async def test_one_is_removed(kept: Kept) -> None:
    """One of the settings is not; what is not there is 404."""
    await kept.put("A", value=VALUE)
    assert (await kept.client.delete("/secrets/A")).status_code == 200
    assert kept.vault.find("default", "A") == ()
    for name in ("A", "OF_SETTINGS"):
        assert (await kept.client.delete(f"/secrets/{name}")).status_code == 404


async def test_the_settings_decide_before_what_is_stored(kept: Kept) -> None:
    """The answer warns."""
    answer = await kept.put("OF_SETTINGS", value=VALUE)
    (warning,) = answer.json()["warnings"]
    assert warning["code"] == "shadowed"
    assert answer.json()["data"]["source"] == "settings"


@each_row(
    "body",
    [
        {"value": "abc"},
        {"value": ""},
        {"value": [VALUE, "abc"]},
        {"value": [VALUE, OTHER, VALUE]},
        {"value": {"a": VALUE}},
        {"value": 12345678},
        {"valu": VALUE},
        {"value": VALUE, "keepEarlier": VALUE},
        [VALUE],
        VALUE,
    ],
)
async def test_a_refusal_repeats_no_value(body: Any) -> None:
    """422 with a pointer."""
    answer = await Kept().client.put("/secrets/A", json=body)
    assert answer.status_code in (400, 422), answer.text
    assert VALUE not in answer.text


async def test_broken_json_is_not_repeated(kept: Kept) -> None:
    """It has the value as well."""
    answer = await kept.client.put(
        "/secrets/A",
        content=f'{{"value": "{VALUE}" oops}}'.encode(),
        headers={"content-type": "application/json"},
    )
    assert answer.status_code == 400
    assert VALUE not in answer.text


@each_row("name", ["1A", "A.B", "A%20B", "a" * 129])
async def test_names(name: str) -> None:
    """As templates write them."""
    assert (await Kept().put(name, value=VALUE)).status_code in (404, 422)


async def test_without_a_key_nothing_is_stored() -> None:
    """409, and what to set; the list says so."""
    client = World().client()
    answer = await client.put("/secrets/A", json={"value": VALUE})
    assert answer.status_code == 409
    assert pointers(answer) == [("", "no_secrets_key")]
    assert "secrets_key_file" in answer.text
    assert VALUE not in answer.text
    assert (await client.delete("/secrets/A")).status_code == 409
    assert (await client.get("/secrets")).json()["data"] == {"items": [], "canStore": False}


async def test_a_tenant_stores_so_many(kept: Kept) -> None:
    """429; one that is there may be replaced."""
    sealed = Seal([bytes(32)]).close("default", "A0", (VALUE,))
    for number in range(MOST_SECRETS):
        await kept.table.put(StoredSecret("default", f"A{number}", sealed, START, START))
    await kept.vault.load()
    assert (await kept.put("B", value=VALUE)).status_code == 429
    assert (await kept.put("A0", value=OTHER)).status_code == 200
