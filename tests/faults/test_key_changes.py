"""Keys, secrets, calendars, services, lost notifications: changed while their process dies, each change is
there with its line, or neither.

SPEC section 14, docs/decisions/0106-the-audit-is-written-with-the-change.md.
"""

import asyncio
import base64
import shutil
import threading
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from scheduler_service.persistence.common.fault_points import FaultPoint
from tests.fault_points import EachPoint
from tests.faults.inside import Inside, open_inside
from tests.faults.processes import Crashed, Run, start_run

pytestmark = pytest.mark.timeout(180)
ADMIN = {"Authorization": "Bearer the-key-of-the-settings"}
SETTINGS = {
    "server.key": "the-key-of-the-settings",
    "secrets_key": base64.b64encode(bytes(range(32))).decode(),
    "store.durability": "process",
}
INSIDE = {name.replace(".", "__"): value for name, value in SETTINGS.items()}
USUAL = ("makeKey", "pauseService")
"""The others are in the long run; a real kill meets all kinds in every one."""
FURTHER = (
    "putSecret",
    "putCalendar",
    "rotateKey",
    "revokeKey",
    "deleteSecret",
    "deleteCalendar",
    "removeService",
)
CHANGES = (*USUAL, *FURTHER)
DISMISS = "dismissDelivery"
NOWHERE = "http://127.0.0.1:1/"


class Subject(NamedTuple):
    """What one change is about; `key` is the text of a key that was there before."""

    path: str = ""
    key: str = ""
    key_id: str = ""


