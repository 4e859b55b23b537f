// The calendar of a job: planned and actual firings by day, and one day in full.

import {
  Icon,
  Panel,
  ProblemPanel,
  addDays,
  computed,
  dateOf,
  formatMoment,
  html,
  nameDate,
  now,
  pathOf,
  placeOf,
  pushQuery,
  reloadWith,
  route,
  startOfDate,
  t,
  useResource,
  weekdayOf,
  zoneOf,
} from "../../core.js";
import { DayList } from "./day_list.js";
import { useLedger } from "./ledger.js";
import { KINDS, MonthGrid, kindOf } from "./month.js";

const MOST_PLANNED = 1_000;

/** A month (`?month=2026-11`), and the day that is chosen (`?day=`). */
export const CalendarTab = {
  props: { job: Object, preview: Object, etag: String, onDone: Function },
  setup(props) {
    const zone = computed(() => zoneOf(props.job.definition.timer?.timezone));
    const today = computed(() => dateOf(now.value, zone.value));
    const dates = computed(() => datesOf(monthOf(today.value)));
    const span = () => ({ from: startOfDate(dates.value[0], zone.value), to: startOfDate(addDays(dates.value.at(-1), 1), zone.value) });
    const ledger = useLedger(props.job.jobId, span);
    const planned = useResource(() => plannedOf(props.job, span().to, today.value, dates.value), { keeps: true });
    const moved = () => [props.job.latestExecution, props.job.missedCount, props.job.nextFireTime];
    for (const resource of [ledger, planned]) reloadWith(moved, resource, 3_000);
    const weeks = computed(() => weeksOf({ dates: dates.value, month: monthOf(today.value), today: today.value, zone: zone.value, ledger, planned: planned.data }));
    return () => html`
      <${Panel}>
        ${monthHead(today.value)}
        ${ledger.error !== null && html`<${ProblemPanel} error=${ledger.error}/>`}
        ${props.job.kind === "external" && html`<p class="note">${t("job.onlyPlanned")} <a href=${placeOf(route.path, { tab: "executions" })}>${t("job.allExecutions")}</a></p>`}
        <${MonthGrid} weeks=${weeks.value} label=${monthName(monthOf(today.value))} nameOf=${nameDate} onChoose=${chooseDay}/>
        ${legend(planned.data)}
      <//>
      ${route.query.day && html`<${DayList} key=${`${route.query.day} ${zone.value}`} job=${props.job} date=${route.query.day} zone=${zone.value} planned=${planned.data?.firings ?? []} until=${cutOf(planned.data)}/>`}
    `;
  },
};

function monthHead(today) {
  const month = monthOf(today);
  const go = (step) => () => pushQuery({ month: shiftMonth(month, step), day: null });
  return html`
    <div class="month-head">
      <h2 aria-live="polite">${monthName(month)}</h2>
      <div class="actions">
        <button type="button" class="button bare" aria-label=${t("job.monthBack")} onClick=${go(-1)}>‹</button>
        <button type="button" class="button" onClick=${() => pushQuery({ month: null, day: today })}>${t("job.today")}</button>
        <button type="button" class="button bare" aria-label=${t("job.monthNext")} onClick=${go(1)}>›</button>
      </div>
    </div>
  `;
}

function legend(planned) {
  return html`
    <p class="chart-legend month-legend">
      ${KINDS.map(([name, icon, tone]) => html`<span key=${name} class=${["day-count", tone]}><${Icon} name=${icon} size=${12}/>${t(`job.day.${name}`)}</span>`)}
      ${cutOf(planned) && html`<span>${t("job.plannedUntil", { moment: formatMoment(cutOf(planned)) })}</span>`}
    </p>
  `;
}

function chooseDay(day) {
  pushQuery({ day: day === route.query.day ? null : day });
}

function plannedOf(job, until, today, dates) {
  if (job.nextFireTime === null || dates.at(-1) < today) return null;
  return { path: `${pathOf("jobs", job.jobId)}/next`, query: { count: MOST_PLANNED, until: new Date(until - 1).toISOString() } };
}

/** The moment of the last planned firing that was given, where there are more; else null. */
function cutOf(planned) {
  return planned?.firings.length >= MOST_PLANNED ? planned.firings.at(-1).utc : null;
}

/** The weeks that a month touches, with what is known of each day. */
function weeksOf({ dates, month, today, zone, ledger, planned }) {
  const byDate = new Map();
  const at = (moment) => {
    const date = dateOf(new Date(moment).getTime(), zone);
    if (!byDate.has(date)) byDate.set(date, { ...Object.fromEntries(KINDS.map(([name]) => [name, 0])), note: null });
    return byDate.get(date);
  };
  for (const line of ledger.lines) at(line.plannedAt)[kindOf(line)] += line.count ?? 1;
  for (const firing of planned?.firings ?? []) {
    const day = at(firing.utc);
    day.planned += 1;
    if (firing.note) day.note = firing.note;
  }
  const cut = cutOf(planned);
  const cutDate = cut && dateOf(new Date(cut).getTime(), zone);
  const isPartial = (date) => (!ledger.isBusy && date <= today && startOfDate(date, zone) < ledger.knownFrom) || (cut !== null && date > cutDate);
  const days = dates.map((date) => ({
    date,
    isOutside: !date.startsWith(month),
    isToday: date === today,
    isChosen: date === route.query.day,
    isPartial: isPartial(date),
    isCut: date === cutDate,
    note: byDate.get(date)?.note,
    counts: byDate.get(date) ?? {},
  }));
  return Array.from({ length: days.length / 7 }, (_, week) => days.slice(7 * week, 7 * week + 7));
}

function monthOf(today) {
  return /^\d{4}-(0[1-9]|1[0-2])$/.test(route.query.month ?? "") ? route.query.month : (route.query.day ?? today).slice(0, 7);
}

function datesOf(month) {
  const first = `${month}-01`;
  const start = addDays(first, -weekdayOf(first));
  const last = addDays(`${shiftMonth(month, 1)}-01`, -1);
  const end = addDays(last, 6 - weekdayOf(last));
  return Array.from({ length: (Date.parse(end) - Date.parse(start)) / 86_400_000 + 1 }, (_, index) => addDays(start, index));
}

function shiftMonth(month, step) {
  const [year, number] = month.split("-").map(Number);
  return new Date(Date.UTC(year, number - 1 + step, 1)).toISOString().slice(0, 7);
}

function monthName(month) {
  return nameDate(`${month}-01`, { month: "long", year: "numeric" });
}
