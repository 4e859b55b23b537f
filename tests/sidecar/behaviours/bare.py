"""A bare actor application and its real sidecar: what daprd sends is noted, a test says what it gets."""

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from email.message import Message
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

from scheduler_service.demo.child_programs import free_ports
from scheduler_service.hosts.dapr.sidecar_client import SidecarClient
from scripts.local_cluster import LocalCluster, NodePorts
from scripts.local_programs import DemoProgram
from tests.http_program import HttpProgram, Said

T = TypeVar("T")
PATIENCE = 30.0


class Call:
    """One request of daprd; `ended` is 0 until it was answered. Moments are monotonic seconds."""

    def __init__(self, verb: str, path: str, headers: Mapping[str, str], body: bytes) -> None:
        self.began = time.monotonic()
        self.ended = 0.0
        self.verb = verb
        self.path = path
        self.headers = headers
        self.body = body

    @property
    def actor(self) -> str:
        """Type and id, `Plain/one`; empty where no actor is meant."""
        parts = self.path.split("/")
        return f"{parts[2]}/{unquote(parts[3])}" if parts[1] == "actors" else ""

    @property
    def what(self) -> str:
        """What follows the id: `method/foo`, `method/remind/n`; empty for a deactivation."""
        return unquote("/".join(self.path.split("/")[4:]))

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


Work = Callable[[Call], Said]


class BareApp(HttpProgram):
    """Hosts what its configuration names; answers 200 unless a test gave the actor something to do.

    Healthy while it `is_well`; a deactivation `lingers` so many seconds.
    """

    is_well = True
    lingers = 0.0

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config
        self.calls: list[Call] = []
        self.works: dict[str, Work] = {}
        super().__init__(lambda asked: self.hear(asked.method, asked.path, lower(asked.headers), asked.body))

    def hear(self, verb: str, path: str, headers: Mapping[str, str], body: bytes) -> Said:
        """Writes a request down and answers it."""
        if path == "/healthz":
            return Said(200 if self.is_well else 503)
        call = Call(verb, path, headers, body)
        self.calls.append(call)
        if path == "/dapr/config":
            return Said(body=json.dumps(self.config).encode())
        if verb == "DELETE":
            time.sleep(self.lingers)
        answer = self.works.get(call.actor, _do_nothing)(call) if call.what else Said()
        call.ended = time.monotonic()
        return answer

    def heard(self, actor: str, what: str | None = None) -> list[Call]:
        """The calls of one actor, in order; `what` chooses among them."""
        return [one for one in list(self.calls) if one.actor == actor and what in (None, one.what)]


class Reply(NamedTuple):
    """What daprd answered."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


class Node:
    """A bare application with its sidecar."""

    def __init__(self, app: BareApp, sidecar: DemoProgram, ports: NodePorts) -> None:
        self.app = app
        self.sidecar = sidecar
        self.ports = ports

    def ask(self, verb: str, path: str, body: Any = None, *, patience: float = PATIENCE) -> Reply:
        """One call of daprd's API below `/v1.0/actors/`; bytes are sent as they are, all else as JSON."""
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.ports.http, timeout=patience)
        try:
            headers = {"content-type": "application/json"}
            connection.request(verb, f"/v1.0/actors/{path}", body=raw, headers=headers)
            answer = connection.getresponse()
            return Reply(answer.status, answer.read(), lower(answer.headers))
        finally:
            connection.close()

    def remind(self, actor: str, name: str, **reminder: Any) -> None:
        """Registers a reminder, which must be taken."""
        reply = self.ask("POST", f"{actor}/reminders/{name}", reminder)
        assert reply.status == 204, reply.body

    def save(self, actor: str, *operations: Mapping[str, Any]) -> Reply:
        """Upserts in one transaction."""
        return self.ask(
            "POST",
            f"{actor}/state",
            [{"operation": "upsert", "request": operation} for operation in operations],
        )

    def over_grpc(self, work: Callable[[SidecarClient], Awaitable[T]]) -> T:
        """Uses the product's own client of the sidecar."""

        async def run() -> T:
            client = SidecarClient(http_port=self.ports.http, grpc_port=self.ports.grpc)
            try:
                return await work(client)
            finally:
                await client.close()

        return asyncio.run(run())

    def stop(self) -> None:
        """Says goodbye: the sidecar first, then its application."""
        self.sidecar.stop()
        self.app.close()


class World:
    """Redis, placement and scheduler service, and the nodes that a test lets join."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self._nodes: list[Node] = []

    def start(self) -> None:
        """Returns when the shared parts take work."""
        for part in self.cluster.shared():
            part.start()
            assert part.wait(), part.last_lines(20)

    def join(self, app_id: str, config: Mapping[str, Any], **options: str) -> Node:
        """A node that hosts what `config` names, ready for calls."""
        node = self.add(app_id, config, **options)
        self.wake(node)
        return node

    def add(self, app_id: str, config: Mapping[str, Any], **options: str) -> Node:
        """A node that is not started yet; `options` replace those of daprd."""
        app = BareApp(config)
        api, _, *rest = free_ports(5)
        ports = NodePorts(api, app.port, *rest)
        sidecar = self.cluster.sidecar(f"{app_id}-{len(self._nodes)}", app_id, ports)
        for name, value in options.items():
            sidecar.command[sidecar.command.index(f"--{name.replace('_', '-')}") + 1] = value
        node = Node(app, sidecar, ports)
        self._nodes.append(node)
        return node

    def wake(self, node: Node) -> None:
        """Starts the sidecar of a node and waits until its actors can be called."""
        node.sidecar.start()
        assert node.sidecar.wait(), node.sidecar.last_lines(20)
        kind = node.app.config["entities"][0]
        end = time.monotonic() + PATIENCE
        while node.ask("PUT", f"{kind}/ready/method/ready").status != 200:
            assert time.monotonic() < end, node.sidecar.last_lines(20)
            time.sleep(0.1)

    def stop(self) -> None:
        """Ends everything."""
        for node in self._nodes:
            node.stop()
        self.cluster.stop()


class Gate:
    """Work that begins and goes on only when it is let: calls wait in it."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self._open = threading.Event()

    def __call__(self, call: Call) -> Said:
        """The work."""
        self.entered.release()
        assert self._open.wait(PATIENCE)
        return Said()

    def await_entry(self) -> None:
        """Returns when a call waits in it."""
        assert self.entered.acquire(timeout=PATIENCE)

    def open(self) -> None:
        """Lets all go on, from now on too."""
        self._open.set()


def lower(headers: Message) -> dict[str, str]:
    """Headers under names in small letters."""
    return {name.lower(): value for name, value in headers.items()}


def _do_nothing(call: Call) -> Said:
    return Said()
