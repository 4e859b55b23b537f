"""One tenant's burst beside another's firings: `python -m tests.bench.tenants [burst] [a second] [option …]`.

Both tenants have jobs with one POST to one target. The second one's firings are looked at alone, then around
the moment at which the first one has all of its own. With `--apart` each has a service and a target of its
own: what is late then is what the cores that they share make so.
"""

import contextlib
import sys
import time
from itertools import takewhile

from tests.bench.stage import TENANTS, figures, one_shot, one_shots, show, stage

APART = "--apart"
SECONDS = 8
"""So long the second tenant fires in each part."""


def main(burst: int = 10_000, rate: int = 50, *options: str) -> None:
    """Prints the lateness of the second tenant alone, beside the burst and while that is let go."""
    apart, given = APART in options, [option for option in options if option != APART]
    with contextlib.ExitStack() as stack:
        on = stack.enter_context(stage(*given, *([] if apart else [TENANTS])))
        other = stack.enter_context(stage(*given)) if apart else on
        moment = int(time.time()) + 8 + burst // 600
        count, first = rate * SECONDS, moment - SECONDS // 2 + 0.007  # none together with the burst
        jobs, alone = one_shots("alone", count, rate, first, on.target)
        moment += SECONDS + 4
        more, beside = one_shots("beside", count, rate, first + SECONDS + 4, on.target)
        crowd = {f"crowd-{n}": one_shot(f"crowd-{n}", moment, other.target, 0) for n in range(burst)}
        keys = on.keys
        on.keys = keys[:1] * 2
        on.create([*jobs, *more])
        on.keys = keys[1:] * 2
        other.create(list(crowd.values()))
        own = len(alone) + len(beside)
        arrivals = on.await_arrivals(own if apart else burst + own, moment + 60 - time.time())
        if apart:
            arrivals += other.await_arrivals(burst, moment + 60 - time.time())
        late = [when for job, _, when in arrivals if job in crowd]
        meanwhile = {job: planned for job, planned in beside.items() if min(late) <= planned <= max(late)}
        show("alone", figures(arrivals, alone))
        show("beside", figures(arrivals, beside))
        show("while it is let go", figures(arrivals, meanwhile))
        show(f"burst of {burst}", figures(arrivals, dict.fromkeys(crowd, moment * 1000.0)))


if __name__ == "__main__":
    numbers = [int(argument) for argument in takewhile(str.isdigit, sys.argv[1:])]
    given = [*numbers, *(10_000, 50)[len(numbers) :]]
    main(*given, *sys.argv[1 + len(numbers) :])
