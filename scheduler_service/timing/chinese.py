"""A timer in Chinese, for previews (SPEC section 3)."""

from scheduler_service.domain.moments import SECOND
from scheduler_service.timing import cron_chinese
from scheduler_service.timing.calendar_days import SKIP, WORK
from scheduler_service.timing.durations import Duration, amounts
from scheduler_service.timing.timer import Timer, TimerKind
from scheduler_service.timing.times import local_text
from scheduler_service.timing.zones import Zone, step_of_day

_UNITS = {
    "year": "年", "month": "个月", "week": "周", "day": "天",
    "hour": "小时", "minute": "分钟", "second": "秒", "millisecond": "毫秒",
}  # fmt: skip


_OTHERWISE = {"next": "顺延到下一个此类日", "previous": "提前到上一个此类日"}


def describe(timer: Timer) -> str:
    """The timer as one Chinese sentence, without a full stop."""
    parts = [_on_days(timer, _describe_kind(timer))]
    if timer.kind is TimerKind.EXTERNAL:
        return parts[0]
    if timer.start_at is not None and timer.kind is not TimerKind.ONE_TIME:
        parts.append(f"不早于 {_moment(timer, timer.start_at)}")
    if timer.end_at is not None:
        parts.append(f"不晚于 {_moment(timer, timer.end_at)}")
    if isinstance(timer.ttl, int):
        parts.append(f"不晚于 {_moment(timer, timer.ttl)}")
    elif timer.ttl is not None:
        parts.append(f"自创建起 {length(timer.ttl)} 内")
    if timer.jitter:
        parts.append(f"每次最多推迟 {length(Duration(ms=timer.jitter))}")
    return "，".join(parts)


def note(zone: Zone, moment: int) -> str | None:
    """A note if clocks change on the local day of `moment`, else None."""
    step = step_of_day(zone, moment)
    if step is None:
        return None
    return f"当天时钟{'拨快' if step > 0 else '拨慢'} {length(Duration(ms=abs(step) // SECOND * SECOND))}"


def length(duration: Duration) -> str:
    """The duration in Chinese, as in `2 小时 30 分钟`."""
    return " ".join(f"{count} {_UNITS[name]}" for count, name in amounts(duration)) or "0 秒"


def _describe_kind(timer: Timer) -> str:
    match timer.kind:
        case TimerKind.EXTERNAL:
            return "仅在被触发时执行"
        case TimerKind.ONE_TIME:
            start = timer.start_at
            return "一次，立即" if start is None else f"一次，{_moment(timer, start)}"
        case TimerKind.CRON:
            assert timer.cron is not None
            return f"{cron_chinese.describe(timer.cron)}（{timer.zone.name} 时间）"
        case _:
            return _describe_timing(timer)


def _on_days(timer: Timer, words: str) -> str:
    rule = timer.rule
    if rule is None:
        return words
    days = f"{rule.name} 的{'工作日' if rule.days == WORK else '休息日'}"
    words = f"{days}{words.removeprefix('每天')}" if words.startswith("每天") else f"{words}，仅在 {days}"
    return words if rule.otherwise == SKIP else f"{words}，否则{_OTHERWISE[rule.otherwise]}"


def _describe_timing(timer: Timer) -> str:
    assert timer.period is not None
    assert timer.due is not None
    first = _describe_due(timer, timer.due)
    if timer.repeats == 1:
        return f"一次，{first}"
    times = "" if timer.repeats is None else f"，共 {timer.repeats} 次"
    if timer.from_end:
        return f"每次结束后 {length(timer.period)}，首次{first}{times}"
    found = amounts(timer.period)
    is_one = len(found) == 1 and found[0][0] == 1
    every = _UNITS[found[0][1]] if is_one else f" {length(timer.period)}"
    return f"每{every}，首次{first}{times}"


def _describe_due(timer: Timer, due: int | Duration) -> str:
    if isinstance(due, int):
        return f"在 {_moment(timer, due)}"
    return "立即" if due.is_zero else f"在创建后 {length(due)}"


def _moment(timer: Timer, moment: int) -> str:
    return f"{local_text(moment, timer.zone)[:19].replace('T', ' ')}（{timer.zone.name} 时间）"
