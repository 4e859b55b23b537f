"""Progress as a fraction (SPEC section 5)."""

from scheduler_service.domain.progress import progress_fraction
from tests.rows import each_row


@each_row(
    ("progress", "fraction"),
    [
        ("20/60", 0.3333),
        ("40/60", 0.6667),
        ("30%", 0.3),
        ("0%", 0.0),
        ("0/5", 0.0),
        ("12.5%", 0.125),
        ("1.5/3", 0.5),
        ("60/60", 1.0),
        ("100%", 1.0),
        ("70/60", 1.0),
        ("250%", 1.0),
    ],
)
def test_progress_is_a_fraction(progress: str, fraction: float) -> None:
    """`20/60` and `30%`, to four places; more than all is all."""
    assert progress_fraction(progress) == fraction


@each_row(
    "progress",
    [
        None, "", "half", "5/0", "0/0", "30", "30 %", "-1/3", "1/-3", "1/2/3", "%", "/", "1/", "/2", "30%\n",
        "1e3%", "nan%", "٣/٤", "9" * 400 + "/1", "0." + "0" * 400 + "1/2",
    ],
)  # fmt: skip
def test_another_progress_is_no_fraction(progress: str | None) -> None:
    """It is kept raw and not interpreted."""
    assert progress_fraction(progress) is None
