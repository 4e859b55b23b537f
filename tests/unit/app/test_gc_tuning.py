"""What a start has made is not looked at again."""

import gc

from scheduler_service.app.gc_tuning import freeze_memory
from scheduler_service.pacing.collector import FEW


def test_a_start_is_frozen() -> None:
    """Rounds are over what comes after it, and few."""
    thresholds, callbacks = gc.get_threshold(), gc.callbacks[:]
    try:
        freeze_memory()
        assert gc.get_freeze_count() > 1_000
        assert sum(gc.get_count()) < FEW
        assert gc.get_threshold()[0] == FEW
    finally:
        gc.unfreeze()
        gc.callbacks[:] = callbacks
        gc.set_threshold(*thresholds)
