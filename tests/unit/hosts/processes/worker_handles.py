"""The service's handle of a worker process that a test plays."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scheduler_service.hosts.processes.remote_shard import WorkerHandle
from scheduler_service.hosts.processes.rpc_methods import RpcConnection, Serve


@asynccontextmanager
async def connected(serve: Serve, *, patience: float) -> AsyncIterator[WorkerHandle]:
    """The handle of a process that answers with `serve`."""
    worker = WorkerHandle(shard=1, patience=patience)
    connections = []
    for end in socket.socketpair():
        end.setblocking(False)
        connections.append(
            await RpcConnection.open(
                end,
                serve=serve,
                on_notice=lambda method, argument: None,
                on_lost=lambda: None,
                log=lambda event, /, **keys: None,
            )
        )
    worker.connect(connections[0])
    try:
        yield worker
    finally:
        for connection in connections:
            connection.close()
        await asyncio.sleep(0)
