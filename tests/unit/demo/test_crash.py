"""The target of the demo's crash: what it got, done once under each key."""

import asyncio

import httpx

from scheduler_service.demo.crash import Witness, describe_requests


def caller(witness: Witness) -> httpx.AsyncClient:
    """Calls it without a socket."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(witness), base_url="http://target")


async def test_a_key_is_done_once() -> None:
    """Repeated, it is answered from memory; headers that are made anew make no difference."""
    witness = Witness(held="pack")
    witness.release()
    async with caller(witness) as client:
        for step in ("pick", "pack", "pack", "ship"):
            headers = {"idempotency-key": step, "traceparent": f"00-{len(witness.seen)}"}
            answer = await client.post(f"/parcel/{step}", headers=headers, json={"article": "tea"})
            assert answer.json()["step"] == step
    assert witness.done == ["pick", "pack", "ship"]
    assert describe_requests(witness) == [
        "pick: came 1 time",
        "pack: came 2 times, with the same Idempotency-Key and equal byte for byte: "
        "answered the second time from memory",
        "ship: came 1 time",
        "nothing was repeated: 3 steps, 3 keys, each done once, in order",
    ]


async def test_what_is_not_as_promised_is_said() -> None:
    """Another key, or another body, for the same step."""
    witness = Witness(held="pack")
    witness.release()
    async with caller(witness) as client:
        for number, step in enumerate(("pick", "pack", "pack", "ship")):
            await client.post(f"/parcel/{step}", headers={"idempotency-key": str(number)})
    lines = describe_requests(witness)
    assert "NOT EQUAL" in lines[1]
    assert lines[-1].startswith("this is not as promised")


async def test_one_answer_is_held_until_it_is_released() -> None:
    """The first one for that step; who waits for its coming, gets on."""
    witness = Witness(held="pack")
    async with caller(witness) as client:
        sending = asyncio.create_task(client.post("/parcel/pack", headers={"idempotency-key": "k"}))
        await witness.wait_for("pack", 1)
        assert not sending.done()
        assert witness.done == []
        witness.release()
        assert (await sending).status_code == 200
    assert witness.count("pack") == 1
