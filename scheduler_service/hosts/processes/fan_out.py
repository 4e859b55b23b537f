"""Several shares asked at once; where only one is asked there is no task."""

import asyncio
import contextlib
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from scheduler_service.ports.errors import StoreError, StoreUncertain

Answer = TypeVar("Answer")


async def all_of(asked: Sequence[Awaitable[Answer]]) -> list[Answer]:
    """The answers of all, in their order. An error of one is the error of all, when all have answered."""
    return accept(await settle(asked))


async def one_of(asked: Sequence[Awaitable[Answer]]) -> Answer:
    """The answer of the first one that has any; where nobody has, an error of one is the error of all."""
    if len(asked) == 1:
        return await asked[0]
    tasks = [asyncio.ensure_future(one) for one in asked]
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


async def settle(asked: Sequence[Awaitable[Answer]]) -> list[Answer | StoreError]:
    """For each its answer or its StoreError, in their order; any other error is raised."""
    if len(asked) == 1:
        try:
            return [await asked[0]]
        except StoreError as error:
            return [error]
    answers: list[Answer | StoreError] = []
    for answer in await asyncio.gather(*asked, return_exceptions=True):
        if isinstance(answer, BaseException) and not isinstance(answer, StoreError):
            raise answer
        answers.append(answer)
    return answers


def accept(answers: Sequence[Answer | StoreError]) -> list[Answer]:
    """The answers, where no share failed. Raises the StoreError that says least of what is written now."""
    errors = [answer for answer in answers if isinstance(answer, StoreError)]
    uncertain = [error for error in errors if isinstance(error, StoreUncertain)]
    for error in uncertain or errors:
        raise error
    return [answer for answer in answers if not isinstance(answer, StoreError)]
