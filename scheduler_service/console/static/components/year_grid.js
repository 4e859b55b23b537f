// Days as small squares, a column a week: how much happens on each, and which days are special.

import { formatNumber } from "../core/formats.js";
import { html } from "../core/html.js";
import { t } from "../core/language.js";
import { ref } from "../core/vue.js";
import { addDays, nameDate, weekdayNames, weekdayOf } from "./days.js";

const CELL = 13;
const STEP = CELL + 3;
const SIDE = 34;
const HEAD = 18;
const LEVELS = 4;

/**
 * `count` days from the date `from`; `days`: `{date, count, note, text}` of those on which there is something, `note` marks a day, `text` says more.
 * Arrow keys read it day by day; what is read stands below.
 */
export const YearGrid = {
  props: { from: String, count: Number, days: Array, label: String },
  setup(props) {
    const at = ref(-1);
    function move(event) {
      const steps = { ArrowLeft: -7, ArrowRight: 7, ArrowUp: -1, ArrowDown: 1, Home: -Infinity, End: Infinity };
      if (steps[event.key] === undefined) return;
      event.preventDefault();
      at.value = Math.min(Math.max(Math.max(at.value, 0) + (at.value < 0 ? 0 : steps[event.key]), 0), props.count - 1);
    }
    function point(event) {
      const date = event.target.dataset?.index;
      if (date !== undefined) at.value = Number(date);
    }
    return () => {
      const byDate = new Map(props.days.map((day) => [day.date, day]));
      const read = at.value < 0 ? t("chart.read") : wordsOfDay(addDays(props.from, at.value), byDate);
      return html`
        <div class="year-grid">
          <div class="chart-scroll-x">
            <div
              role="slider"
              tabindex="0"
              aria-label=${props.label}
              aria-valuemin="0"
              aria-valuemax=${props.count - 1}
              aria-valuenow=${Math.max(at.value, 0)}
              aria-valuetext=${read}
              onKeydown=${move}
              onPointermove=${point}
            ><${YearSquares} from=${props.from} count=${props.count} days=${props.days} />${cursorOf(props.from, at.value)}</div>
          </div>
          <p class="year-read"><span>${read}</span><${LevelKey}/></p>
        </div>
      `;
    };
  },
};

/** The squares; a component of its own, so that reading draws none of them again. */
const YearSquares = {
  props: { from: String, count: Number, days: Array },
  setup(props) {
    return () => {
      const byDate = new Map(props.days.map((day) => [day.date, day]));
      const largest = Math.max(1, ...props.days.map((day) => day.count));
      const columns = Math.ceil((props.count + weekdayOf(props.from)) / 7);
      const cells = Array.from({ length: props.count }, (_, index) => squareOf(index, props.from, byDate, largest));
      return html`
        <svg class="year-squares" width=${SIDE + columns * STEP} height=${HEAD + 7 * STEP} aria-hidden="true" focusable="false">
          ${weekdayNames().map((name, row) => row % 2 === 0 && html`<text key=${row} class="chart-text" x="0" y=${HEAD + row * STEP + 10}>${name}</text>`)}
          ${monthNames(props.from, props.count)}
          ${cells}
        </svg>
      `;
    };
  },
};

function squareOf(index, from, byDate, largest) {
  const day = byDate.get(addDays(from, index));
  const level = day === undefined || day.count === 0 ? 0 : Math.ceil((LEVELS * day.count) / largest);
  const [x, y] = placeOfDay(from, index);
  return html`
    <g key=${index}>
      <rect class=${`year-day level-${level}`} data-index=${index} x=${x} y=${y} width=${CELL} height=${CELL} rx="2.5"/>
      ${day?.note && html`<rect class="year-note" x=${x + 0.75} y=${y + 0.75} width=${CELL - 1.5} height=${CELL - 1.5} rx="2"/><circle class="year-note-dot" cx=${x + CELL / 2} cy=${y + CELL / 2} r="2.2"/>`}
    </g>
  `;
}

function placeOfDay(from, index) {
  const place = index + weekdayOf(from);
  return [SIDE + Math.floor(place / 7) * STEP, HEAD + (place % 7) * STEP];
}

function cursorOf(from, index) {
  if (index < 0) return null;
  const [x, y] = placeOfDay(from, index);
  return html`<i class="year-cursor" style=${{ left: `${x - 2}px`, top: `${y - 2}px`, width: `${CELL + 4}px`, height: `${CELL + 4}px` }}></i>`;
}

function monthNames(from, count) {
  const names = [];
  for (let index = 0; index < count; index += 1) {
    const date = addDays(from, index);
    if (!date.endsWith("-01") && index > 0) continue;
    const [x] = placeOfDay(from, index);
    if (names.length === 1 && x - names[0].x < 3 * STEP) names.pop();
    names.push({ x, text: nameDate(date, { month: "short" }), date });
  }
  return names.map(({ x, text, date }) => html`<text key=${date} class="chart-text" x=${x} y="10">${text}</text>`);
}

function LevelKey() {
  return html`
    <span class="level-key" aria-hidden="true">${t("chart.less")}
      ${Array.from({ length: LEVELS + 1 }, (_, level) => html`<i key=${level} class=${`level-${level}`}></i>`)}
      ${t("chart.more")}
    </span>
  `;
}

function wordsOfDay(date, byDate) {
  const day = byDate.get(date);
  const words = [t("chart.firings", { count: formatNumber(day?.count ?? 0) }), day?.text].filter(Boolean);
  return `${nameDate(date)}: ${words.join(" · ")}`;
}
