"""The conformance rows on egress targets: what they refuse never gets a connection (SPEC section 9)."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address

import pytest

from scheduler_service.transport.addresses import Address, TargetAddress, read_url
from scheduler_service.transport.egress_guard import EgressPolicy, Guard, Route, Trust
from scheduler_service.transport.errors import TransportError
from scheduler_service.transport.request_bytes import Hop
from scheduler_service.transport.response_parser import ParsedResponse
from scheduler_service.transport.sender import follow
from scheduler_service.transport.service_urls import ServiceUrls
from tests.conformance_data import Row, rows
from tests.rows import Failures
from tests.static_directory import StaticDirectory

_SERVICES = ServiceUrls(
    directory=StaticDirectory(
        addresses={"serviceName": "http://10.0.0.7:8080/base", "main": "http://10.0.0.8"}
    ),
    owner_url="http://127.0.0.1:8000",
    gateway=None,
    trust_of=lambda *_: Trust.OWN,
)


class Answers:
    """A resolver that gives one answer after the other for a name, then the last one again."""

    def __init__(self, row: Row) -> None:
        self._table = {host: [texts] for host, texts in row.get("dns", {}).items()}
        if "dns_answers_in_order" in row:
            self._table[read_url(row["url"]).site.host] = list(row["dns_answers_in_order"])

    async def resolve(self, host: str) -> Sequence[Address]:
        answers = self._table.get(host)
        if not answers:
            raise OSError("Name or service not known")
        texts = answers.pop(0) if len(answers) > 1 else answers[0]
        return [ip_address(text) for text in texts]


def _admit(row: Row, guard: Guard) -> list[Address]:
    """The addresses that a sender would connect to for the row's last hop; raises TransportError."""
    url = row["url"]
    is_service = url[:8].lower() == "service:"
    place = _SERVICES.locate(url).target if is_service else read_url(url)
    hop = Hop("GET", place, (), None, Trust.OWN if is_service else Trust.NONE)
    addresses = asyncio.run(_addresses(guard, hop.target, hop.trust))
    for location in row.get("redirect_chain", [])[1:]:
        following = follow(hop, ParsedResponse(302, (("location", location),), b"", False))
        assert following is not None
        hop = following
        addresses = asyncio.run(_addresses(guard, hop.target, hop.trust))
    return addresses


async def _addresses(guard: Guard, place: TargetAddress, trust: Trust) -> list[Address]:
    return list(await guard.admit(Route(place.site, trust)))


def _guard(row: Row) -> Guard:
    return Guard(policy=EgressPolicy(allow=[], deny=[]), resolver=Answers(row))


def _needs_dns(row: Row) -> bool:
    return "dns" not in row and "dns_answers_in_order" not in row


def test_verdict() -> None:
    """Each row ends as its verdict says; a rebinding name is only ever reached at the address checked."""
    failures = Failures()
    for row in rows("ssrf_targets"):
        with failures.of(row["id"]):
            _judge(row)
    failures.raise_them(len(rows("ssrf_targets")))


def _judge(row: Row) -> None:
    verdict = row["verdict"]
    guard = _guard(row)
    if verdict in ("refuse", "refuse_recommended"):
        if len(row.get("dns_answers_in_order", [])) > 1:
            assert [str(one) for one in _admit(row, guard)] == row["dns_answers_in_order"][0]
        with pytest.raises(TransportError):
            _admit(row, guard)
    elif verdict in ("allow", "resolve"):
        assert _admit(row, guard)
    else:
        with suppress(TransportError):
            assert _admit(row, guard)


def test_refused_before_any_lookup() -> None:
    """A refused spelling is refused by itself: no resolver is asked what it might mean."""

    class Silent:
        async def resolve(self, host: str) -> Sequence[Address]:
            raise AssertionError(f"{host} was looked up")

    guard = Guard(policy=EgressPolicy(allow=[], deny=[]), resolver=Silent())
    refused = [row for row in rows("ssrf_targets") if row["verdict"] == "refuse" and _needs_dns(row)]
    failures = Failures()
    for row in refused:
        with failures.of(row["id"]), pytest.raises(TransportError):
            _admit(row, guard)
    failures.raise_them(len(refused))
