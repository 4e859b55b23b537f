"""Feedback of the parts of a step: each part reports for itself (SPEC section 13)."""

from scheduler_service.domain.document import Open, PartsAwaited, PartsOpen, PartsQueued, Report, Resolving
from scheduler_service.domain.replies import Refusal, RefusalCode
from scheduler_service.engine.parts.join import Verdicts, settle_reports
from scheduler_service.engine.turn_state import TurnState, replace


def find_verdict(verdicts: Verdicts, shard: int | None) -> Report | Refusal | None:
    """What part `shard` has reported as its end, None: nothing yet. A Refusal where there is no such part."""
    if shard is not None and 0 <= shard < len(verdicts):
        return verdicts[shard]
    named = "names none" if shard is None else f"names {shard}"
    return Refusal(
        RefusalCode.INVALID,
        f"each of the {len(verdicts)} parts of this step reports for itself, and this report {named}; "
        "use the feedback URL as it was given, with its shard",
        "/shard",
    )


def handle_part_report(
    turn: TurnState,
    run: Open,
    phase: Resolving | PartsOpen | PartsQueued | PartsAwaited,
    report: Report,
    shard: int | None,
) -> None:
    """A verdict while the parts are under way, or when all that is missing are reports."""
    if isinstance(phase, Resolving) or not phase.verdicts:
        # Parts of an earlier step share the URL; what one of them says is not the whole step's verdict.
        if shard is None and turn.program_of(run).asynchronous:
            turn.change_context(run, verdict=report)
        return
    verdicts = tuple(report if place == shard else said for place, said in enumerate(phase.verdicts))
    turn.change_context(run, phase=replace(phase, verdicts=verdicts))
    if isinstance(phase, PartsAwaited) and all(said is not None for said in verdicts):
        settle_reports(turn, run, verdicts)
