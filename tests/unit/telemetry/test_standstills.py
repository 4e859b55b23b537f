"""For how long a loop was held, and how long that is told (SPEC section 14)."""

from scheduler_service.telemetry.standstills import LATELY, STOOD, Standstills


class Time:
    """A clock in seconds."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_the_longest_hold_of_the_last_minute_is_told() -> None:
    """Shorter and older ones are not."""
    time = Time()
    standstills = Standstills(clock=time)
    assert standstills.longest == 0
    for seconds in (0.2, 3.0, 0.5):
        standstills.note(seconds)
        time.now += 10
    assert standstills.longest == 3
    time.now += LATELY - 15
    assert standstills.longest == 0.5
    time.now += LATELY
    assert standstills.longest == 0


def test_a_standstill_is_told_for_as_long_as_it_was() -> None:
    """A loop that mostly stands is told most of the time; what is shorter than the bound never."""
    time = Time()
    standstills = Standstills(clock=time)
    standstills.note(STOOD - 0.1)
    assert standstills.lasting is None
    standstills.note(STOOD + 2)
    assert standstills.lasting == STOOD + 2
    time.now += STOOD + 1.9
    assert standstills.lasting == STOOD + 2
    time.now += 0.2
    assert standstills.lasting is None


def test_a_machine_that_slept_is_told_of_for_a_minute() -> None:
    """However long it slept."""
    time = Time()
    standstills = Standstills(clock=time)
    standstills.note(86_400)
    time.now += LATELY - 1
    assert standstills.lasting == 86_400
    time.now += 2
    assert standstills.lasting is None
