// What a schedule will do, before it does it: a year of days, clock changes, hours of the day, and what else fires then.

import { address, call } from "../core/api.js";
import { formatMomentIn } from "../core/times.js";
import { formatNumber } from "../core/formats.js";
import { html } from "../core/html.js";
import { t } from "../core/language.js";
import { explain } from "../core/notices.js";
import { onUnmounted, shallowReactive, watch } from "../core/vue.js";
import { scaleOfCounts } from "./chart_scale.js";
import { ChartFrame } from "./chart_frame.js";
import { SmallBars } from "./charts.js";
import { dateOf, nameDate } from "./days.js";
import { Waiting } from "./panels.js";
import { YearGrid } from "./year_grid.js";

const PAUSE = 400;
const YEAR = 366;

/**
 * The outlook of `timer` (the member of a definition; null: none), asked of the service again when it changes; `jobId` is left out of "others". A timer
 * that is not valid shows its problem, and the last valid outlook goes.
 */
export const Outlook = {
  props: { timer: Object, jobId: String },
  setup(props) {
    const state = shallowReactive({ data: null, error: null, isBusy: true });
    const asker = askerOf(props, state);
    watch(() => JSON.stringify([props.timer, props.jobId]), asker.askSoon);
    onUnmounted(asker.stop);
    asker.ask();
    return () => {
      if (state.error !== null) return html`<p class="outlook-problem" role="status">${state.error}</p>`;
      if (state.data === null) return state.isBusy ? html`<${Waiting} lines=${5}/>` : null;
      return html`<${OutlookPicture} data=${state.data} class=${{ busy: state.isBusy }}/>`;
    };
  },
};

/** The picture of an answer of POST /timers/outlook: its days and hours are those of the timer's zone, and so are all its moments. */
export function OutlookPicture({ data }) {
  const from = dateOf(Date.now(), data.timezone);
  const days = data.days.map((day) => ({ ...day, text: textOfDay(day, data.timezone) }));
  return html`
    <div class="outlook">
      <p class="outlook-sum"><strong>${formatNumber(data.total)}</strong> ${t("outlook.sum", { until: formatMomentIn(data.until, data.timezone).slice(0, 10), zone: data.timezone })}</p>
      <${YearGrid} from=${from} count=${YEAR} days=${days} label=${t("outlook.year")}/>
      <${ClockChanges} days=${days}/>
      <div class="outlook-hours">
        <section><h3>${t("outlook.byHour", { zone: data.timezone })}</h3>${hoursOf(data.byHour)}</section>
        <section><h3>${t("outlook.nextDay")}</h3>${loadOf(data)}</section>
      </div>
      <${DaysTable} days=${days}/>
    </div>
  `;
}

OutlookPicture.props = ["data"];

/** The days on which clocks change, with the times of day at which it fires then. */
function ClockChanges({ days }) {
  const changes = days.filter((day) => day.note);
  if (changes.length === 0) return html`<p class="dim">${t("outlook.noChanges")}</p>`;
  return html`
    <ul class="clock-changes" aria-label=${t("outlook.changes")}>
      ${changes.map((day) => html`
        <li key=${day.date}><i class="year-sample" aria-hidden="true"></i><strong>${nameDate(day.date)}</strong> ${day.text} <span class="dim">${t("chart.firings", { count: formatNumber(day.count) })}</span></li>
      `)}
    </ul>
  `;
}

ClockChanges.props = ["days"];

function DaysTable({ days }) {
  return html`
    <details class="chart-table">
      <summary>${t("chart.table")}</summary>
      <div class="chart-scroll" tabindex="0" role="region" aria-label=${t("outlook.year")}>
        <table class="table">
          <caption class="unseen">${t("outlook.year")}</caption>
          <thead><tr><th>${t("outlook.day")}</th><th class="right">${t("outlook.firings")}</th><th>${t("outlook.when")}</th></tr></thead>
          <tbody>${days.map((day) => html`<tr key=${day.date}><td>${nameDate(day.date)}</td><td class="right number">${formatNumber(day.count)}</td><td>${day.text}</td></tr>`)}</tbody>
        </table>
      </div>
    </details>
  `;
}

