"""What all telemetry adds to an execution: `python -m tests.bench.telemetry [qos] [steps] [rounds] [plain]`.

Two hosts in one process fire in turns, one with everything that a service has in front of its ports, as
`app.telemetry` builds it with metrics on and traces off, one with nothing. Each pair of batches is compared
by itself, so what else the machine does hits both; the order within a pair changes each time. With `plain`
neither has telemetry: what is shown then is the error of the measurement.
"""

import gc
import sys
import time
from collections.abc import Sequence

import uvloop

from scheduler_service.telemetry.decorators import NO_DECORATORS
from tests.bench.telemetry_view import Seen, all_telemetry
from tests.bench.turns import SIZE, Firing

ROUNDS = 60
SHOWN = 400


async def show(qos: int, steps: int) -> None:
    """Prints what is added where nothing else runs: all that telemetry sees of a batch, again and again."""
    seen, with_all = Seen(), all_telemetry()
    firing = Firing(qos=qos, steps=steps, decorators=seen.decorators)
    await firing.prepare(1)
    seen.shown.clear()
    await firing.fire()
    fastest = []
    for decorators in (NO_DECORATORS, with_all):
        taken = []
        for _ in range(SHOWN):
            began = time.thread_time_ns()
            seen.show(decorators, 1)
            taken.append(time.thread_time_ns() - began)
        fastest.append(min(taken) / SIZE / 1_000)
    await firing.stop()
    print(
        f"qos {qos}, {steps} steps: shown alone, {fastest[1] - fastest[0]:.2f} µs an execution, the fastest"
    )


async def main(qos: int, steps: int, rounds: int, *, is_plain: bool) -> None:
    """Prints microseconds of the loop's thread for one execution, without and with."""
    without = Firing(qos=qos, steps=steps, decorators=NO_DECORATORS)
    with_all = Firing(qos=qos, steps=steps, decorators=NO_DECORATORS if is_plain else all_telemetry())
    both = (without, with_all)
    for one in both:
        await one.prepare(rounds)
    gc.collect()
    gc.freeze()
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        for index in (0, 1) if number % 2 else (1, 0):
            taken[index].append(await both[index].fire())
    for one in both:
        await one.stop()
    _show(f"qos {qos}, {steps} steps", *taken)


def _show(name: str, without: Sequence[float], with_all: Sequence[float]) -> None:
    added = _middle([more - less for less, more in zip(without, with_all, strict=True)])
    print(f"{name}: {len(without)} pairs of batches of {SIZE}, µs an execution")
    print(f"  without: fastest {min(without):.1f}, median {_middle(without):.1f}")
    print(f"  with:    fastest {min(with_all):.1f}, median {_middle(with_all):.1f}")
    print(
        f"  added:   fastest {min(with_all) - min(without):+.2f} ({min(with_all) / min(without) - 1:+.1%}), "
        f"median of the pairs {added:+.2f} ({added / _middle(without):+.1%})"
    )


def _middle(figures: Sequence[float]) -> float:
    return sorted(figures)[len(figures) // 2]


if __name__ == "__main__":
    asked = [int(one) for one in sys.argv[1:] if one.isdigit()]
    qos_asked, steps_asked, rounds_asked = (*asked, *(0, 1, ROUNDS)[len(asked) :])
    uvloop.run(show(qos_asked, steps_asked))
    uvloop.run(main(qos_asked, steps_asked, rounds_asked, is_plain="plain" in sys.argv))
