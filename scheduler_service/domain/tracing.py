"""Traces of executions: the ids are derived, so that any process continues a trace and none stores it.

An execution is a trace (W3C Trace Context). The number of a span follows from the trace id that belongs to
the execution alone, and from what the span is; so a request that is sent again names the same span.
"""

import hashlib
import re
from itertools import zip_longest

import msgspec

EXECUTION, ATTEMPT, STEP, CHECK, DELIVERY, FEEDBACK = range(6)
"""What a span is of."""
SpanPlace = tuple[int] | tuple[int, int] | tuple[int, int, int]
"""Where a span stands in its attempt: what it is of, its number among these, and its part.

The number is the index of a step, the number of a check or the ordinal of a delivery. The part is 0 for all
of a step, 1 and more for its parts; of a delivery it is the number of tries before.
"""
_BITS = (3, 24, 16)
_SPREAD = 0x9E3779B97F4A7C15
"""Odd, so that different numbers stay different when they are multiplied by it, modulo 2^64."""
_MASK = (1 << 64) - 1
_TRACEPARENT = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)
_SAMPLED = 1
_PARENT = "parentbased_"


class Sampling(msgspec.Struct, frozen=True):
    """Which traces are recorded: by the trace id alone, so that all processes agree.

    Those below `bound` of 2^64; of a caller's trace, if `follows`, what the caller decided.
    """

    bound: int
    follows: bool

    def keeps(self, trace: str, caller: str = "") -> bool:
        """Whether the spans of a trace are recorded; `caller` is the context from outside, if any."""
        if caller and self.follows:
            return is_sampled(caller)
        return int(trace[16:], 16) < self.bound


def sampling_of(sampler: str, ratio: float) -> Sampling:
    """The sampler of OpenTelemetry of this name (`parentbased_traceidratio`, …)."""
    root = sampler.removeprefix(_PARENT)
    share = {"always_on": 1.0, "always_off": 0.0}.get(root, ratio)
    return Sampling(round(share * (1 << 64)), sampler.startswith(_PARENT))


def trace_of(uid: str, execute_number: int) -> str:
    """The trace id of an execution: 32 hex digits, the same for all its requests."""
    return hashlib.blake2b(f"{uid}:{execute_number}".encode(), digest_size=16).hexdigest()


def span_of(own: str, request_counts: int, span: SpanPlace) -> str:
    """The id of a span: 16 hex digits. `own` is `trace_of` its execution."""
    ordinal = request_counts
    for number, bits in zip_longest(span, _BITS, fillvalue=0):
        ordinal = ordinal << bits | number & (1 << bits) - 1
    return f"{(int(own[16:], 16) + ordinal * _SPREAD) & _MASK or 1:016x}"


def execution_span(own: str) -> str:
    """The id of the root of an execution's trace."""
    return span_of(own, 0, (EXECUTION,))


def feedback_span(own: str, said: bytes) -> str:
    """The id of the span of a feedback: by what it said, and when."""
    return hashlib.blake2b(own.encode() + said, digest_size=8).hexdigest()


def read_traceparent(header: str) -> str:
    """`TRACE-SPAN-FLAGS` of a `traceparent`, of which only the flag `sampled` is kept; else empty.

    What is not valid is ignored, as W3C Trace Context says.
    """
    found = _TRACEPARENT.fullmatch(header)
    if found is None or (found[1] == "00" and found[5]):
        return ""
    return f"{found[2]}-{found[3]}-{int(found[4], 16) & _SAMPLED:02x}"


def trace_in(caller: str) -> str:
    """The trace id of the caller's context (`read_traceparent`); empty: there is none."""
    return caller[:32]


def span_in(caller: str) -> str:
    """The span id of the caller's context; empty: there is none."""
    return caller[33:49]


def is_sampled(caller: str) -> bool:
    """Whether the caller of `read_traceparent` records its trace."""
    return caller.endswith("-01")


def tail_of(span: str, *, sampled: bool) -> str:
    """`SPAN-FLAGS`, with which a `traceparent` ends."""
    return f"{span}-01" if sampled else f"{span}-00"
