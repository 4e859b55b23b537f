"""A cluster on loopback: Redis, PostgreSQL, Dapr's placement and scheduler, sidecars and nodes."""

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import msgspec

from scheduler_service.demo.child_programs import free_ports
from scheduler_service.persistence.sqlite.folder_lock import FolderLock
from scheduler_service.ports.errors import StoreRefused
from scripts.local_programs import (
    MISSING,
    PYTHON,
    STOP_SIGNALS,
    DemoProgram,
    Postgres,
    find_programs,
    is_ready,
    listens,
    name_missing,
)

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "data" / "cluster"
APP_ID = "scheduler"
PORT_STEP = 10
NODE_START_SECONDS = 90.0
DESCRIPTION = "Two nodes on Dapr and all that they need, on loopback, without containers, until Ctrl-C."


class SharedPorts(msgspec.Struct, frozen=True):
    """The ports of the shared programs."""

    redis: int
    placement: int
    placement_health: int
    placement_raft: int
    scheduler: int
    scheduler_health: int
    etcd: int
    etcd_peer: int


class NodePorts(msgspec.Struct, frozen=True):
    """The ports of one node and its sidecar."""

    api: int
    app: int
    http: int
    grpc: int
    internal: int


class LocalCluster:
    """Builds the programs; the caller starts and stops them. `environ` goes to nodes and sidecars."""

    def __init__(
        self, *, folder: Path, programs: Mapping[str, str], environ: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self._programs = programs
        self._environ = dict(environ or {})
        self.ports = SharedPorts(*free_ports(8))
        self.nodes: dict[str, NodePorts] = {}
        self._write_resources()
        self.redis = self._redis()
        self.placement = self._placement()
        self.scheduler = self._scheduler()
        self.postgres: Postgres | None = None
        self.apps: dict[str, DemoProgram] = {}
        self.sidecars: dict[str, DemoProgram] = {}

    def add_database(self) -> Postgres:
        """One database for all nodes added later; without it they share files."""
        (port,) = free_ports(1)
        self.postgres = Postgres(initdb=self._programs["initdb"], folder=self.folder, port=port)
        self._environ["PUNCTUAL_DATABASE__URL"] = self.postgres.url
        return self.postgres

    def add_node(self, name: str, api: int | None = None) -> tuple[DemoProgram, DemoProgram]:
        """A node and its sidecar, not started."""
        free = free_ports(5)
        ports = self.nodes[name] = NodePorts(api or free[0], *free[1:])
        self.apps[name] = self._app(name, ports)
        self.sidecars[name] = self.sidecar(f"daprd-{name}", APP_ID, ports)
        return self.apps[name], self.sidecars[name]

    def sidecar(self, name: str, app_id: str, ports: NodePorts) -> DemoProgram:
        """A daprd for the application on `ports.app`."""
        given = {
            "app-id": app_id,
            "app-port": ports.app,
            "app-protocol": "http",
            "dapr-http-port": ports.http,
            "dapr-grpc-port": ports.grpc,
            "dapr-internal-grpc-port": ports.internal,
            "dapr-listen-addresses": "127.0.0.1",
            "dapr-internal-grpc-listen-address": "127.0.0.1",
            "placement-host-address": f"127.0.0.1:{self.ports.placement}",
            "scheduler-host-address": f"127.0.0.1:{self.ports.scheduler}",
            "resources-path": self.folder / "resources",
            "config": self.folder / "configuration.yaml",
            "app-health-check-path": "/healthz",
            "app-health-probe-interval": 1,
            "app-health-probe-timeout": 500,
            "app-health-threshold": 3,
            "app-max-concurrency": 100,
            "max-body-size": "16Mi",
            "log-level": "warn",
        }
        command = [self._programs["daprd"], "--enable-app-health-check", "--enable-metrics=false"]
        for option, value in given.items():
            command += [f"--{option}", str(value)]
        environ = {"DAPR_HOST_IP": "127.0.0.1", **self._environ}
        return DemoProgram(name, command, folder=self.folder, is_up=listens(ports.http), environ=environ)

    def shared(self) -> list[DemoProgram]:
        """The programs that all nodes share, in the order of their start."""
        database = [] if self.postgres is None else [self.postgres]
        return [self.redis, *database, self.placement, self.scheduler]

    def parts(self) -> list[DemoProgram]:
        """All programs, in the order of their start."""
        pairs = zip(self.apps.values(), self.sidecars.values(), strict=True)
        return [*self.shared(), *(part for pair in pairs for part in pair)]

    def stop(self) -> None:
        """Stops all: nodes first, so that each can drain while its sidecar runs."""
        for part in (*self.apps.values(), *self.sidecars.values(), *reversed(self.shared())):
            part.stop()

    def kill(self) -> None:
        """Kills all without waiting, so that a `stop` in progress soon ends. Durable data are kept."""
        for part in self.parts():
            part.send(signal.SIGKILL)

    def _app(self, name: str, ports: NodePorts) -> DemoProgram:
        command = [PYTHON, "-m", "scheduler_service", "serve", "--runtime", "dapr"]
        command += ["--port", str(ports.api), "--data", str(self.folder / "data")]
        environ = {
            "PUNCTUAL_NODE__ID": name,
            "PUNCTUAL_DAPR__APP_PORT": str(ports.app),
            "PUNCTUAL_DAPR__HTTP_PORT": str(ports.http),
            "PUNCTUAL_DAPR__GRPC_PORT": str(ports.grpc),
            **self._environ,
        }
        return DemoProgram(name, command, folder=self.folder, is_up=is_ready(ports.api), environ=environ)

    def _redis(self) -> DemoProgram:
        data = self.folder / "redis"
        data.mkdir(exist_ok=True)
        command = [self._programs["redis-server"], "--bind", "127.0.0.1", "--port", str(self.ports.redis)]
        command += ["--appendonly", "yes", "--save", "", "--dir", str(data)]
        return DemoProgram("redis", command, folder=self.folder, is_up=listens(self.ports.redis))

    def _placement(self) -> DemoProgram:
        ports = self.ports
        command = [self._programs["placement"], "--listen-address", "127.0.0.1", "--enable-metrics=false"]
        command += ["--port", str(ports.placement), "--healthz-listen-address", "127.0.0.1"]
        command += ["--healthz-port", str(ports.placement_health), "--log-level", "warn"]
        command += ["--initial-cluster", f"dapr-placement-0=127.0.0.1:{ports.placement_raft}"]
        return DemoProgram("placement", command, folder=self.folder, is_up=listens(ports.placement))

    def _scheduler(self) -> DemoProgram:
        ports = self.ports
        command = [self._programs["scheduler"], "--listen-address", "127.0.0.1", "--enable-metrics=false"]
        command += ["--port", str(ports.scheduler), "--healthz-listen-address", "127.0.0.1"]
        command += ["--override-broadcast-host-port", f"127.0.0.1:{ports.scheduler}"]
        command += ["--healthz-port", str(ports.scheduler_health), "--etcd-client-port", str(ports.etcd)]
        command += ["--etcd-data-dir", str(self.folder / "etcd"), "--log-level", "warn"]
        peer = f"dapr-scheduler-server-0=http://127.0.0.1:{ports.etcd_peer}"
        command += ["--etcd-initial-cluster", peer]
        return DemoProgram("scheduler", command, folder=self.folder, is_up=listens(ports.scheduler))

    def _write_resources(self) -> None:
        """Writes the checkout's files with the addresses of this cluster."""
        resources = self.folder / "resources"
        resources.mkdir(parents=True, exist_ok=True)
        store = (ROOT / "components" / "statestore.yaml").read_text(encoding="utf-8")
        address = f"127.0.0.1:{self.ports.redis}"
        store = store.replace("127.0.0.1:6379", address)
        (resources / "statestore.yaml").write_text(store, encoding="utf-8")
        shutil.copy(ROOT / "resiliency.yaml", resources / "resiliency.yaml")
        configuration = (ROOT / "components" / "configuration.yaml").read_text(encoding="utf-8")
        names = quote(str(self.folder / "names.db"))  # daprd reads it as a URI
        (self.folder / "configuration.yaml").write_text(
            configuration.replace("NAMES", names), encoding="utf-8"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """`./scripts/cluster`: two nodes until Ctrl-C; an exit code."""
    asked = _read(arguments)
    if name_missing():
        return MISSING
    try:
        # Held until this process ends: two Redis on the same files would corrupt them.
        FolderLock.claim(asked.data)
    except StoreRefused as refused:
        print(refused)
        return 3
    cluster = LocalCluster(folder=asked.data.absolute(), programs=find_programs(os.environ))
    cluster.add_database()
    for name, port in (("one", asked.port), ("two", asked.port + PORT_STEP)):
        cluster.add_node(name, port)
    for part in cluster.parts():
        part.tie()
    # Not by SIGINT, which is ignored where a script started this in the background.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # not under nohup
        signal.signal(signal.SIGHUP, signal.default_int_handler)
    try:
        return _run(cluster)
    except KeyboardInterrupt:
        return 0
    finally:
        _end(cluster)


def _read(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./scripts/cluster", description=DESCRIPTION)
    parser.add_argument(
        "--port", type=int, default=8000, help=f"of node one (8000); node two: {PORT_STEP} more"
    )
    parser.add_argument(
        "--data", type=Path, default=ROOT / "data" / "cluster", help="folder of data and logs"
    )
    return parser.parse_args(arguments)


def _run(cluster: LocalCluster) -> int:
    """Runs until a program ends by itself."""
    if not _start(cluster):
        return 1
    print(f"Ctrl-C stops all of it; data and logs are in {cluster.folder}", flush=True)
    while all(part.is_running for part in cluster.parts()):
        time.sleep(1)
    print(_describe_ended(cluster))
    return 1


def _end(cluster: LocalCluster) -> None:
    """Stops all in order; a second Ctrl-C or SIGTERM kills them."""
    # No KeyboardInterrupt: one that interrupts a wait of `subprocess` may leave its lock held.
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: cluster.kill())
    print("stopping ... (Ctrl-C once more: at once)", flush=True)
    cluster.stop()


def _start(cluster: LocalCluster) -> bool:
    for part in cluster.shared():
        part.start()
        if not _print_state(part, part.wait()):
            return False
    own = (*cluster.apps.values(), *cluster.sidecars.values())
    for part in own:
        part.start()
    are_up = [_print_state(part, part.wait(NODE_START_SECONDS)) for part in own]
    if not all(are_up):
        return False
    for name, ports in cluster.nodes.items():
        print(f"{name:10} http://127.0.0.1:{ports.api}")
    return True


def _print_state(part: DemoProgram, is_up: bool) -> bool:
    """Prints the state of a program, and the end of its log if it did not start."""
    print(f"{part.name:10} {f'up, process {part.pid}' if is_up else 'did not start:'}", flush=True)
    if not is_up:
        print(part.last_lines())
    return is_up


def _describe_ended(cluster: LocalCluster) -> str:
    ended = [part for part in cluster.parts() if not part.is_running]
    return "\n".join(f"{part.name} has ended:\n{part.last_lines()}" for part in ended)


if __name__ == "__main__":
    sys.exit(main())
