"""How the peers on threads or greenlets post: one urllib3 pool with connections that stay open."""

import json

import urllib3

from tests.bench.peers.task import Task, body, headers

CONNECTIONS = 100


class Caller:
    """Posts the steps of a job, one after the other, and waits for each."""

    def __init__(self, task: Task) -> None:
        self._pool = urllib3.connection_from_url(task.target, maxsize=CONNECTIONS, block=True, retries=False)
        self._steps = task.steps

    def run(self, n: int) -> None:
        """Job n: as many posts as it has steps; an answer's number goes into the next one."""
        number = 1
        for step in range(self._steps):
            answer = self._pool.request("POST", "/run", body=body(number), headers=headers(n))
            if answer.status != 200:
                raise RuntimeError(f"the target answered {answer.status}")
            if step + 1 < self._steps:
                number = json.loads(answer.data)["n"]
