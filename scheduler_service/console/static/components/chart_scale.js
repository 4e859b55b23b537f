// Scales of charts: honest ones (amounts begin at nought), with ticks at values and moments that people would choose.

import { formatCompact, formatDuration } from "../core/formats.js";
import { localeOf } from "../core/language.js";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720].map((count) => count * MINUTE).concat([1, 2, 7, 14, 30, 91, 365].map((count) => count * DAY));
const DURATION_STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500].concat(
  [1, 2, 5, 10, 15, 30].map((count) => count * 1_000),
  [1, 2, 5, 10, 15, 30].map((count) => count * MINUTE),
  [1, 2, 3, 6, 12].map((count) => count * HOUR),
);

/** `{top, ticks}` for amounts from 0 to at least `largest`: about three ticks `{value, text}`, the first at 0, the last at `top`. */
export function scaleOfCounts(largest) {
  const wanted = Math.max(largest, 1) / 3;
  const power = 10 ** Math.floor(Math.log10(wanted));
  const step = Math.max(1, [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= wanted));
  return scaleWith(step, largest, formatCompact);
}

/** The same for durations in ms. */
export function scaleOfDurations(largest) {
  const wanted = Math.max(largest, 1) / 3;
  const step = DURATION_STEPS.find((one) => one >= wanted) ?? Math.ceil(wanted / DAY) * DAY;
  return scaleWith(step, largest, formatDuration);
}

/** Ticks `{at, text, isDay}` between two moments (ms), at most `count`, at full minutes, hours or days of `zone` (undefined: the browser's own). */
export function ticksOfTime(from, to, count, zone) {
  const step = TIME_STEPS.find((one) => (to - from) / one <= count) ?? TIME_STEPS.at(-1);
  const ticks = [];
  for (let local = Math.ceil((from + offsetOf(from, zone)) / step) * step; ; local += step) {
    const at = local - offsetOf(local - offsetOf(local, zone), zone);
    if (at > to) return ticks;
    if (at >= from && ticks.at(-1)?.at !== at) ticks.push({ at, ...nameTick(at, local, step, zone) });
  }
}

/** The distance in ms between UTC and the local time of `zone` (undefined: the browser's own) at a moment. */
export function offsetOf(at, zone) {
  const format = formatOf("en-GB", { year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", hourCycle: "h23", timeZone: zone });
  const parts = Object.fromEntries(format.formatToParts(at).map(({ type, value }) => [type, Number(value)]));
  const local = Date.UTC(parts.year, parts.month - 1, parts.day, parts.hour, parts.minute);
  return local - Math.floor(at / MINUTE) * MINUTE;
}

const formatsOfTicks = new Map();

function scaleWith(step, largest, write) {
  const top = Math.max(step, Math.ceil(largest / step) * step);
  const values = Array.from({ length: Math.round(top / step) + 1 }, (_, index) => index * step);
  return { top, ticks: values.map((value) => ({ value, text: value === 0 ? "0" : write(value) })) };
}

function nameTick(at, local, step, zone) {
  const isDay = local % DAY === 0;
  if (step >= 30 * DAY) return { isDay, text: writeTick(at, { month: "short", year: "2-digit", timeZone: zone }) };
  if (isDay) return { isDay, text: writeTick(at, { day: "numeric", month: "short", timeZone: zone }) };
  return { isDay, text: writeTick(at, { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: zone }) };
}

function writeTick(at, options) {
  return formatOf(localeOf(), options).format(at);
}

function formatOf(locale, options) {
  const key = JSON.stringify([locale, options]);
  if (!formatsOfTicks.has(key)) formatsOfTicks.set(key, new Intl.DateTimeFormat(locale, options));
  return formatsOfTicks.get(key);
}
