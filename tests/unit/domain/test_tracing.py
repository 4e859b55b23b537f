"""Ids of traces and spans, the context of a caller, and samplers."""

from itertools import product

from scheduler_service.domain.tracing import (
    ATTEMPT,
    CHECK,
    DELIVERY,
    STEP,
    SpanPlace,
    execution_span,
    read_traceparent,
    sampling_of,
    span_of,
    trace_of,
)
from tests.rows import each_row

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
OWN = trace_of("uid", 7)


def test_every_span_of_an_execution_has_an_id_of_its_own() -> None:
    """16 hex digits each, the same whenever they are made."""
    places: list[SpanPlace] = [(ATTEMPT,)]
    places += [
        (kind, place, part) for kind, place, part in product((STEP, CHECK, DELIVERY), range(20), range(5))
    ]
    ids = [span_of(OWN, counts, place) for counts in range(1, 6) for place in places]
    ids.append(execution_span(OWN))
    assert len(set(ids)) == len(ids)
    assert {len(one) for one in ids} == {16}
    assert span_of(OWN, 3, (STEP, 2)) == span_of(OWN, 3, (STEP, 2, 0))
    assert execution_span(OWN) != execution_span(trace_of("uid", 8))


@each_row(
    ("header", "expected"),
    [
        (f"00-{TRACE}-{SPAN}-01", f"{TRACE}-{SPAN}-01"),
        (f"00-{TRACE}-{SPAN}-00", f"{TRACE}-{SPAN}-00"),
        (f"00-{TRACE}-{SPAN}-03", f"{TRACE}-{SPAN}-01"),
        (f"cc-{TRACE}-{SPAN}-01-what-a-later-version-adds", f"{TRACE}-{SPAN}-01"),
        (f"00-{TRACE}-{SPAN}-01-more", ""),
        (f"ff-{TRACE}-{SPAN}-01", ""),
        (f"00-{'0' * 32}-{SPAN}-01", ""),
        (f"00-{TRACE}-{'0' * 16}-01", ""),
        (f"00-{TRACE.upper()}-{SPAN}-01", ""),
        (f"00-{TRACE}-{SPAN}-01, 00-{TRACE}-{SPAN}-01", ""),
        (f"00-{TRACE}-{SPAN}-1", ""),
        ("", ""),
    ],
)
def test_a_callers_context(header: str, expected: str) -> None:
    """What W3C Trace Context allows; everything else is no context."""
    assert read_traceparent(header) == expected


@each_row(
    ("sampler", "own", "of_sampled", "of_unsampled"),
    [
        ("always_on", True, True, True),
        ("always_off", False, False, False),
        ("parentbased_always_on", True, True, False),
        ("parentbased_always_off", False, True, False),
        ("parentbased_traceidratio", False, True, False),
        ("traceidratio", False, False, False),
    ],
)
def test_samplers(sampler: str, own: bool, of_sampled: bool, of_unsampled: bool) -> None:
    """Those that are based on the parent do as the caller did."""
    sampling, trace = sampling_of(sampler, 0.25), "f" * 32
    assert sampling.keeps(trace) is own
    assert sampling.keeps(trace, f"{trace}-{SPAN}-01") is of_sampled
    assert sampling.keeps(trace, f"{trace}-{SPAN}-00") is of_unsampled
