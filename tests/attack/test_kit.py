"""The kit itself: limits hold, the bystander is seen, hostile ends do what they say."""

from functools import partial
from pathlib import Path

from tests.attack.bystander import lateness, open_bystander
from tests.attack.client import get, many_clients, open_client, post
from tests.attack.service import job, open_service
from tests.attack.target import saying
from tests.unit.transport.servers import Stage


async def test_a_service_has_the_limits_that_are_given(tmp_path: Path) -> None:
    """Its hard limit of descriptors, as the kernel shows it; memory, descriptors and log can be read."""
    async with open_service(tmp_path / "data", limits={"NOFILE": (128, 256)}) as service:
        limits = Path(f"/proc/{service.run.pid}/limits").read_text().splitlines()
        (files,) = [line.split() for line in limits if line.startswith("Max open files")]
        assert int(files[4]) == 256
        assert 0 < service.descriptors() < 128
        assert 0 < service.peak_memory() < 300
        assert len(service.logged("listening")) == 1
        assert await service.is_live()


async def test_the_bystander_sees_each_firing(tmp_path: Path) -> None:
    """With its planned moment, beside silent connections and a target that answers."""
    async with open_service(tmp_path / "data") as service, open_bystander(service) as bystander:
        async with many_clients(service.url, 20):
            await bystander.check()
        seen = await bystander.look()
        assert lateness(seen.arrivals)["count"] == len(seen.arrivals) >= 10
        planned = sorted(planned for planned, _ in seen.arrivals)
        assert planned == sorted(set(planned))
        assert service.run.code is None


async def test_a_client_says_bytes_and_a_target_answers(stage: Stage, tmp_path: Path) -> None:
    """A raw request is answered; so is one in two halves; a job ends as its target says."""
    target = await stage.server(saying({"error": "no"}, status=500))
    async with open_service(tmp_path / "data") as service, open_client(service.url) as client:
        await client.say(get("/health/live"))
        assert (await client.answer())[0] == 200
        whole = post("/jobs", b"[]")
        await client.say(whole[:-1])
        await client.say(whole[-1:])
        assert (await client.answer())[0] in (200, 422)
        await service.create(job("one", target.url))
        ended = partial(service.run.read, "/executions", jobId="one", state="terminated")

        async def has_ended() -> bool:
            return len((await ended())["items"]) == 1

        await service.run.until(has_ended, "the execution ended")
