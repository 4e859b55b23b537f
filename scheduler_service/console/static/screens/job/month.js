// A month as weeks of days, each with what was planned and what became of it.

import { Icon, formatCompact, formatNumber, html, t, weekdayNames } from "../../core.js";

/** What is counted of a day, in order: name, pictogram, tone. */
export const KINDS = [
  ["failed", "cross", "bad"],
  ["succeeded", "check", "good"],
  ["late", "clock", "warn"],
  ["cancelled", "stop", "quiet"],
  ["fired", "play", "quiet"],
  ["skipped", "skip", "bad"],
  ["planned", "dot", "quiet"],
];

const ENDS = { terminated: "failed", cancelled: "cancelled", succeeded: "succeeded" };

/** Which of KINDS a line of the ledger is: how its execution ended; `fired` until that, and where it is not kept. */
export function kindOf({ outcome, state }) {
  const end = ENDS[state] ?? "fired";
  return outcome === "skipped" || (outcome === "late" && (end === "succeeded" || state === null)) ? outcome : end;
}

/**
 * The grid: `weeks` of `{date, isOutside, isToday, isChosen, isPartial, isCut, note, counts}`, `counts` with the names of KINDS, of a day that `isCut` at least so many; `onChoose(date)`. Days are buttons in a table.
 */
export function MonthGrid({ weeks, label, nameOf, onChoose }) {
  return html`
    <table class="month" aria-label=${label}>
      <thead><tr>${weekdayNames().map((name) => html`<th key=${name} scope="col">${name}</th>`)}</tr></thead>
      <tbody>
        ${weeks.map((week) => html`<tr key=${week[0].date}>${week.map((day) => html`<td key=${day.date}><${DayButton} day=${day} nameOf=${nameOf} onChoose=${onChoose}/></td>`)}</tr>`)}
      </tbody>
    </table>
  `;
}

MonthGrid.props = ["weeks", "label", "nameOf", "onChoose"];

function DayButton({ day, nameOf, onChoose }) {
  const shown = KINDS.filter(([name]) => day.counts[name] > 0);
  const past = shown.filter(([name]) => name !== "planned");
  const words = shown.map(([name]) => `${formatNumber(day.counts[name])} ${t(`job.day.${name}`)}`);
  if (day.isCut) words.push(t("job.day.more"));
  const label = [nameOf(day.date), day.isPartial ? t("job.partial") : words.join(", ") || t("job.day.none"), day.note].filter(Boolean).join(": ");
  return html`
    <button
      type="button"
      class=${["day", { outside: day.isOutside, today: day.isToday, chosen: day.isChosen, noted: day.note }]}
      aria-label=${label}
      aria-pressed=${day.isChosen ? "true" : "false"}
      aria-current=${day.isToday ? "date" : undefined}
      title=${label}
      onClick=${() => onChoose(day.date)}
    >
      <span class="day-number">${Number(day.date.slice(8))}</span>
      <span class="day-counts">
        ${shown.map(([name, icon, tone]) => html`<span key=${name} class=${["day-count", tone]}><${Icon} name=${icon} size=${11}/>${formatCompact(day.counts[name])}</span>`)}
        ${(day.isPartial || day.isCut) && html`<span class="day-count quiet">…</span>`}
      </span>
      ${past.length > 0 && html`<span class="day-bar" aria-hidden="true">${past.map(([name, , tone]) => html`<i key=${name} class=${[tone, name]} style=${{ flexGrow: day.counts[name] }}></i>`)}</span>`}
    </button>
  `;
}

DayButton.props = ["day", "nameOf", "onChoose"];
