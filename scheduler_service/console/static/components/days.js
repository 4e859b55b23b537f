// Days as texts (2026-03-29) and where they begin and end in a zone.

import { localeOf } from "../core/language.js";
import { offsetOf } from "./chart_scale.js";

const ONE_DAY = 86_400_000;

/** The day of a moment (ms) in `zone` (undefined: the browser's own): 2026-03-29. */
export function dateOf(at, zone) {
  return new Date(at + offsetOf(at, zone)).toISOString().slice(0, 10);
}

/** The day `count` days after `date`. */
export function addDays(date, count) {
  return new Date(Date.parse(date) + count * ONE_DAY).toISOString().slice(0, 10);
}

/** The weekday of a date, from 0 for Monday. */
export function weekdayOf(date) {
  return (new Date(date).getUTCDay() + 6) % 7;
}

/** The moment (ms) at which a date begins in `zone`. */
export function startOfDate(date, zone) {
  const local = Date.parse(date);
  return local - offsetOf(local - offsetOf(local, zone), zone);
}

/** A date in words: Sun 29 Mar 2026; `options` are those of Intl. */
export function nameDate(date, options = { weekday: "short", day: "numeric", month: "short", year: "numeric" }) {
  return new Intl.DateTimeFormat(localeOf(), { ...options, timeZone: "UTC" }).format(Date.parse(date));
}

/** The short names of the weekdays, Monday first. */
export function weekdayNames() {
  return Array.from({ length: 7 }, (_, index) => nameDate(addDays("2024-01-01", index), { weekday: "short" }));
}
