"""What waiting costs: `python -m tests.bench.idle [jobs] [seconds]`. Cron jobs that fire once a year."""

import sys
import time

from tests.bench.creation import waiting_job
from tests.bench.stage import show, stage


def main(count: int = 10_000, seconds: int = 30) -> None:
    """Prints the share of one core that the service takes while nothing is due, and its memory."""
    with stage() as on:
        on.settle()
        on.create([waiting_job(f"cron-{n}", on.target, cron=True) for n in range(count)])
        time.sleep(2)
        before = on.cpu()
        time.sleep(seconds)
        share = (on.cpu() - before) / seconds
        show(
            f"{count} cron jobs that wait",
            {"seconds": seconds, "core_percent": round(share * 100, 2), "memory_mib": round(on.memory())},
        )


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
