// Moments: one clock for all relative times of the page, and absolute ones in the zone that the reader has chosen.

import { intlFormat } from "./language.js";
import { preferences } from "./preferences.js";
import { ref } from "./vue.js";

const MINUTE_LENGTH = 60_000;

/** The present in ms; moves once a second while the tab is seen. */
export const now = ref(Date.now());

const ownZone = ref(null);

/** Takes the name of the browser's zone, which is 20 ms of work: titles of moments have it from then on. */
export function nameOwnZone() {
  ownZone.value = intlFormat("DateTimeFormat").resolvedOptions().timeZone;
}

/** Lets the clock of the page run. */
export function startClock() {
  setInterval(() => {
    if (!document.hidden) now.value = Date.now();
  }, 1_000);
}

/** The zone in which moments are shown: that of `zoneOfJob` where the reader wants the job's. Undefined is the browser's own. */
export function zoneOf(zoneOfJob) {
  if (preferences.zone === "utc") return "UTC";
  return preferences.zone === "job" ? (zoneOfJob ?? "UTC") : undefined;
}

/** `2026-11-23 09:00:01`, in the chosen zone; `withMs` adds milliseconds. A dash for nothing. */
export function formatMoment(at, { zone, ...options } = {}) {
  return formatMomentIn(at, zoneOf(zone), options);
}

/** A moment (ms, or a text) as an input of kind `datetime-local` has it, in the browser's zone; empty for none. */
export function fieldMoment(at) {
  const moment = new Date(at ?? "");
  if (Number.isNaN(moment.getTime())) return "";
  return new Date(moment.getTime() - moment.getTimezoneOffset() * MINUTE_LENGTH).toISOString().slice(0, 19);
}

/** The same in the zone `chosen` whatever the reader's choice is, as beside days and hours that are that zone's; undefined is the browser's own. */
export function formatMomentIn(at, chosen, { withMs = false, withDate = true } = {}) {
  if (at === null || at === undefined) return "–";
  const own = chosen === undefined || chosen === "UTC" ? writeMoment(new Date(at), chosen) : "";
  const isWritten = own.length === LENGTH;
  const text = isWritten ? own.slice(0, withMs ? LENGTH : -4) : intlFormat("DateTimeFormat", optionsOf(chosen, withMs), "sv-SE").format(new Date(at)).replace(",", ".");
  return withDate ? text : text.slice(text.indexOf(" ") + 1);
}

/** The same with the name of its zone, once that is known, and in UTC: for the title of a moment. */
export function describeMoment(at, zone) {
  const shown = zoneOf(zone) ?? ownZone.value;
  const utc = new Date(at).toISOString();
  if (shown === null) return utc;
  return shown === "UTC" ? utc : `${formatMoment(at, { zone, withMs: true })} ${shown} · ${utc}`;
}

/** A day as people write it in their language: Mon 23 Nov. */
export function formatDay(at, zone) {
  const options = { weekday: "short", day: "numeric", month: "short", timeZone: zoneOf(zone) };
  return intlFormat("DateTimeFormat", options).format(new Date(at));
}

const LENGTH = "2026-11-23 09:00:01.250".length;

/** What Intl would write, without its first 20 ms; years of more than four digits are longer than LENGTH, and not written so. */
function writeMoment(date, zone) {
  const shift = zone === "UTC" ? 0 : date.getTimezoneOffset() * MINUTE_LENGTH;
  return new Date(date.getTime() - shift).toISOString().replace("T", " ").slice(0, -1);
}

// In Swedish a moment is written as everywhere here: 2026-11-23 09:00:01,250.
function optionsOf(zone, withMs) {
  return {
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hourCycle: "h23",
    timeZone: zone,
    ...(withMs ? { fractionalSecondDigits: 3 } : {}),
  };
}
