"""What a connection holds of requests that are not answered."""

from scheduler_service.app.held_input import HeldInput


def test_an_answer_frees_its_own_request() -> None:
    """Not the pipelined ones behind it."""
    held = HeldInput()
    held.take(100)
    held.end(is_answered=False)
    held.take(60_000)
    held.end(is_answered=False)
    held.take(7)
    held.answer()
    assert held.held == 60_007
    held.answer()
    assert held.held == 7


def test_what_comes_after_its_answer_is_free_with_its_end() -> None:
    """Of a body that was refused by its size."""
    held = HeldInput()
    held.take(100)
    held.answer()
    held.take(900)
    assert held.held == 1_000
    held.end(is_answered=True)
    assert held.held == 0


def test_what_is_left_out_is_not_counted() -> None:
    """The rest of a large body."""
    held = HeldInput()
    held.take(8_192)
    held.leave_out(8_000)
    assert held.held == 192
