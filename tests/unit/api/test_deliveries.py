"""Notifications over the API: sent again or given up (SPEC section 7)."""

import httpx


async def test_deliveries_are_sent_again_or_given_up(client: httpx.AsyncClient) -> None:
    """200 while it waits, 409 when it is done, 404 when it never was."""
    for verb in ("resend", "dismiss"):
        assert (await client.post(f"/deliveries/waiting/{verb}")).status_code == 200
        assert (await client.post(f"/deliveries/done/{verb}")).status_code == 409
        assert (await client.post(f"/deliveries/never/{verb}")).status_code == 404
    assert (await client.get("/deliveries?state=outbox")).json()["data"] == {"items": [], "nextCursor": None}