DaysTable.props = ["days"];

function askerOf(props, state) {
  let aborter = null;
  let timer = 0;
  async function ask() {
    aborter?.abort();
    if (!props.timer) return void Object.assign(state, { data: null, error: null, isBusy: false });
    const own = new AbortController();
    aborter = own;
    state.isBusy = true;
    const body = { timer: props.timer, days: YEAR, ...(props.jobId ? { jobId: props.jobId } : {}) };
    try {
      const { data } = await call("POST", address("timers/outlook", { soft: true }), { body, signal: own.signal });
      Object.assign(state, data.problem ? { data: null, error: wordsOfProblem(data.problem) } : { data, error: null });
    } catch (error) {
      if (!own.signal.aborted) state.error = explain(error);
    } finally {
      if (own === aborter) state.isBusy = false;
    }
  }
  const askSoon = () => {
    clearTimeout(timer);
    timer = setTimeout(ask, PAUSE);
  };
  const stop = () => {
    clearTimeout(timer);
    aborter?.abort();
  };
  return { ask, askSoon, stop };
}

function wordsOfProblem(problem) {
  return problem.errors?.map((one) => one.message).join("\n") ?? problem.detail ?? problem.title;
}

function textOfDay(day, timezone) {
  const clock = (at) => formatMomentIn(at, timezone, { withDate: false });
  const times = day.count === 0 || !day.first ? null : day.count === 1 ? clock(day.first) : `${clock(day.first)} – ${clock(day.last)}`;
  return [times, day.note && t(`outlook.${day.note}`)].filter(Boolean).join(" · ");
}

function hoursOf(byHour) {
  const name = (hour) => `${String(hour).padStart(2, "0")}:00`;
  const words = (hour) => `${name(hour)} ${t("chart.firings", { count: formatNumber(byHour[hour]) })}`;
  const marks = Object.fromEntries([0, 6, 12, 18].map((hour) => [hour, name(hour)]));
  return html`<${SmallBars} values=${byHour} words=${words} marks=${marks} label=${t("outlook.hours")} tone="busy"/>`;
}

function loadOf({ nextDay, timezone, othersAreCapped }) {
  const HOUR_LENGTH = 3_600_000;
  const [own, others] = [t("outlook.own"), t("outlook.others")];
  const spans = nextDay.map((hour) => {
    const from = new Date(hour.from).getTime();
    const title = formatMomentIn(from, timezone, { withDate: false }).slice(0, 5);
    return { from, to: from + HOUR_LENGTH, title, lines: [[own, formatNumber(hour.count)], [others, formatNumber(hour.others)]] };
  });
  const amounts = scaleOfCounts(Math.max(...nextDay.map((hour) => hour.count + hour.others)));
  const legend = [{ name: own, tone: "busy", mark: "box" }, { name: `${others}${othersAreCapped ? ` (${t("outlook.capped")})` : ""}`, tone: "quiet", mark: "box" }];
  return html`
    <${ChartFrame} label=${t("outlook.nextDay")} spans=${spans} amounts=${amounts} legend=${legend} fixedZone=${timezone} height=${130}>${{
      default: (scale) => nextDay.map((hour, index) => loadBar(hour, spans[index], scale)),
    }}<//>
  `;
}

function loadBar(hour, span, scale) {
  const box = { x: scale.x(span.from) + 1, width: Math.max(1, scale.x(span.to) - scale.x(span.from) - 2) };
  const [base, middle, top] = [scale.y(0), scale.y(hour.others), scale.y(hour.others + hour.count)];
  return html`
    <g key=${span.from}>
      <rect class="chart-bar quiet load-others" ...${box} y=${middle} height=${base - middle}/>
      <rect class="chart-bar busy" ...${box} y=${top} height=${middle - top}/>
    </g>
  `;
}
