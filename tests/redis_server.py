"""A Redis of the tests' own, from the machine's packages, on loopback, in a folder of its own."""

import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Self

import pytest
from redis import Redis
from redis.exceptions import RedisError

from scheduler_service.persistence.contexts.redis_address import Address
from tests.ports import free_port

PATIENCE = 20.0
MISSING = "Redis is missing (Debian, Ubuntu: apt-get install redis-server)"


class RedisServer:
    """A server that can be killed, frozen and started again over what it kept."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.port = free_port()
        self.options = options
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address of its first database."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def address(self) -> Address:
        """The same, read."""
        return Address("127.0.0.1", self.port, 0, is_encrypted=False)

    @property
    def client(self) -> Redis:
        """A blocking client, for what a test does behind the store's back."""
        return Redis(port=self.port)

    def start(self, *options: str) -> Self:
        """Starts it, with `options` in place of its own where they are given, and waits until it answers."""
        program = shutil.which("redis-server")
        if program is None:
            pytest.skip(MISSING)
        self.folder.mkdir(parents=True, exist_ok=True)
        own = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", ""]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [program, *own, *(options or self.options)], stdout=log, stderr=log
            )
        try:
            self._wait()
        except BaseException:
            self.kill()
            raise
        return self

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def freeze(self) -> None:
        """It answers nothing, and its connections stay."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        """It goes on with what came meanwhile."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def _wait(self) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                with self.client as client:
                    if not client.info("persistence")["loading"]:
                        return
            except RedisError:
                assert self.process is not None
                assert self.process.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < end, (self.folder / "log").read_text()
            time.sleep(0.02)


APPENDING = ("--appendonly", "yes", "--appendfsync", "everysec")
SYNCING = ("--appendonly", "yes", "--appendfsync", "always")
