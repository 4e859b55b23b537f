"""The comparison's tables."""

from tests.bench.compare.results import Summary
from tests.bench.compare.table import Contestant, number, render
from tests.bench.compare.work import HERD, STEADY, works
from tests.rows import each_row

OURS = Contestant("punctual-0", "Punctual, qos 0", None)
PEER = Contestant("peer", "Peer", None)


def summary(rate: float, *, cpu_us: float = 100, lost: int = 0) -> Summary:
    """One of three runs."""
    return Summary(
        runs=3, created=5_000, rate=rate, slowest=rate - 1, fastest=rate + 1, p50=0.5, p99=12.34, worst=123.4,
        cpu_us=cpu_us, lost=lost, doubled=0, early=0,
    )  # fmt: skip


def cells(text: str, title: str) -> list[str]:
    """Those of the row of one scheduler."""
    row = next(line for line in text.splitlines() if line.startswith(f"| {title} |"))
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_a_peer_is_told_with_absolute_figures_and_ratios() -> None:
    """Faster is more than one, needing less is less than one; ours has no ratio to itself."""
    found = {HERD: {"punctual-0": summary(9_000, cpu_us=110), "peer": summary(3_000, cpu_us=220)}}
    text = render(found, works(10_000, 1_000, 20)[:1], [OURS, PEER])
    assert "### 10,000 one-step jobs due at one moment" in text
    told = cells(text, "Peer")
    assert told[1:6] == ["3,000", "2,999 to 3,001", "3.00 ×", "220", "0.50 ×"]
    assert cells(text, "Punctual, qos 0")[3] == "-"


@each_row(("rate", "lost", "said"), [(980, 0, "yes"), (400, 0, "no: 400/s"), (990, 3, "no: 990/s")])
def test_who_keeps_up_is_said(rate: float, lost: int, said: str) -> None:
    """A queue that grows is no lateness to compare."""
    text = render({STEADY: {"peer": summary(rate, lost=lost)}}, works(10, 1_000, 20)[1:2], [PEER])
    assert "### 1,000 one-step jobs a second for 20 s" in text
    assert cells(text, "Peer")[-1] == said


def test_who_fails_or_is_left_out_is_said() -> None:
    """In a row and in a line of its own."""
    absent = Contestant("absent", "Absent", "redis-server is not installed")
    text = render({HERD: {"peer": None}}, works(10, 10, 1)[:1], [PEER, absent])
    assert cells(text, "Peer")[1] == "failed"
    assert "* Absent is left out: redis-server is not installed" in text


def test_every_row_is_as_wide_as_its_head() -> None:
    """So that it stays a table."""
    kinds = works(10_000, 1_000, 20)
    found = {work.kind: {"punctual-0": summary(9_000), "peer": None} for work in kinds}
    lines = [line for line in render(found, kinds, [OURS, PEER]).splitlines() if line.startswith("|")]
    widths = [line.count("|") for line in lines]
    assert len(lines) == 4 * len(kinds)
    assert all(len(set(widths[n : n + 4])) == 1 for n in range(0, len(widths), 4))


@each_row(("value", "text"), [(None, "-"), (0, "0"), (12_345.6, "12,346"), (45.67, "45.7"), (1.234, "1.23")])
def test_a_number_has_the_digits_that_matter(value: float | None, text: str) -> None:
    """Three of them; counts are whole."""
    assert number(value) == text
