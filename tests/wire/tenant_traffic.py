"""Tenants that do at random, under the same names, whatever the API offers, and watch what they are shown.

Whatever a tenant may name has its canary, each of its secrets another one. `Traffic` works on the addresses
of a service, wherever its jobs live.
"""

import asyncio
import contextlib
import json
import random
import re
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from scheduler_service.api.application import OPERATIONS
from scheduler_service.domain.moments import SECOND, rfc3339
from scheduler_service.language.value_masks import forms_of
from tests.unit.docs.roles import is_as_promised, table
from tests.wire.service import data_of
from tests.wire.target import Reply, Seen, Target

ADMIN_KEY = "the-key-of-the-settings"
CANARIES = {"north": "crimson", "south": "azure", "default": "ochre"}
"""By tenant, words that nothing else has: the audit of `default` names the tenants, as it made their keys."""
CLEANING = "north"
"""The one tenant that cleans its history: those of the others have to stay whole."""
OWNERS = {"shop-1": "shop", "shop-2": "shop", "ops-1": "ops", "rest-1": "rest", "rest-2": "rest"}
"""Whose each job is, in every tenant: of the service, of jobs with a label, or of neither."""
ROLES: Mapping[str, Mapping[str, Any]] = {
    "viewer": {"role": "viewer"},
    "operator": {"role": "operator"},
    "editor": {"role": "editor"},
    "admin": {"role": "admin"},
    "shop": {"role": "editor", "service": "shop"},
    "ops": {"role": "editor", "labels": ["team:ops"]},
    "work": {"role": "editor", "service": "work"},
}
IDS = ("executionId", "deliveryId", "lease", "keyId", "operationId", "uid")
FOR_ALL = frozenset({"/metrics", "/settings", "/nodes", "/alerts"})
"""What is about the whole service: for the tenant `default` alone, and of all tenants."""
GIVES_SECRETS = "/queues/{name}/claim"
"""A worker gets the whole request."""
TRIAL = "trial:"
"""Begins the id of a job of `POST /definitions/try`, which has the owner of its definition."""
PATIENCE = 60.0


class Act(NamedTuple):
    """One request; `path` is filled in."""

    route: str
    path: str
    body: Any = None


class Shown(NamedTuple):
    """What a stream was told."""

    role: str
    line: str


def secret_of(tenant: str, name: str) -> str:
    """The value of a secret of a tenant."""
    return f"s3cret-{CANARIES[tenant]}/{name}+&=1"


