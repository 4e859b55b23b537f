"""Keeps what jobs' functions raise inside of their executions, and describes it."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar
from typing import Any

LONGEST_MESSAGE = 1000
MOST_CAUSES = 3
"""So many errors of a group are named."""
PROCESS_ENDS = (SystemExit, KeyboardInterrupt)
"""What an event loop lets out of itself, and so out of the process."""
NO_PROCESS_END = "a job's function cannot end the process"
OWN_CANCELLATION = "the function was cancelled by itself, or by what it called"
_IS_CONTAINED: ContextVar[bool] = ContextVar("client_sdk_is_contained", default=False)


class ExitContained(Exception):
    """A task that a job's function had started wanted to end the process."""


def contain_exits(loop: asyncio.AbstractEventLoop) -> None:
    """From here on, tasks that this context starts on `loop` raise ExitContained and do not end it."""
    _IS_CONTAINED.set(True)
    before = loop.get_task_factory()
    if not isinstance(before, _TaskFactory):
        loop.set_task_factory(_TaskFactory(before))


def describe_error(error: BaseException) -> str:
    """`ValueError: what it says`, whatever its `str()` does; the causes of a group are named."""
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration | StopAsyncIteration):
        error = error.__cause__  # a coroutine cannot let it out as it is
    text = _text_of(error)
    if isinstance(error, BaseExceptionGroup):
        causes = [describe_error(one) for one in error.exceptions[:MOST_CAUSES]]
        text = f"{text}: {'; '.join(causes)}"
    elif isinstance(error, PROCESS_ENDS):
        text = f"{text} ({NO_PROCESS_END})".strip()
    elif isinstance(error, asyncio.CancelledError):
        text = text or OWN_CANCELLATION
    name = type(error).__name__
    return readable(f"{name}: {text}" if text else name)[:LONGEST_MESSAGE]


def readable(text: str) -> str:
    """The text with half characters escaped: neither JSON nor HTTP can carry them."""
    return text.encode("utf-8", "backslashreplace").decode()


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as further:  # noqa: BLE001 - whatever it is, it is only a text
        return f"(its text cannot be had: {type(further).__name__})"


class _TaskFactory:
    """Makes tasks as the factory `before` it does, those of contained contexts without an exit."""

    def __init__(self, before: Callable[..., Any] | None) -> None:
        self._before = before

    def __call__(self, loop: asyncio.AbstractEventLoop, work: Any, **further: Any) -> Any:
        if _IS_CONTAINED.get() and asyncio.iscoroutine(work):
            work = _Contained(work)
        if self._before is None:
            return asyncio.Task(work, loop=loop, **further)
        return self._before(loop, work, **further)


class _Contained(Coroutine[Any, Any, Any]):
    """A coroutine that raises ExitContained where the one that it stands for raises an end of the process."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work

    def send(self, value: Any) -> Any:
        return self._step(self._work.send, value)

    def throw(self, *error: Any) -> Any:
        return self._step(self._work.throw, *error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._work.__await__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)

    def _step(self, step: Callable[..., Any], *given: Any) -> Any:
        try:
            return step(*given)
        except PROCESS_ENDS as error:
            raise ExitContained(describe_error(error)) from error
