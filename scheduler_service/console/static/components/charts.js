// Charts over time: amounts of states stacked in buckets, and figures as lines.

import { formatDuration, formatNumber } from "../core/formats.js";
import { html } from "../core/html.js";
import { hasText, t } from "../core/language.js";
import { formatDay, formatMoment } from "../core/times.js";
import { ChartFrame } from "./chart_frame.js";
import { scaleOfCounts, scaleOfDurations } from "./chart_scale.js";
import { toneOf } from "./marks.js";

const DAY_LENGTH = 86_400_000;
const MOST_DOTS = 40;
// From the ground up: what went well below, what did not on top, where it stands out of the outline.
const STACK = ["succeeded", "skipped", "cancelled", "scheduled", "enqueued", "processing", "failed", "terminated"];

/**
 * How many of each state in each bucket. `buckets`: `{from, byState}`, oldest first, as GET /series/executions gives them; `to`: the end of the last one;
 * `label` names the chart. What failed is hatched and on top. `onChoose({from, to, byState})` (RFC 3339): a bucket is clicked, or chosen with Enter;
 * `to` is its last millisecond, as filters of executions take it.
 */
export const StackedBars = {
  props: { buckets: Array, to: [String, Number], label: String, zone: String, height: { type: Number, default: 170 }, onChoose: Function },
  setup(props) {
    return () => {
      const spans = props.buckets.map((bucket, index) => spanOfBucket(bucket, props.buckets[index + 1]?.from ?? props.to, props.zone));
      const totals = totalsOf(props.buckets);
      const amounts = scaleOfCounts(Math.max(0, ...props.buckets.map((bucket) => sumOf(bucket.byState))));
      const choose = props.onChoose && ((index) => props.onChoose(chosenBucket(props.buckets[index], spans[index])));
      return html`
        <${ChartFrame} label=${props.label} spans=${spans} amounts=${amounts} legend=${legendOf(totals)} zone=${props.zone} height=${props.height} onChoose=${choose}>${{
          default: (scale) => props.buckets.map((bucket, index) => barOf(bucket, spans[index], scale)),
        }}<//>
      `;
    };
  },
};

/** The end of the last bucket of a series, as GET /series/executions gives it: whole, also where it has only begun. */
export function endOfSeries(series) {
  const last = series.buckets.at(-1);
  return last === undefined ? series.to : new Date(last.from).getTime() + 1_000 * series.bucketSeconds;
}

/**
 * Figures over time as lines. `points`: `{from, to?, title?, values: {p50: 30, p95: 90}, link?}`, oldest first, null where there is none (the line is broken there);
 * `lines`: `{key, text, tone, isDashed}`; `unit`: `duration` (ms) or `count`. `onChoose(point)`: a point is clicked, or chosen with Enter.
 */
export const LineChart = {
  props: { points: Array, lines: Array, label: String, unit: { type: String, default: "duration" }, zone: String, height: { type: Number, default: 170 }, onChoose: Function },
  setup(props) {
    return () => {
      const spans = props.points.map((point, index) => spanOfPoint(point, index, props));
      const values = props.points.flatMap((point) => props.lines.map(({ key }) => point.values[key] ?? 0));
      const amounts = (props.unit === "duration" ? scaleOfDurations : scaleOfCounts)(Math.max(0, ...values));
      const legend = props.lines.map((line) => ({ name: line.text, tone: line.tone, mark: line.isDashed ? "dashed" : "line" }));
      const choose = props.onChoose && ((index) => props.onChoose(props.points[index]));
      return html`
        <${ChartFrame} label=${props.label} spans=${spans} amounts=${amounts} legend=${legend} zone=${props.zone} height=${props.height} onChoose=${choose}>${{
          default: (scale) => props.lines.map((line) => strokeOf(line, props.points, spans, scale)),
        }}<//>
      `;
    };
  },
};

/** Small bars side by side, such as the hours of a day: `values`, `words(index)` for each, `marks` (index → text below). */
export function SmallBars({ values, words, marks = {}, label, tone = "busy" }) {
  const largest = Math.max(1, ...values);
  return html`
    <ol class="small-bars" aria-label=${label}>
      ${values.map((value, index) => html`
        <li key=${index} title=${words(index)}>
          <span class="unseen">${words(index)}</span>
          <i class=${["bar", tone, { none: value === 0 }]} aria-hidden="true" style=${{ height: `${value === 0 ? 0 : Math.max(4, (100 * value) / largest)}%` }}></i>
          <small aria-hidden="true">${marks[index]}</small>
        </li>
      `)}
    </ol>
  `;
}

SmallBars.props = ["values", "words", "marks", "label", "tone"];