class Tenant:
    """One tenant: its keys, what it has seen, and what it does next."""

    def __init__(self, name: str, keys: Mapping[str, str], *, seed: int, target: str) -> None:
        self.name, self.canary = name, CANARIES[name]
        self.keys = dict(keys)
        self.random = random.Random(f"{seed} {name}")
        self.ids: dict[str, dict[str, None]] = {kind: {} for kind in IDS}
        self.held: list[dict[str, Any]] = []
        self.begun: list[str] = []
        """Executions of the job that waits for reports."""
        self.started: set[str] = set()
        self.done: set[str] = set()
        self.feedback: list[str] = []
        self._target = target
        self._deck: list[int] = []
        others = "|".join(one for one in CANARIES.values() if one != self.canary)
        self.foreign = re.compile(others, re.IGNORECASE)

    def next_act(self) -> Act:
        """The next one of a deck that has every operation, shuffled anew whenever it is used up.

        It is made when it is its turn, so that it may name what was seen last.
        """
        acts = list(self._acts())
        if not self._deck:
            self._deck = list(range(len(acts)))
            self.random.shuffle(self._deck)
        return acts[self._deck.pop()]

    def job(self, job_id: str, **members: Any) -> dict[str, Any]:
        """A definition in which each text has the canary."""
        owner, canary = OWNERS[job_id], self.canary
        base: dict[str, Any] = {
            "jobName": f"{canary} of-{owner}",
            "creator": "shop" if owner == "shop" else "people",
            "creatorName": f"{canary} creator",
            "objectId": f"{canary}-object",
            "labels": {"mark": canary, **({"team": "ops"} if owner == "ops" else {})},
            "keepResult": True,
            "timer": {"period": "external"},
            "request": [
                {
                    "url": f"{self._target}/run/{canary}?k=${{secrets.TOKEN}}",
                    "headers": {"X-Own": "${secrets.STORED}", "X-Place": "${PLACE}"},
                    "body": {"of": canary, "owner": f"of-{owner}", "got": "${PARAMS}|json"},
                }
            ],
        }
        return base | members

    def _shapes(self, job_id: str) -> list[dict[str, Any]]:
        canary, owner = self.canary, OWNERS[job_id]
        queue = "shop" if owner == "shop" else "work"
        body = {"of": canary, "secret": "${secrets.TOKEN}", "owner": f"of-{owner}"}
        reported = {"url": f"{self._target}/report/{canary}", "body": {"back": "${schedulingFeedbackUrl}"}}
        notified = {"url": f"{self._target}/told/{canary}?s=${{secrets.STORED}}", "body": body}
        refused = {"url": "http://127.0.0.1:1/" + canary, "headers": {"X": "${secrets.TOKEN}"}}
        queued = self.job(job_id, request=[{"url": f"queue://{queue}", "body": body}], qos=1)
        waiting = self.job(job_id, request=[reported], **{"async": True})
        ticking = self.job(job_id, timer={"period": "2s"}, qos=1)
        if job_id in _ALWAYS:
            return [{"queue": queued, "report": waiting, "timer": ticking}[_ALWAYS[job_id]]]
        return [
            self.job(job_id),
            ticking,
            queued,
            waiting,
            self.job(job_id, notification=[notified]),
            self.job(job_id, request=[refused], notification=[refused]),
            self.job(job_id, request=[{"url": "service://shop/run", "body": body}]),
        ]

    def _acts(self) -> Iterator[Act]:
        yield from self._of_jobs()
        yield from self._of_executions()
        yield from self._of_services()
        yield from self._of_tenant()
        yield from (Act(route, route.partition(" ")[2]) for route in _READS)

    def _of_jobs(self) -> Iterator[Act]:
        for job_id in OWNERS:
            shapes = self._shapes(job_id)
            path, choose = f"/jobs/{job_id}", self.random.choice
            said = {"of": self.canary, "s": secret_of(self.name, "TOKEN")}
            yield Act("POST /jobs/{jobId}", path, choose(shapes))
            yield Act("POST /jobs/{jobId}/update", f"{path}/update", choose(shapes))
            for _ in range(3):
                yield Act("POST /jobs/{jobId}/trigger", f"{path}/trigger", said)
            yield Act("PUT /jobs/{jobId}", f"{path}?{choose(_SWITCHES)}")
            yield Act("GET /jobs/{jobId}", path)
            for name in ("revisions", "next", "firings", "executions", "statistics", "retry-plan?error=500"):
                yield Act(f"GET /jobs/{{jobId}}/{name.partition('?')[0]}", f"{path}/{name}")
        now = time.time() * SECOND
        past = {"from": rfc3339(round(now) - 6 * SECOND), "to": rfc3339(round(now)), "which": "all"}
        for dry_run in (True, False):
            members = {**past, "dryRun": dry_run, "params": {"of": self.canary}}
            yield Act("POST /jobs/{jobId}/backfill", "/jobs/ops-1/backfill", members)
        job_id = self.random.choice(list(OWNERS))
        yield Act("DELETE /jobs/{jobId}", f"/jobs/{job_id}")
        yield Act("DELETE /job/{jobId}", f"/job/{self.random.choice(list(OWNERS))}")
        many = [{**self.random.choice(self._shapes(one)), "jobId": one} for one in OWNERS]
        yield Act("POST /jobs", f"/jobs?onExisting={self.random.choice(('update', 'fail'))}", many)
        family = {"parentJob": "shop-1", "parentJobExecution": 1}
        yield Act("POST /jobs/{jobId}", "/jobs/rest-2", self.job("rest-2", **family))
        yield Act("DELETE /main/destroyByParentJob", "/main/destroyByParentJob?parentJobId=shop-1")
        yield Act("POST /definitions/check", "/definitions/check", {**self.job(job_id), "jobId": job_id})
        yield Act("POST /definitions/compare", "/definitions/compare", many)
        yield Act("POST /definitions/try", "/definitions/try", {"definition": self.job(job_id)})
        for action in ("pause", "resume", "trigger", "label", "disable", "enable"):
            labels = {"labels": {"more": self.canary}} if action == "label" else {}
            chosen = {"filter": {}} if action in ("resume", "enable") else {"jobIds": list(OWNERS)}
            yield Act("POST /bulk/jobs", "/bulk/jobs", {"action": action, "select": chosen, **labels})

    def _of_executions(self) -> Iterator[Act]:
        reason = {"reason": f"{self.canary} reason {secret_of(self.name, 'TOKEN')}"}
        for _ in range(3):
            one = self.some("executionId")
            path = f"/executions/{one}"
            yield Act("GET /executions/{executionId}", path)
            yield Act("GET /executions/{executionId}/log", f"{path}/log")
            yield Act("GET /executions/{executionId}/result", f"{path}/result")
            yield Act("POST /executions/{executionId}/replay", f"{path}/replay", {"params": reason})
            yield Act("POST /executions/{executionId}/release", f"{path}/release")
            children = f"/main/getChildJobLogsByExecutionId?executionId={one}"
            yield Act("GET /main/getChildJobLogsByExecutionId", children)
        for _ in range(4):
            one = self.random.choice(self.begun[-2:] or ["none-1"])
            yield Act("POST /executions/{executionId}/cancel", f"/executions/{one}/cancel", reason)
        for action in ("cancel", "replay"):
            said = reason if action == "cancel" else {"params": reason}
            select = (
                {"filter": {"jobId": _WAITING}} if action == "cancel" else {"executionIds": self.begun[-3:]}
            )
            wanted = {"action": action, "select": select, **said}
            yield Act("POST /bulk/executions", "/bulk/executions", wanted)
        for verb in ("resend", "dismiss"):
            path = f"/deliveries/{self.some('deliveryId')}/{verb}"
            yield Act(f"POST /deliveries/{{deliveryId}}/{verb}", path)
        operation = f"/operations/{self.some('operationId')}"
        yield Act("GET /operations/{operationId}", operation)
        yield Act("POST /operations/{operationId}/cancel", f"{operation}/cancel")
        for _ in range(4):
            said = {"status": "succeed", "message": self.canary, "data": {"of": self.canary, **reason}}
            url = self.random.choice(self.feedback[-6:] or ["/jobs/rest-1/feedback/1?token=none"])
            yield Act("POST /jobs/{jobId}/feedback/{requestCounts}", url, said)

    def _of_services(self) -> Iterator[Act]:
        canary, choose = self.canary, self.random.choice
        timers = [{**self.job("shop-2"), "jobId": "shop-2"}]
        said = {"tags": [canary], "timers": timers, "options": {"timeoutSeconds": choose((20, 30))}}
        instance = {"description": canary, "address": f"{self._target}/instance/{canary}"}
        for name in ("shop", "store"):
            path = f"/services/{name}"
            yield Act("POST /services/{name}/preview", f"{path}/preview", said)
            yield Act("PUT /services/{name}", path, said if name == "shop" else {"tags": [canary]})
            yield Act("PUT /services/{name}/instances/{instanceId}", f"{path}/instances/i", instance)
            beat = f"{path}/instances/i/heartbeat"
            yield Act("POST /services/{name}/instances/{instanceId}/heartbeat", beat, {"load": 1})
            for verb in ("pause", "resume"):
                yield Act(f"POST /services/{{name}}/{verb}", f"{path}/{verb}")
            yield Act("GET /services/{name}", path)
            yield Act("GET /services/{name}/drift", f"{path}/drift")
        yield Act("DELETE /services/{name}/instances/{instanceId}", "/services/store/instances/i")
        yield Act("DELETE /services/{name}", "/services/store")
        calendar, path = {"free": [choose(("2026-01-05", "2026-01-06"))]}, "/calendars/office"
        yield Act("POST /dates/read", "/dates/read", {"text": "2026-05-01", "calendar": calendar})
        yield Act("POST /calendars/{calendarName}/preview", f"{path}/preview", calendar)
        yield Act("PUT /calendars/{calendarName}", path, calendar)
        yield Act("GET /calendars/{calendarName}", path)
        yield Act("DELETE /calendars/{calendarName}", path)
        for name in ("work", "shop"):
            for _ in range(3):
                worker = {"instanceId": f"worker-{canary}", "max": 2}
                yield Act("POST /queues/{name}/claim", f"/queues/{name}/claim", worker)
            yield Act("GET /queues/{name}", f"/queues/{name}")
            yield Act("POST /queues/{name}/pause", f"/queues/{name}/pause")
            yield Act("POST /queues/{name}/resume", f"/queues/{name}/resume")
            for _ in range(2):
                part = self.random.choice(self.held) if self.held else _NO_PART
                yield Act("POST /queues/{name}/free", f"/queues/{name}/free", part)
        for _ in range(4):
            lease = f"/leases/{self.some('lease')}"
            yield Act("POST /leases/{lease}/renew", f"{lease}/renew", {"progress": canary})
            ended = {"status": choose(("succeed", "failed")), "data": {"of": canary}, "message": canary}
            yield Act("POST /leases/{lease}/complete", f"{lease}/complete", ended)

    def _of_tenant(self) -> Iterator[Act]:
        canary = self.canary
        name = f"{canary} further {self.random.getrandbits(32)}"
        wanted = {"name": name, "role": "viewer", "expiresAt": "2199-01-01T00:00:00Z"}
        yield Act("POST /keys", "/keys", wanted)
        further = [one for one in self.ids["keyId"] if one not in self.kept_keys()]
        key = self.random.choice(further) if further else "0" * 16
        yield Act("GET /keys/{keyId}", f"/keys/{self.some('keyId')}")
        yield Act("POST /keys/{keyId}/rotate", f"/keys/{key}/rotate", {"overlapSeconds": 1})
        yield Act("DELETE /keys/{keyId}", f"/keys/{key}")
        for name in ("STORED", "FURTHER"):
            value = {"value": secret_of(self.name, name)}
            yield Act("PUT /secrets/{secretName}", f"/secrets/{name}", value)
        yield Act("DELETE /secrets/{secretName}", "/secrets/FURTHER")
        template = {"template": {"p": "${PLACE}", "s": "${secrets.TOKEN}"}, "place": "body"}
        yield Act("POST /templates/preview", "/templates/preview", template)
        yield Act("POST /timers/preview", "/timers/preview", {"timer": {"period": "1h"}, "count": 3})
        yield Act("POST /timers/outlook", "/timers/outlook", {"timer": {"period": "1h"}, "days": 2})
        yield Act("POST /session", "/session", {"key": self.keys["viewer"]})
        yield Act("DELETE /session", "/session")
        if self.name == CLEANING:
            yield Act("DELETE /main/schedule/clean", "/main/schedule/clean?retainExecutionCount=5")
        yield Act("GET /outcomes", "/outcomes?" + "&".join(f"jobId={one}" for one in OWNERS))
        yield Act("GET /main/execution", "/main/execution?jobId=rest-1")
        children = "/main/getChildJobLogs?parentJobId=shop-1&execution=1"
        yield Act("GET /main/getChildJobLogs", children)
        for text in CANARIES.values():
            yield Act("GET /jobs", f"/jobs?text={text[:-1]}")
            yield Act("GET /audit", f"/audit?who={text}%20admin")
            yield Act("GET /executions", f"/executions?label=mark:{text}")

    def some(self, kind: str) -> str:
        """An id that it has seen, often one of the latest."""
        known = list(self.ids[kind])
        latest = known[-3:] if self.random.random() < 0.6 else known
        return self.random.choice(latest) if known else "0" * 16

    def kept_keys(self) -> frozenset[str]:
        """The ids of the keys that it acts with."""
        return frozenset(key.split("_")[1] for role, key in self.keys.items() if key.startswith("pk_"))

    def learn(self, data: Any) -> None:
        """Keeps the ids in an answer."""
        if isinstance(data, dict):
            for name, value in data.items():
                if name in self.ids and isinstance(value, str):
                    self.ids[name][value] = None
                else:
                    self.learn(value)
        elif isinstance(data, list):
            for one in data:
                self.learn(one)