class Images(EachPoint):
    """Copies the data folder before and after each commit, as a process that dies there leaves it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._gate = threading.Lock()
        self._target: Path | None = None
        self.made: list[Path] = []

    def begin(self, target: Path) -> None:
        """From now on each is copied into a folder below `target`."""
        self._target, self.made = target, []

    def end(self) -> list[Path]:
        """The copies, in their order."""
        with self._gate:
            self._target = None
            return self.made

    def at(self, place: str) -> None:
        with self._gate:
            if self._target is None or not place.endswith(FaultPoint.HISTORY):
                return
            image = self._target / str(len(self.made))
            # Others of the process write meanwhile, which a crash would cut off as well.
            shutil.copytree(self._folder, image, ignore=shutil.ignore_patterns("*-shm", "*lock*"))
            self.made.append(image)


async def prepare(caller: Inside | Run, change: str, number: int = 0) -> Subject:
    """What is there before the change."""
    if change in ("putSecret", "deleteSecret"):
        path = f"/secrets/{change}-{number}"
        put = {"value": f"before-{number}"}
        assert (await caller.ask("PUT", path, json=put, headers=ADMIN)).status_code == 200
        return Subject(path)
    if change in ("putCalendar", "deleteCalendar"):
        path = f"/calendars/{change}-{number}"
        assert (await caller.ask("PUT", path, json={"week": [1]}, headers=ADMIN)).status_code == 200
        return Subject(path)
    if change in ("pauseService", "removeService"):
        path = f"/services/{change}-{number}"
        assert (await caller.ask("PUT", path, json={}, headers=ADMIN)).status_code == 201
        return Subject(path)
    if change == "makeKey":
        return Subject("/keys")
    key = {"name": f"{change} {number}", "role": "viewer"}
    made = await caller.ask("POST", "/keys", json=key, headers=ADMIN)
    data = made.json()["data"]
    return Subject(f"/keys/{data['keyId']}", data["key"], data["keyId"])


async def make(caller: Inside | Run, change: str, subject: Subject, number: int = 0) -> httpx.Response:
    """The change."""
    method, path, body = {
        "makeKey": ("POST", subject.path, {"name": f"new-{number}", "role": "viewer"}),
        "rotateKey": ("POST", f"{subject.path}/rotate", {"overlapSeconds": 0}),
        "revokeKey": ("DELETE", subject.path, None),
        "putSecret": ("PUT", subject.path, {"value": [f"after-{number}", "another-value"]}),
        "deleteSecret": ("DELETE", subject.path, None),
        "putCalendar": ("PUT", subject.path, {"week": [2]}),
        "deleteCalendar": ("DELETE", subject.path, None),
        "pauseService": ("POST", f"{subject.path}/pause", None),
        "removeService": ("DELETE", subject.path, None),
        DISMISS: ("POST", f"{subject.path}/dismiss", {}),
    }[change]
    return await caller.ask(method, path, json=body, headers=ADMIN)


async def opens(caller: Inside | Run, key: str) -> bool:
    """Whether a key is let in; so many dead ones come from one address that it signs in in between."""
    signed_in = await caller.ask(
        "POST", "/session", json={"key": SETTINGS["server.key"]}, headers={"X-Punctual-Console": "1"}
    )
    assert signed_in.status_code == 200, signed_in.text
    answer = await caller.ask("GET", "/jobs", headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code in (200, 401)
    return answer.status_code == 200


async def is_made(caller: Inside | Run, change: str, subject: Subject, number: int = 0) -> bool:
    """Whether the change is there; whatever is there is whole."""
    if change == "makeKey":
        listed = (await caller.ask("GET", "/keys", headers=ADMIN)).json()["data"]["items"]
        found = [one for one in listed if one["name"] == f"new-{number}"]
        assert [one["state"] for one in found] in ([], ["living"])
        return bool(found)
    if change in ("rotateKey", "revokeKey"):
        read = (await caller.ask("GET", subject.path, headers=ADMIN)).json()["data"]
        state = {"rotateKey": "living", "revokeKey": "revoked"}[change]
        is_over = not await opens(caller, subject.key)
        assert read["state"] == (state if is_over else "living")
        return is_over
    if change in ("putCalendar", "deleteCalendar"):
        listed = (await caller.ask("GET", "/calendars", headers=ADMIN)).json()["data"]["items"]
        weeks = [one["week"] for one in listed if f"/calendars/{one['name']}" == subject.path]
        assert weeks in ([[1]], [[2]] if change == "putCalendar" else [])
        return weeks != [[1]]
    if change in ("pauseService", "removeService"):
        read = await caller.ask("GET", subject.path, headers=ADMIN)
        return bool(read.status_code == 404 or read.json()["data"]["paused"])
    if change == DISMISS:
        (found,) = (await caller.ask("GET", "/deliveries", headers=ADMIN)).json()["data"]["items"]
        assert found["state"] in ("pending", "dismissed")
        return bool(found["state"] == "dismissed")
    listed = (await caller.ask("GET", "/secrets", headers=ADMIN)).json()["data"]["items"]
    values = [one["values"] for one in listed if f"/secrets/{one['name']}" == subject.path]
    assert values in ([1], [2] if change == "putSecret" else [])
    return values != [1]


async def outcomes(caller: Inside | Run, change: str, subject: Subject) -> list[str]:
    """What the audit says of the change."""
    found = (await caller.ask("GET", f"/audit?operation={change}&limit=500", headers=ADMIN)).json()["data"]
    own = subject.path.rpartition("/")[2]
    lines = [one for one in found["items"] if change == "makeKey" or one["subject"] == own]
    if change in ("putSecret", "putCalendar"):
        lines = lines[:-1]  # the oldest is of `prepare`
    return [one["outcome"] for one in lines]


async def lose(folder: Path) -> Subject:
    """A notification without a guarantee that is in the memory of a process when that ends."""
    told = [{"url": NOWHERE, "stateEquals": ["finalFailed"]}]
    job = {
        "jobName": "j",
        "timer": {"period": "external"},
        "request": [{"url": NOWHERE}],
        "notification": told,
    }
    async with open_inside(folder, **INSIDE) as inside:
        for path, body in (("/jobs/j", job | {"notification": told}), ("/jobs/j/trigger", {})):
            assert (await inside.ask("POST", path, json=body, headers=ADMIN)).is_success

        async def find_pending() -> Any:
            listed = await inside.ask("GET", "/deliveries?state=pending", headers=ADMIN)
            return listed.json()["data"]["items"]

        (found,) = await inside.until(find_pending, "it is pending")
    return Subject(f"/deliveries/{found['deliveryId']}")


@pytest.mark.parametrize(
    "change", [*USUAL, DISMISS, *(pytest.param(one, marks=pytest.mark.long) for one in FURTHER)]
)
async def test_a_death_at_each_write_leaves_nothing_half(change: str, tmp_path: Path) -> None:
    """No line: nothing was changed. A line `asked`: it was, or was not. A line `done`: it was."""
    images = Images(tmp_path / "data")
    lost = await lose(tmp_path / "data") if change == DISMISS else None
    async with open_inside(tmp_path / "data", faults=images, **INSIDE) as inside:
        subject = lost or await prepare(inside, change)
        images.begin(tmp_path / "images")
        answer = await make(inside, change, subject)
        made = images.end()
        assert answer.is_success, answer.text
    seen = []
    for image in made:
        async with open_inside(image, **INSIDE) as inside:
            said = await outcomes(inside, change, subject)
            seen.append((tuple(said), await is_made(inside, change, subject)))
    assert set(seen) == {((), False), (("asked",), False), (("asked",), True), (("done",), True)}, seen
    assert seen == sorted(seen, key=[*dict.fromkeys(seen)].index), "nothing is undone"
    async with open_inside(tmp_path / "data", **INSIDE) as inside:
        await judge_answered(inside, change, subject, answer)


async def judge_answered(
    caller: Inside | Run, change: str, subject: Subject, answer: httpx.Response, number: int = 0
) -> None:
    """What was answered stays: a key works, one that was revoked does not."""
    assert await is_made(caller, change, subject, number)
    if change in ("makeKey", "rotateKey"):
        assert await opens(caller, answer.json()["data"]["key"])


async def test_a_death_at_each_write_of_a_sign_out(tmp_path: Path) -> None:
    """The session goes on or has ended, and the next sign-out ends it; one that was answered has ended it."""
    images, console = Images(tmp_path / "data"), {"X-Punctual-Console": "1"}

    async def status(folder: Path, *, again: bool = False) -> int:
        async with open_inside(folder, **INSIDE) as inside:
            found = (await inside.ask("GET", "/jobs", headers=cookie)).status_code
            if again:
                ended = await inside.ask("DELETE", "/session", headers=cookie)
                assert ended.status_code == 200
                assert (await inside.ask("GET", "/jobs", headers=cookie)).status_code == 401
            return found

    async with open_inside(tmp_path / "data", faults=images, **INSIDE) as inside:
        signed_in = await inside.ask(
            "POST", "/session", json={"key": SETTINGS["server.key"]}, headers=console
        )
        cookie = {**console, "Cookie": signed_in.headers["set-cookie"].partition(";")[0]}
        images.begin(tmp_path / "images")
        assert (await inside.ask("DELETE", "/session", headers=cookie)).status_code == 200
        made = images.end()
    seen = [await status(image, again=True) for image in made]
    assert (set(seen), seen) == ({200, 401}, sorted(seen))
    assert await status(tmp_path / "data") == 401


AT_ONCE = 4


async def test_a_real_kill_in_the_midst_of_all_kinds(tmp_path: Path) -> None:
    """Of each kind one was answered, and four are under way."""
    run = start_run(tmp_path / "data", settings=SETTINGS)
    assert await run.is_up(), run.message
    wanted = [(change, number) for change in CHANGES for number in range(AT_ONCE + 1)]
    subjects = {one: await prepare(run, *one) for one in wanted}
    answered = {(change, 0): await make(run, change, subjects[change, 0]) for change in CHANGES}
    under_way = {
        one: asyncio.ensure_future(make(run, one[0], subjects[one], one[1])) for one in wanted if one[1]
    }
    await asyncio.wait(under_way.values(), return_when=asyncio.FIRST_COMPLETED)
    await run.kill()
    await asyncio.wait(under_way.values())
    for one, task in under_way.items():
        error = task.exception()
        assert error is None or isinstance(error, Crashed), error
        if error is None:
            answered[one] = task.result()
    again = start_run(tmp_path / "data", settings=SETTINGS)
    assert await again.is_up(), again.message
    for (change, number), answer in answered.items():
        assert answer.is_success, answer.text
        await judge_answered(again, change, subjects[change, number], answer, number)
    for change, number in wanted:
        subject = subjects[change, number]
        there = await is_made(again, change, subject, number)
        if change != "makeKey":  # its line has no id before it is made
            said = await outcomes(again, change, subject)
            assert (said, there) in (([], False), (["asked"], there), (["done"], True)), (change, said, there)
    lines = (await again.read("/audit", operation="makeKey", limit=500))["items"]
    done = {one["subject"] for one in lines if one["outcome"] == "done"}
    keys = {one["keyId"]: one["name"] for one in (await again.read("/keys", limit=500))["items"]}
    assert done <= keys.keys()
    asked = [one for one in lines if one["outcome"] == "asked"]
    assert len(keys.keys() - done) <= len(asked)
    await again.terminate()