function spanOfBucket(bucket, end, zone) {
  const [from, to] = [new Date(bucket.from).getTime(), new Date(end).getTime()];
  const lines = statesOf(bucket.byState).map((state) => [nameOfState(state), formatNumber(bucket.byState[state])]);
  return { from, to, title: titleOfSpan(from, to, zone), lines };
}

function titleOfSpan(from, to, zone) {
  if ((to - from) % DAY_LENGTH === 0) return formatDay(from, zone);
  const clock = (at) => formatMoment(at, { zone, withDate: false }).slice(0, 5);
  return `${formatDay(from, zone)} ${clock(from)} – ${clock(to)}`;
}

function spanOfPoint(point, index, { points, lines, unit, zone }) {
  const from = new Date(point.from).getTime();
  const to = new Date(point.to ?? points[index + 1]?.from ?? point.from).getTime();
  const write = unit === "duration" ? formatDuration : formatNumber;
  const known = lines.filter(({ key }) => point.values[key] !== null && point.values[key] !== undefined);
  return { from, to, title: point.title ?? titleOfSpan(from, to, zone), lines: known.map(({ key, text }) => [text, write(point.values[key])]) };
}

function barOf(bucket, span, scale) {
  const [left, right] = [scale.x(span.from), scale.x(span.to)];
  const gap = right - left > 6 ? 1 : 0;
  let below = 0;
  return statesOf(bucket.byState).map((state) => {
    const [bottom, top] = [scale.y(below), scale.y((below += bucket.byState[state]))];
    const box = { x: left + gap, y: Math.min(top, bottom - 1), width: Math.max(1, right - left - 2 * gap), height: Math.max(1, bottom - top) };
    return html`
      <g key=${`${span.from} ${state}`}>
        <rect class=${["chart-bar", toneOf(state)]} ...${box}/>
        ${isFailure(state) && html`<path class="chart-hatch" d=${hatchOf(box)}/>`}
      </g>
    `;
  });
}

// Slanted lines inside a box, so that what failed is told without colour; as lines, since a pattern needs an address of its own.
function hatchOf({ x, y, width, height }) {
  const parts = [];
  for (let place = 5; place < width + height; place += 5) {
    const [fromX, fromY] = place <= height ? [0, place] : [place - height, height];
    const [toX, toY] = place <= width ? [place, 0] : [width, place - width];
    parts.push(`M${x + fromX} ${y + fromY}L${x + toX} ${y + toY}`);
  }
  return parts.join("");
}

function strokeOf(line, points, spans, scale) {
  const parts = [];
  const dots = [];
  for (const [index, point] of points.entries()) {
    const value = point.values[line.key];
    if (value === null || value === undefined) continue;
    const place = [(scale.x(spans[index].from) + scale.x(spans[index].to)) / 2, scale.y(value)];
    const isFirst = index === 0 || (points[index - 1].values[line.key] ?? null) === null;
    parts.push(`${isFirst ? "M" : "L"}${place[0].toFixed(1)} ${place[1].toFixed(1)}`);
    dots.push(html`<circle key=${index} class=${["chart-dot", point.tone ?? line.tone]} cx=${place[0]} cy=${place[1]} r=${point.tone === "bad" ? 4 : 2.5}/>`);
  }
  return html`
    <g key=${line.key}>
      <path class=${["chart-path", line.tone, { dashed: line.isDashed }]} d=${parts.join("")}/>
      ${(dots.length <= MOST_DOTS || parts.every((part) => part.startsWith("M"))) && dots}
    </g>
  `;
}

function legendOf(totals) {
  return statesOf(totals).map((state) => ({ name: nameOfState(state), text: formatNumber(totals[state]), tone: toneOf(state), mark: isFailure(state) ? "hatched" : "box" }));
}

function statesOf(byState) {
  const known = STACK.filter((state) => byState[state] > 0);
  return known.concat(Object.keys(byState).filter((state) => !STACK.includes(state) && byState[state] > 0));
}

function totalsOf(buckets) {
  const totals = {};
  for (const { byState } of buckets) for (const [state, count] of Object.entries(byState)) totals[state] = (totals[state] ?? 0) + count;
  return totals;
}

function chosenBucket(bucket, span) {
  return { from: new Date(span.from).toISOString(), to: new Date(span.to - 1).toISOString(), byState: bucket.byState };
}

function sumOf(byState) {
  return Object.values(byState).reduce((sum, count) => sum + count, 0);
}

function isFailure(state) {
  return toneOf(state) === "bad";
}

function nameOfState(state) {
  return hasText(`state.${state}`) ? t(`state.${state}`) : state;
}
