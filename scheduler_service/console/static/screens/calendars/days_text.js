// Dates and ranges as calendars have them, 2026-10-01 and 2026-10-01/2026-10-07, a line each in a field.

import { addDays, weekdayNames } from "../../core.js";

const DATE = /^\d{4}-\d\d-\d\d$/;
/** Of a span that is taken apart: the service takes no longer one. */
const LONGEST_DAYS = 366;

/** The texts of a field, one a line. */
export function linesOf(text) {
  return text.split(/[\n,;]/).map((line) => line.trim()).filter(Boolean);
}

/** The days of a text as dates; null where it is no date and no range. */
export function daysOf(span) {
  const [first, last = first] = span.split("/");
  if (![first, last].every(isDate) || last < first) return null;
  const days = [];
  for (let date = first; date <= last; date = addDays(date, 1)) {
    if (days.length === LONGEST_DAYS) return null;
    days.push(date);
  }
  return days;
}

/** All days of these spans; what is no span has none. */
export function daySet(spans) {
  return new Set(spans.flatMap((span) => daysOf(span) ?? []));
}

/** `text` with `date` or without it; lines that are no dates stay, behind the others. */
export function withDay(text, date, isIn) {
  const lines = linesOf(text);
  const days = daySet(lines);
  if (isIn) days.add(date);
  else days.delete(date);
  return [...spansOf([...days].sort()), ...lines.filter((line) => daysOf(line) === null)].join("\n");
}

/** Dates in order as spans: days that follow each other are one. */
export function spansOf(dates) {
  const spans = [];
  for (const date of dates) {
    const open = spans.at(-1);
    if (open !== undefined && addDays(open[1], 1) === date && (Date.parse(date) - Date.parse(open[0])) / 86_400_000 < LONGEST_DAYS) open[1] = date;
    else spans.push([date, date]);
  }
  return spans.map(([first, last]) => (first === last ? first : `${first}/${last}`));
}

/** Working days of a week in words: Mon – Fri. */
export function weekWords(week) {
  const names = weekdayNames();
  const runs = [];
  for (const day of [...week].sort()) {
    if (runs.at(-1)?.at(-1) === day - 1) runs.at(-1).push(day);
    else runs.push([day]);
  }
  return runs.map((run) => (run.length > 2 ? `${names[run[0] - 1]} – ${names[run.at(-1) - 1]}` : run.map((day) => names[day - 1]).join(", "))).join(", ") || "–";
}

function isDate(text) {
  return DATE.test(text) && !Number.isNaN(Date.parse(text)) && addDays(text, 0) === text;
}
