// A year at a glance: twelve months of working, free and made-up days, read day by day with the keyboard, and as a table.

import { addDays, dateOf, formatNumber, html, nameDate, now, ref, t, weekdayNames, weekdayOf } from "../../core.js";
import { daySet, daysOf } from "./days_text.js";

/** Each kind of day with what it looks like beside its colour; `rest` and `work` are as the week says, the others are not. */
export const DAY_KINDS = ["work", "rest", "free", "makeUp"];
const STEPS = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -7, ArrowDown: 7, PageUp: -28, PageDown: 28, Home: -Infinity, End: Infinity };

/**
 * `year` is the one that is wanted; `days` has its `year`, `freeDays` and `makeUpDays` (spans) and `workingDays`; `week` the working days of a week. `onYear(year)` chooses another one;
 * `onToggle(date, kind)`, where days can be changed: a click, Enter or space on a day of this kind.
 */
export const YearOfDays = {
  props: { days: Object, week: Array, year: Number, onYear: Function, onToggle: Function },
  setup(props) {
    const at = ref(null);
    const kindsOf = () => {
      const [free, makeUp, week] = [daySet(props.days.freeDays), daySet(props.days.makeUpDays), new Set(props.week)];
      return (date) => (free.has(date) ? "free" : makeUp.has(date) ? "makeUp" : week.has(weekdayOf(date) + 1) ? "work" : "rest");
    };
    function move(event) {
      const { year } = props.days;
      const [first, last] = [`${year}-01-01`, `${year}-12-31`];
      const isIn = at.value?.startsWith(`${year}-`);
      if (props.onToggle && isIn && ["Enter", " "].includes(event.key)) {
        event.preventDefault();
        return void props.onToggle(at.value, kindsOf()(at.value));
      }
      const step = STEPS[event.key];
      if (step === undefined) return;
      event.preventDefault();
      const today = dateOf(now.value);
      const wanted = !isIn ? (today.startsWith(`${year}-`) ? today : first) : step === -Infinity ? first : step === Infinity ? last : addDays(at.value, step);
      at.value = wanted < first ? first : wanted > last ? last : wanted;
    }
    const dateUnder = (event) => event.target.closest?.("[data-date]")?.dataset.date ?? null;
    const point = (event) => (at.value = dateUnder(event) ?? at.value);
    const press = (event) => {
      const date = dateUnder(event);
      if (date !== null) props.onToggle?.(date, kindsOf()(date));
    };
    return () => {
      const { year } = props.days;
      const kindOf = kindsOf();
      const isIn = at.value?.startsWith(`${year}-`);
      const read = isIn ? `${nameDate(at.value)}: ${t(`calendars.day.${kindOf(at.value)}`)}` : t(props.onToggle ? "calendars.readAndChange" : "chart.read");
      const index = isIn ? Math.round((Date.parse(at.value) - Date.parse(`${year}-01-01`)) / 86_400_000) : 0;
      return html`
        ${yearHead(props)}
        <div class="year-room"><div
          class=${["year-of-days", { changeable: props.onToggle }]}
          role="slider"
          tabindex="0"
          aria-label=${t("calendars.yearLabel", { year })}
          aria-valuemin="0"
          aria-valuemax="365"
          aria-valuenow=${index}
          aria-valuetext=${read}
          onKeydown=${move}
          onPointermove=${point}
          onClick=${press}
        >
          ${Array.from({ length: 12 }, (_, month) => {
            const name = `${year}-${String(month + 1).padStart(2, "0")}`;
            return html`<${MonthOfDays} key=${name} month=${name} kinds=${kindsOfMonth(name, kindOf)} at=${isIn && at.value.startsWith(name) ? at.value : null}/>`;
          })}
        </div></div>
        <p class="year-read"><span>${read}</span></p>
        <p class="chart-legend day-legend">${DAY_KINDS.map((kind) => html`<span key=${kind}><i class=${["one-day", kind]} aria-hidden="true">8</i>${t(`calendars.day.${kind}`)}</span>`)}</p>
        <${OtherDays} days=${props.days}/>
      `;
    };
  },
};

function yearHead({ days, year, onYear }) {
  return html`
    <div class="year-head">
      <p><strong>${formatNumber(days.workingDays)}</strong> ${t("calendars.workingDays", { count: days.workingDays, year: days.year })}</p>
      <div class="actions">
        <button type="button" class="button bare" aria-label=${t("calendars.yearBack")} onClick=${() => onYear(year - 1)}>‹</button>
        <strong class="number" aria-live="polite">${year}</strong>
        <button type="button" class="button bare" aria-label=${t("calendars.yearNext")} onClick=${() => onYear(year + 1)}>›</button>
      </div>
    </div>
  `;
}

/** The kinds of a month's days as one text, by which a month is drawn again when one of its days has changed. */
function kindsOfMonth(month, kindOf) {
  const kinds = [];
  for (let date = `${month}-01`; date.startsWith(month); date = addDays(date, 1)) kinds.push(kindOf(date));
  return kinds.join(" ");
}

/** A month, which draws itself alone. */
const MonthOfDays = {
  props: { month: String, kinds: String, at: String },
  setup(props) {
    return () => {
      const first = `${props.month}-01`;
      const today = dateOf(now.value);
      return html`
        <div class="month-of-days" aria-hidden="true">
          <h3>${nameDate(first, { month: "long" })}</h3>
          ${weekdayNames().map((name) => html`<span class="day-head" key=${name}>${name.length > 2 ? name.slice(0, 2) : name.slice(-1)}</span>`)}
          ${props.kinds.split(" ").map((kind, index) => {
            const date = addDays(first, index);
            const column = index === 0 ? { gridColumnStart: weekdayOf(first) + 1 } : undefined;
            return html`<i key=${date} class=${["one-day", kind, { read: date === props.at, today: date === today }]} data-date=${date} style=${column}>${index + 1}</i>`;
          })}
        </div>
      `;
    };
  },
};

/** The days that are not as the week says, as a table. */
function OtherDays({ days }) {
  const rows = [...days.freeDays.map((span) => [span, "free"]), ...days.makeUpDays.map((span) => [span, "makeUp"])].sort();
  const label = t("calendars.otherDays", { year: days.year });
  return html`
    <details class="chart-table">
      <summary>${t("chart.table")}</summary>
      ${rows.length === 0
        ? html`<p class="dim">${t("calendars.noOtherDays")}</p>`
        : html`
            <div class="chart-scroll" tabindex="0" role="region" aria-label=${label}>
              <table class="table">
                <caption class="unseen">${label}</caption>
                <thead><tr><th scope="col">${t("calendars.dates")}</th><th scope="col">${t("calendars.kind")}</th><th scope="col" class="right">${t("calendars.count")}</th></tr></thead>
                <tbody>${rows.map(([span, kind]) => html`<tr key=${span}><td>${spanWords(span)}</td><td>${t(`calendars.day.${kind}`)}</td><td class="right number">${daysOf(span)?.length}</td></tr>`)}</tbody>
              </table>
            </div>
          `}
    </details>
  `;
}

OtherDays.props = ["days"];

/** A date, or the first and last of a range, in words. */
export function spanWords(span) {
  return span.split("/").map((date) => nameDate(date)).join(" – ");
}