_WAITING = "rest-1"
_ALWAYS = {_WAITING: "report", "rest-2": "queue", "ops-1": "timer"}
"""Jobs that are always so: else hardly anything could be reported, claimed or made up for."""
_NO_PART = {"executionId": "none-1", "requestCounts": 1}
NEEDS_MORE = frozenset(
    {"GET /events", "DELETE /main/schedule/clean", "POST /executions/{executionId}/release"}
)
"""Followed all the time, done by one tenant, and possible where a switch of the settings holds all."""
_SWITCHES = ("active=0", "active=1", "disabled=true", "disabled=false")
_READS = sorted(
    one.route
    for one in OPERATIONS
    if one.method == "GET" and "{" not in one.path and one.path not in ("/events", "/outcomes")
    and not one.path.startswith("/main")
)  # fmt: skip
_OF_ID = {
    "executionId": re.compile(r"/executions/([^/?]+)"),
    "deliveryId": re.compile(r"/deliveries/([^/?]+)"),
    "operationId": re.compile(r"/operations/([^/?]+)"),
    "keyId": re.compile(r"/keys/([^/?]+)"),
    "lease": re.compile(r"/leases/([^/?]+)"),
}


class Traffic:
    """All tenants at once, at random, on the addresses of one service. Raises AssertionError for a leak."""

    def __init__(self, *, urls: Sequence[str], target: Target, tenants: Sequence[Tenant], seed: int) -> None:
        self._urls = urls
        self._target = target
        self.tenants = tenants
        self._random = random.Random(seed)
        self.seed = seed
        self.requests = self.refused = self.foreign = 0
        self.streams: dict[str, list[Shown]] = {one.name: [] for one in tenants}
        given = {"timeout": 60, "trust_env": False, "headers": {"X-Punctual-Console": "1"}}
        self._clients = [httpx.AsyncClient(base_url=url, **given) for url in urls]
        self.leaks: list[Seen] = []
        self._table = table()
        for path in ("/run", "/report", "/told", "/instance"):
            target.always(path, self._answer)
        self._forms = secret_forms(_SECRETS)
        self._kept_nowhere = secret_forms(("STORED", "FURTHER"))

    async def drive(self, *, rounds: int = 0, seconds: float = 0) -> None:
        """Each tenant acts `rounds` times, and until so many seconds are over; streams follow meanwhile."""
        async with self._following():
            await asyncio.gather(
                *(self._work(one, rounds, time.monotonic() + seconds) for one in self.tenants)
            )
            await self._settle()

    async def await_keys(self) -> None:
        """Until every node knows the keys."""
        end = time.monotonic() + PATIENCE
        last = self.tenants[-1].keys["ops"].split("_")[1]
        known = {"Authorization": f"Bearer {ADMIN_KEY}"}
        for client in self._clients:
            while (await client.get(f"/keys/{last}", headers=known)).status_code != 200:
                assert time.monotonic() < end
                await asyncio.sleep(0.05)

    async def close(self) -> None:
        """Ends the connections."""
        await asyncio.gather(*(client.aclose() for client in self._clients))

    def judge_log(self, lines: Iterable[str]) -> None:
        """No line of a log is about two tenants, and none has a secret."""
        for line in lines:
            found = {canary for canary in CANARIES.values() if canary in line}
            assert len(found) < 2, (self.seed, line)
            assert [form for form in self._forms if form in line.encode()] == [], (self.seed, line)

    def judge_files(self, folder: Path) -> None:
        """No value of a secret is in any file, but for what callers put into parameters of triggers."""
        for path in folder.rglob("*"):
            content = path.read_bytes() if path.is_file() else b""
            assert [form for form in self._kept_nowhere if form in content] == [], (self.seed, path)

    async def judge_end(self) -> None:
        """What each tenant counts is what it lists; no id is another one's; events were its own."""
        assert self.leaks == [], self.seed
        for tenant in self.tenants:
            for path in ("/jobs", "/executions", "/deliveries"):
                await self._judge_count(tenant, path)
            assert {one["jobId"] for one in await self._list(tenant, "/jobs")} <= OWNERS.keys()
            await self._judge_figures(tenant)
            if tenant.name != CLEANING:
                kept = {one["executionId"] for one in await self._list(tenant, "/executions")}
                assert tenant.started <= kept, (self.seed, tenant.name, "another one's cleaning")
            self._judge_stream(tenant)
        for kind in IDS:
            for one in self.tenants:
                for other in self.tenants:
                    if one is not other:
                        assert one.ids[kind].keys().isdisjoint(other.ids[kind]), (self.seed, kind, one.name)

    def missing(self) -> set[str]:
        """The operations that no tenant has done with success."""
        platform = {f"GET {path}" for path in FOR_ALL}
        wanted = {one.route for one in OPERATIONS} - platform - NEEDS_MORE
        return wanted.difference(*(one.done for one in self.tenants))

    async def _work(self, tenant: Tenant, rounds: int, end: float) -> None:
        while rounds > 0 or time.monotonic() < end:
            rounds -= 1
            act, role = tenant.next_act(), tenant.random.choice(list(ROLES))
            if tenant.random.random() < 0.4:
                role = self._may(act)
            await self._do(tenant, act, role)
            if tenant.random.random() < 0.15:
                await self._try_foreign(tenant, act, role)

    def _may(self, act: Act) -> str:
        """A key that may do it: the worker's of a queue, else an admin's."""
        if not self._table[act.route].by_service:
            return "admin"
        return "work" if act.path.startswith(("/queues/work", "/leases")) else "shop"

    async def _do(self, tenant: Tenant, act: Act, role: str) -> None:
        headers = {"Idempotency-Key": "the same"} if tenant.random.random() < 0.1 else {}
        answer = await self._ask(tenant, act, role, headers)
        if answer.is_success:
            tenant.done.add(act.route)
            if act.route.endswith("/claim"):
                items = data_of(answer)["items"]
                tenant.held = [{name: one[name] for name in _NO_PART} for one in items] or tenant.held
            if act.route.endswith("/trigger"):
                execution = data_of(answer)["executionId"]
                tenant.started.add(execution)
                if act.path.startswith(f"/jobs/{_WAITING}/"):
                    tenant.begun.append(execution)
        if act.path.partition("?")[0] in FOR_ALL and tenant.name != "default":
            assert answer.status_code in (404, 403), (self.seed, act, role, answer.text)

    async def _try_foreign(self, tenant: Tenant, act: Act, role: str) -> None:
        """The same with an id of another tenant: it is not there."""
        for kind, place in _OF_ID.items():
            found = place.search(act.path)
            other = tenant.random.choice([one for one in self.tenants if one is not tenant])
            if found is None or not other.ids[kind]:
                continue
            if kind == "keyId" and tenant.name == "default":
                continue  # an admin of `default` manages the keys of all
            path = act.path.replace(found[1], other.some(kind))
            answer = await self._ask(tenant, act._replace(path=path), role, {})
            self.foreign += 1
            # A lease is answered as one that never was.
            refused = (403, 409, 503) if kind == "lease" else (403, 404, 503)
            assert answer.status_code in refused, (self.seed, tenant.name, role, act, answer.text)

    async def _ask(self, tenant: Tenant, act: Act, role: str, headers: Mapping[str, str]) -> httpx.Response:
        method = act.route.partition(" ")[0]
        known = {} if "/feedback/" in act.path else {"Authorization": f"Bearer {tenant.keys[role]}"}
        client = self._clients[tenant.random.randrange(len(self._clients))]
        try:
            answer = await client.request(method, act.path, json=act.body, headers={**known, **headers})
        except httpx.HTTPError as error:
            error.add_note(f"{self.seed} {tenant.name} {role} {act}")
            raise
        client.cookies.clear()
        self.requests += 1
        self.refused += answer.status_code == 503
        self._judge_role(tenant, act, role, answer)
        assert answer.status_code < 500 or answer.status_code == 503, (self.seed, act, role, answer.text)
        self._judge(tenant, act, role, answer.text)
        if answer.is_success and answer.headers["content-type"] == "application/json":
            tenant.learn(answer.json()["data"])
        return answer

    def _judge_role(self, tenant: Tenant, act: Act, role: str, answer: httpx.Response) -> None:
        """The role may do it, or is refused, as the table of the manual says."""
        row = self._table[act.route]
        if tenant.name != "default" and row.is_of_platform:
            return  # it is 404 for all
        code = ""
        if answer.status_code >= 400:
            errors = answer.json()["errors"]
            code = next((one["code"] for one in errors if one["pointer"] == "/Authorization"), "")
        if isinstance(act.body, dict) and act.body.get("action") == "label":
            row = row._replace(role="editor")  # of the actions of a bulk request, these change jobs
        kind = {"shop": "service editor", "work": "service editor", "ops": "labels editor"}.get(role, role)
        promised = is_as_promised(row, kind, answer.status_code, code)
        assert promised, (self.seed, tenant.name, role, act, answer.text)

    def _judge(self, tenant: Tenant, act: Act, role: str, text: str) -> None:
        where = (self.seed, tenant.name, role, act)
        if tenant.name != "default" or act.path.partition("?")[0] not in FOR_ALL:
            assert tenant.foreign.search(text) is None, (*where, text)
        if role in ("shop", "ops"):
            hidden = re.search("of-ops|of-rest" if role == "shop" else "of-shop|of-rest", text)
            assert hidden is None or hidden[0] in f"{act.body}", (*where, text)
        if act.route.partition(" ")[2] != GIVES_SECRETS:
            shown = [form for form in self._forms if form in text.encode()]
            assert shown == [], (*where, text)

    async def _settle(self) -> None:
        """Until nothing that was begun changes the counts any more, but for what waits."""
        before, end = None, time.monotonic() + PATIENCE
        for tenant in self.tenants:
            pause = Act("POST /bulk/jobs", "/bulk/jobs", {"action": "pause", "select": {"filter": {}}})
            await self._insist(tenant, pause)
        while time.monotonic() < end:
            counts = [
                data_of(await self._insist(tenant, Act(f"GET {path}", path)))
                for tenant in self.tenants
                for path in ("/counts/executions", "/counts/deliveries")
            ]
            if counts == before:
                return
            before = counts
            await asyncio.sleep(1)
        raise AssertionError((self.seed, "counts do not come to rest", before))

    async def _insist(self, tenant: Tenant, act: Act) -> httpx.Response:
        end = time.monotonic() + PATIENCE
        while not (answer := await self._ask(tenant, act, "admin", {})).is_success:
            assert time.monotonic() < end, (self.seed, act, answer.text)
            await asyncio.sleep(0.1)
        return answer

    async def _judge_count(self, tenant: Tenant, path: str) -> None:
        listed = len(await self._list(tenant, path))
        counted = data_of(await self._insist(tenant, Act(f"GET /counts{path}", f"/counts{path}")))
        is_whole = not counted["total"]["isCapped"]
        found = sum(counted["byState"].values())
        assert found == listed if is_whole else found < listed, (
            self.seed,
            tenant.name,
            path,
            counted,
            listed,
        )

    async def _judge_figures(self, tenant: Tenant) -> None:
        """Statistics are of what it has, and so are those of queues."""
        stats, executions, counted = [
            data_of(await self._insist(tenant, Act(f"GET {path}", path)))
            for path in ("/stats", "/counts/executions", "/counts/queues")
        ]
        shown, known = (_some(one["byState"]) for one in (stats, executions))
        assert shown == known or executions["total"]["isCapped"], (self.seed, tenant.name)
        queues = await self._list(tenant, "/queues")
        listed = {"waiting": sum(one["depth"] for one in queues), "held": sum(one["held"] for one in queues)}
        assert listed == {name: counted[name] for name in listed}, (self.seed, tenant.name)

    async def _list(self, tenant: Tenant, path: str) -> list[Any]:
        items: list[Any] = []
        cursor = ""
        while True:
            act = Act(f"GET {path}", f"{path}?limit=500{cursor}")
            page = data_of(await self._insist(tenant, act))
            items += page["items"]
            if page["nextCursor"] is None:
                return items
            cursor = f"&cursor={page['nextCursor']}"

    @contextlib.asynccontextmanager
    async def _following(self) -> AsyncIterator[None]:
        """Every tenant follows the events with an admin's key and with both for a part."""
        tasks = [
            asyncio.ensure_future(self._follow(tenant, role))
            for tenant in self.tenants
            for role in ("admin", "shop", "ops")
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [one for one in ended if isinstance(one, Exception)] == []

    async def _follow(self, tenant: Tenant, role: str) -> None:
        headers = {"Authorization": f"Bearer {tenant.keys[role]}"}
        client = self._clients[-1]
        async with client.stream("GET", "/events", headers=headers, timeout=None) as answer:
            assert answer.status_code == 200, await answer.aread()
            async for line in answer.aiter_lines():
                self.streams[tenant.name].append(Shown(role, line))

    def _judge_stream(self, tenant: Tenant) -> None:
        shown = self.streams[tenant.name]
        events = [json.loads(line[6:]) for _, line in shown if line.startswith("data: ")]
        assert any(event.get("executionId") for event in events), (self.seed, tenant.name)
        tenant.learn(events)
        for role, line in shown:
            self._judge(tenant, Act("GET /events", "/events"), role, line)
            if role != "admin" and line.startswith("data: "):
                job_id = json.loads(line[6:]).get("jobId", TRIAL)
                assert job_id.startswith(TRIAL) or OWNERS[job_id] == role, (self.seed, role, line)

    def _answer(self, seen: Seen) -> Reply:
        """A target that says back all that it got, and keeps feedback URLs for its tenant."""
        text = seen.body.decode()
        (owner,) = {one.name for one in self.tenants if one.canary in seen.path} or {""}
        tenant = next((one for one in self.tenants if one.name == owner), None)
        if tenant is not None:
            if tenant.foreign.search(f"{seen.path} {seen.headers} {text}"):
                self.leaks.append(seen)
            if seen.path.startswith("/report/"):
                url = json.loads(text)["back"]
                tenant.feedback.append(url[url.index("/jobs/") :])
        said = {"got": text, "headers": seen.headers, "query": seen.query, "message": text}
        return Reply(self._random.choice((200, 200, 500)), said, {"X-Echo": seen.headers.get("x-own", "")})


_SECRETS = ("TOKEN", "STORED", "FURTHER")


def _some(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def secret_forms(names: Iterable[str]) -> set[bytes]:
    """All forms in which the values of these secrets may be found."""
    return {form for tenant in CANARIES for name in names for form in forms_of(secret_of(tenant, name))}


def settings_of(target: str) -> dict[str, str]:
    """Variables of a service that has these tenants: a key, secrets, an environment for each."""
    environ = {
        "PUNCTUAL_SERVER__KEY": ADMIN_KEY,
        "PUNCTUAL_SERVER__DRAIN_SECONDS": "0",
        "PUNCTUAL_SECRETS_KEY": "BwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAhIiMkJSY=",
        "PUNCTUAL_LOG__LEVEL": "debug",
        "PUNCTUAL_LOG__ACCESS": "true",
        "PUNCTUAL_NOTIFICATION__INTERVAL_SECONDS": "0.1",
        "PUNCTUAL_LIMITS__CONNECTIONS": "200",
    }
    for tenant, canary in CANARIES.items():
        environ[f"PUNCTUAL_ENV__{tenant}__PLACE"] = f"{canary}-place"
        environ[f"PUNCTUAL_SECRETS__{tenant}__TOKEN"] = secret_of(tenant, "TOKEN")
    return environ


@contextlib.asynccontextmanager
async def tenants_at(urls: Sequence[str], target: Target, seed: int) -> AsyncIterator[Traffic]:
    """The tenants of a service, each with a key of every role and for each part."""
    admin = {"Authorization": f"Bearer {ADMIN_KEY}"}
    tenants = []
    async with httpx.AsyncClient(base_url=urls[0], headers=admin, timeout=60, trust_env=False) as client:
        for name, canary in CANARIES.items():
            first = data_of(
                await client.post("/keys", json={"name": "first", "role": "admin", "tenant": name}), 201
            )
            keys = {}
            for role, members in ROLES.items():
                posted = {"json": {"name": f"{canary} {role}", **members}}
                posted["headers"] = {"Authorization": f"Bearer {first['key']}"}
                keys[role] = data_of(await client.post("/keys", **posted), 201)["key"]
            tenants.append(Tenant(name, keys, seed=seed, target=target.url))
    traffic = Traffic(urls=urls, target=target, tenants=tenants, seed=seed)
    try:
        await traffic.await_keys()
        yield traffic
    finally:
        await traffic.close()
