"""What an execution was answered last, and how it is waited for (SPEC section 10, results)."""

import time
from typing import Any, Self

from pydantic import PrivateAttr

from client_sdk.client.connection import FIRST_POLL_SECONDS, Connection, parse
from client_sdk.errors import Absent, Conflict, ExecutionFailed, WaitTimedOut
from client_sdk.id_patterns import quote_name
from client_sdk.models import answers

TERMINAL = frozenset({"succeeded", "terminated", "cancelled", "skipped"})
LONGEST_WAIT_SECONDS = 30.0
"""So long one call waits for the end of an execution."""
RECORDED_SECONDS = 2.0
"""How long after its trigger an execution may be missing in the history (SPEC section 10: a second)."""

SomeExecution = str | answers.Triggered | answers.Execution


class Started(answers.Triggered):
    """The execution that a call started, and what it will be answered last."""

    _connection: Connection = PrivateAttr()

    def over(self, connection: Connection) -> Self:
        """Itself, asking over this connection."""
        self._connection = connection
        return self

    async def result(self, *, timeout: float | None = None) -> Any:
        """The value of `executions.result`: JSON, a text or bytes. Raises as that."""
        return (await wait_for_result(self._connection, self, timeout)).value


async def wait_for_result(
    connection: Connection, execution: SomeExecution, timeout: float | None
) -> answers.Result:
    """The result once the execution has ended; `timeout` in seconds, None: no limit.

    Raises WaitTimedOut, ExecutionFailed, Absent, and as `Connection.send`.
    """
    if id_of(execution).endswith("#last"):  # while this waits it may be another one
        execution = await _read(connection, execution)
    began = time.monotonic()
    while True:
        waited = time.monotonic() - began
        left = LONGEST_WAIT_SECONDS if timeout is None else max(timeout - waited, 0)
        try:
            return await _ask(connection, execution, min(left, LONGEST_WAIT_SECONDS))
        except Conflict as problem:
            if not left:
                text = f"{id_of(execution)} has no result after {timeout:g} s: {problem.detail}"
                raise WaitTimedOut(text) from problem
        except Absent as problem:
            if problem.codes & TERMINAL:
                raise _explain(await _read(connection, execution)) from problem
            if "absent" not in problem.codes or waited > RECORDED_SECONDS:
                raise
        await connection.pause(FIRST_POLL_SECONDS)


def id_of(execution: SomeExecution) -> str:
    """The executionId."""
    known = answers.Triggered | answers.Execution
    return execution.execution_id if isinstance(execution, known) else execution


def path_of(execution: SomeExecution) -> str:
    """Its path. Raises ValueError where nothing can have that id."""
    return f"/executions/{quote_name('execution', id_of(execution))}"


async def _ask(connection: Connection, execution: SomeExecution, wait: float) -> answers.Result:
    query = {"wait": round(wait, 3) or None}
    envelope = await connection.send("GET", f"{path_of(execution)}/result", query=query, longer=wait)
    return parse(answers.Result, envelope.data)


async def _read(connection: Connection, execution: SomeExecution) -> answers.ExecutionInFull:
    return await connection.read(answers.ExecutionInFull, path_of(execution))


def _explain(found: answers.ExecutionInFull) -> ExecutionFailed:
    said = ", ".join(filter(None, (found.error, found.message)))
    text = f"{found.job_id}#{found.execute_number} ended as {found.state}{said and ': ' + said}"
    return ExecutionFailed(text, error=found.error, execution=found)
