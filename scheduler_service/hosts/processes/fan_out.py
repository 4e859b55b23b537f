"""Calls to several shards at once; a call to one alone makes no task."""

import asyncio
import contextlib
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from scheduler_service.ports.errors import StoreError, StoreUncertain

Answer = TypeVar("Answer")


async def all_of(calls: Sequence[Awaitable[Answer]]) -> list[Answer]:
    """All answers in order. Raises the StoreError of a call after all have ended."""
    return accept(await settle(calls))


async def one_of(calls: Sequence[Awaitable[Answer]]) -> Answer:
    """The first true answer, else a false one. Raises StoreError where none is true and a call failed."""
    if len(calls) == 1:
        return await calls[0]
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        for next_one in asyncio.as_completed(tasks):
            with contextlib.suppress(StoreError):
                if answer := await next_one:
                    return answer
        return accept(await settle(tasks))[0]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def settle(calls: Sequence[Awaitable[Answer]]) -> list[Answer | StoreError]:
    """For each call its answer or its StoreError, in order; any other error is raised."""
    if len(calls) == 1:
        try:
            return [await calls[0]]
        except StoreError as error:
            return [error]
    answers: list[Answer | StoreError] = []
    for answer in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(answer, BaseException) and not isinstance(answer, StoreError):
            raise answer
        answers.append(answer)
    return answers


def accept(answers: Sequence[Answer | StoreError]) -> list[Answer]:
    """The answers, where no shard failed. Raises the least certain of the errors otherwise."""
    errors = [answer for answer in answers if isinstance(answer, StoreError)]
    uncertain = [error for error in errors if isinstance(error, StoreUncertain)]
    for error in uncertain or errors:
        raise error
    return [answer for answer in answers if not isinstance(answer, StoreError)]
