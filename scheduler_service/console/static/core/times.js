// Moments: one clock for all relative times of the page, and absolute ones in the zone that the reader has chosen.

import { intlFormat } from "./language.js";
import { preferences } from "./preferences.js";
import { ref } from "./vue.js";

/** The present in ms; moves once a second while the tab is seen. */
export const now = ref(Date.now());

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
export function formatMoment(at, { zone, withMs = false, withDate = true } = {}) {
  if (at === null || at === undefined) return "–";
  const text = intlFormat("DateTimeFormat", optionsOf(zoneOf(zone), withMs), "sv-SE").format(new Date(at)).replace(",", ".");
  return withDate ? text : text.slice(text.indexOf(" ") + 1);
}

/** The same with the name of its zone, and in UTC: for the title of a moment. */
export function describeMoment(at, zone) {
  const shown = zoneOf(zone) ?? intlFormat("DateTimeFormat").resolvedOptions().timeZone;
  const utc = new Date(at).toISOString();
  return shown === "UTC" ? utc : `${formatMoment(at, { zone, withMs: true })} ${shown} · ${utc}`;
}

/** A day as people write it in their language: Mon 23 Nov. */
export function formatDay(at, zone) {
  const options = { weekday: "short", day: "numeric", month: "short", timeZone: zoneOf(zone) };
  return intlFormat("DateTimeFormat", options).format(new Date(at));
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
