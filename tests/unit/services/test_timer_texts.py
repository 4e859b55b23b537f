"""Declared timers that several answers send are in memory once."""

import asyncio
import gc

import pytest

from scheduler_service.domain.services import Service
from scheduler_service.services.timer_texts import TimerTexts
from tests.unit.services.tables import MemoryTable

pytestmark = pytest.mark.anyio
SERVICE = Service(tenant="default", name="shop", digest=b"1")


class CountingTable(MemoryTable):
    """Counts the reads of timers, each of which is a text of its own."""

    reads = 0

    async def timers(self, tenant: str, name: str) -> bytes:
        self.reads += 1
        await asyncio.sleep(0)
        return b"[%d]" % self.reads


async def test_answers_of_one_declaration_share_its_text() -> None:
    """Whether they ask at one moment or while others are being sent; another declaration is read anew."""
    table = CountingTable()
    texts = TimerTexts(table=table)
    first, second = await asyncio.gather(texts.read(SERVICE), texts.read(SERVICE))
    assert first is second
    assert (await texts.read(SERVICE)).text == b"[1]"
    other = Service(tenant="default", name="shop", digest=b"2")
    assert (await texts.read(other)).text == b"[2]"
    assert table.reads == 2


async def test_a_text_is_dropped_with_its_last_answer() -> None:
    """Nothing is kept for nobody."""
    table = CountingTable()
    texts = TimerTexts(table=table)
    await texts.read(SERVICE)
    gc.collect()
    assert (await texts.read(SERVICE)).text == b"[2]"
