"""A table of cases as one test, which names every case that fails.

A case that takes a millisecond costs several as a test of its own: each worker of a run collects it, and
tells of it three times.
"""

import functools
import inspect
import textwrap
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

Judge = Callable[..., Any]
MOST = 60
"""Characters of a case that its name has."""


def each_row(
    names: str | Sequence[str],
    rows: Iterable[Any],
    *,
    ids: Callable[[Any], object] | Iterable[object] | None = None,
) -> Callable[[Judge], Judge]:
    """Judges all rows in one test, as `pytest.mark.parametrize`, whose form it has, does in a test of each.

    All rows are judged; the failure names each that failed, with what was wrong and where. Fixtures are made
    once: what one row leaves in them is there for the next. A table without rows is refused.
    """
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases = [dict(zip(columns, row if len(columns) > 1 else (row,), strict=True)) for row in rows]
    titles = _titles(cases, ids)
    assert cases, "a test of no case can not fail"

    def decorate(judge: Judge) -> Judge:
        def judge_all(**fixtures: Any) -> None:
            failures = Failures()
            for title, case in zip(titles, cases, strict=True):
                with failures.of(title):
                    judge(**fixtures, **case)
            failures.raise_them(len(cases))

        async def await_all(**fixtures: Any) -> None:
            failures = Failures()
            for title, case in zip(titles, cases, strict=True):
                with failures.of(title):
                    await judge(**fixtures, **case)
            failures.raise_them(len(cases))

        wrapper = functools.wraps(judge)(await_all if inspect.iscoroutinefunction(judge) else judge_all)
        signature = inspect.signature(judge)
        fixtures = [one for name, one in signature.parameters.items() if name not in columns]
        wrapper.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return wrapper

    return decorate


class Failures:
    """The failures of several cases."""

    def __init__(self) -> None:
        self._found: list[tuple[str, BaseException]] = []

    @contextmanager
    def of(self, title: str | Callable[[], str]) -> Iterator[None]:
        """Keeps the failure of one case, so that the next one is judged; only then its title is made."""
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - `raise_them` raises it
            self._found.append((title() if callable(title) else title, error))

    def raise_them(self, cases: int) -> None:
        """Fails with all that were kept, if any."""
        if self._found:
            told = [f"{len(self._found)} of {cases} rows failed:"]
            told += [_told(title, error) for title, error in self._found]
            raise AssertionError("\n".join(told)) from self._found[0][1]


def _told(title: str, error: BaseException) -> str:
    """The case, the line of the test that failed, and what was wrong there."""
    places = traceback.extract_tb(error.__traceback__)
    place = next((one for one in reversed(places) if "/tests/" in one.filename), places[-1])
    what = str(error) or type(error).__name__
    return f"* {title}: line {place.lineno}, {place.line}\n{textwrap.indent(what, '    ')}"


def _titles(
    cases: list[dict[str, Any]], ids: Callable[[Any], object] | Iterable[object] | None
) -> list[str | Callable[[], str]]:
    """The name of each case: its id where it has one, else its values, written once it has failed."""
    if ids is not None and not callable(ids):
        return [str(one) for one in ids]
    return [functools.partial(_written, case, ids or repr) for case in cases]


def _written(case: dict[str, Any], shown: Callable[[Any], object]) -> str:
    return ", ".join(str(shown(value))[:MOST] for value in case.values())
