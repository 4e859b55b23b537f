"""The sidecar of a node: daprd, what it sees of placement and scheduler service, and its actor store."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import httpx

from scheduler_service import how_to_install
from scheduler_service.app.doctor.finding import DoctorFinding, ExaminedPart, ExaminedService, ask
from scheduler_service.transport.sidecar_exchanges import REFUSED_REMEDY, show_token

DAPRD = ExaminedPart("daprd")
SECONDS = 5.0
REMEDIES = {
    "placement": "start placement, and name it to daprd with --placement-host-address",
    "actors": "start the node: daprd asks it for its actors at dapr.app_port",
    "scheduler service": "start the scheduler service, and name it to daprd with --scheduler-host-address",
}


async def examine_daprd(subject: ExaminedService) -> list[DoctorFinding]:
    """Nothing where the settings are not those of a node. Raises nothing."""
    if not subject.is_node:
        return []
    dapr = subject.loaded.settings.dapr
    base = f"http://127.0.0.1:{dapr.http_port}"
    try:
        async with httpx.AsyncClient(
            base_url=base, timeout=SECONDS, trust_env=False, headers=show_token(dapr.api_token)
        ) as client:
            health = await ask(client, "/v1.0/healthz/outbound")
            answer = await ask(client, "/v1.0/metadata")
            if answer.status_code == HTTPStatus.UNAUTHORIZED:
                return [DAPRD.fail("token", f"daprd at {base} refuses this node (401)", REFUSED_REMEDY)]
            metadata = answer.json() if answer.status_code == HTTPStatus.OK else {}
    except (httpx.HTTPError, ValueError, RecursionError) as error:
        remedy = (
            "start daprd with --app-id, --app-port, --dapr-http-port and --dapr-grpc-port as settings say"
        )
        said = str(error) or type(error).__name__
        return [DAPRD.fail("answer", f"nothing answers as daprd at {base} ({said})", remedy)]
    return list(judge(base, health.status_code, metadata if isinstance(metadata, dict) else {}))


def judge(base: str, health: int, metadata: dict[str, Any]) -> Iterator[DoctorFinding]:
    """What daprd's own metadata say; `health` is the status of its answer to the question for it."""
    try:
        from scheduler_service.hosts.dapr.sidecar_watch import (
            OLDEST_VERSION,
            find_missing,
            has_actor_store,
            is_too_old,
        )
    except ModuleNotFoundError as error:
        remedy = how_to_install("service", "dapr", "postgres")
        yield DAPRD.fail("package", f"the package {error.name} is missing", remedy)
        return
    if not metadata:
        yield DAPRD.fail("answer", f"what answers at {base} is not daprd", "see dapr.http_port")
        return
    version, oldest = str(metadata.get("runtimeVersion", "?")), ".".join(map(str, OLDEST_VERSION))
    if is_too_old(version):
        yield DAPRD.fail("version", f"{version}; {oldest} is the oldest that works", "install a newer Dapr")
    else:
        yield DAPRD.well("version", f"daprd {version} at {base}, app id {metadata.get('id', '?')!r}")
    if health < HTTPStatus.BAD_REQUEST:
        yield DAPRD.well("health", "its components are there")
    else:
        yield DAPRD.fail("health", f"it answers {health} for its components", "its log names the component")
    missing = find_missing(metadata)
    for name, remedy in REMEDIES.items():
        if name in missing:
            yield DAPRD.fail(name, "not there", remedy)
        else:
            yield DAPRD.well(name, "there")
    if has_actor_store(metadata):
        yield DAPRD.well("actor store", "there")
    else:
        remedy = 'a state component with actorStateStore "true", as components/statestore.yaml'
        yield DAPRD.fail("actor store", "no state store for actors", remedy)
