"""The states of an execution and their transitions, in one table (SPEC section 10)."""

from scheduler_service.domain.execution import ExecutionState as State

TRANSITIONS: dict[State, frozenset[State]] = {
    State.SCHEDULED: frozenset({State.ENQUEUED, State.SKIPPED, State.CANCELLED}),
    State.ENQUEUED: frozenset({State.PROCESSING, State.SKIPPED, State.CANCELLED}),
    State.PROCESSING: frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED}),
    State.FAILED: frozenset({State.PROCESSING, State.TERMINATED, State.CANCELLED}),
    State.SUCCEEDED: frozenset(),
    State.TERMINATED: frozenset(),
    State.CANCELLED: frozenset(),
    State.SKIPPED: frozenset(),
}

LIVE = frozenset({State.PROCESSING, State.FAILED})
WAITING = frozenset({State.SCHEDULED, State.ENQUEUED})
TERMINAL = frozenset(state for state, following in TRANSITIONS.items() if not following)


def follow(before: State, after: State) -> State:
    """`after`. Raises AssertionError if it may not follow `before`, a mistake in the engine."""
    if after not in TRANSITIONS[before]:
        raise AssertionError(f"no execution goes from {before} to {after}")
    return after
