// What every chart has: axes, legend, a reader of its values for mouse and keyboard, and a table for those who do not see it.

import { html } from "../core/html.js";
import { t } from "../core/language.js";
import { zoneOf } from "../core/times.js";
import { computed, onMounted, onUnmounted, ref } from "../core/vue.js";
import { ticksOfTime } from "./chart_scale.js";

const LEFT = 56;
const RIGHT = 12;
const TOP = 10;
const BOTTOM = 24;
const ROOM_OF_TICK = 90;

/**
 * A chart over time. `spans` are what is read one by one, oldest first: `{from, to}` in ms, `title`, `lines` (`[name, text]`); `amounts` is a scale of
 * chart_scale.js; `legend` are `{name, text, tone, mark}` with the mark `box`, `hatched`, `line` or `dashed`. The slot draws: it gets
 * `{x(ms), y(amount), base}` and gives SVG. `onChoose(index)`: a span is clicked, or chosen with Enter. Ticks are
 * in the zone that the reader has chosen (of `zone` where that is the job's), or in `fixedZone`.
 */
export const ChartFrame = {
  props: { label: String, spans: Array, amounts: Object, legend: Array, zone: String, fixedZone: String, height: { type: Number, default: 170 }, onChoose: Function },
  setup(props, { slots }) {
    const { element, width } = useWidth();
    const scale = computed(() => scaleOf(props, width.value));
    return () => html`
      <figure class="chart">
        <${ChartLegend} items=${props.legend}/>
        <div class="chart-plot" ref=${element}>
          <svg width=${width.value} height=${props.height} aria-hidden="true" focusable="false">
            ${amountAxis(scale.value, props.amounts, width.value)}
            ${timeAxis(scale.value, props.fixedZone ?? zoneOf(props.zone))}
            ${slots.default(scale.value)}
          </svg>
          <${ChartReader} label=${props.label} spans=${props.spans} scale=${scale.value} onChoose=${props.onChoose}/>
        </div>
        <${ChartTable} label=${props.label} spans=${props.spans}/>
      </figure>
    `;
  },
};

/** Names of what a chart shows, each with the mark that it is drawn with. */
export function ChartLegend({ items }) {
  if (!items || items.length === 0) return null;
  return html`
    <figcaption class="chart-legend">
      ${items.map((one) => html`
        <span key=${one.name}><i class=${["chart-mark", one.mark, one.tone]} aria-hidden="true"></i>${one.name}${one.text && html` <b>${one.text}</b>`}</span>
      `)}
    </figcaption>
  `;
}

ChartLegend.props = ["items"];

/** The width of an element in px, as it changes: `{element, width}`, both refs. For `setup` of a component. */
export function useWidth() {
  const element = ref(null);
  const width = ref(600);
  const observer = new ResizeObserver(([entry]) => (width.value = Math.max(160, Math.floor(entry.contentRect.width))));
  onMounted(() => observer.observe(element.value));
  onUnmounted(() => observer.disconnect());
  return { element, width };
}

/** Reads one span after the other: the mouse by moving, the keyboard by its arrows; it alone is drawn again meanwhile. */
const ChartReader = {
  props: { label: String, spans: Array, scale: Object, onChoose: Function },
  setup(props) {
    const at = ref(-1);
    const last = () => props.spans.length - 1;
    const choose = () => at.value >= 0 && props.onChoose?.(at.value);
    function move(event) {
      const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
      if (event.key === "Enter") return void choose();
      if (event.key === "Escape") return void (at.value = -1);
      if (steps[event.key] === undefined) return;
      event.preventDefault();
      const from = at.value < 0 ? last() + (steps[event.key] < 0 ? 1 : 0) : at.value;
      at.value = Math.min(Math.max(from + steps[event.key], 0), last());
    }
    function point(event) {
      const place = event.clientX - event.currentTarget.getBoundingClientRect().left;
      at.value = nearestSpan(props.spans, props.scale, place);
    }
    return () => {
      const span = props.spans[at.value];
      return html`
        <div
          class=${["chart-reader", { pressable: props.onChoose }]}
          role="slider"
          tabindex="0"
          aria-label=${props.label}
          aria-valuemin="0"
          aria-valuemax=${Math.max(last(), 0)}
          aria-valuenow=${Math.max(at.value, 0)}
          aria-valuetext=${span === undefined ? t("chart.read") : wordsOf(span)}
          onKeydown=${move}
          onPointermove=${point}
          onPointerleave=${() => (at.value = -1)}
          onBlur=${() => (at.value = -1)}
          onClick=${choose}
        >${span !== undefined && tipOf(span, props.scale)}</div>
      `;
    };
  },
};

/** The same as a table, closed at first and made only when it is opened. */
const ChartTable = {
  props: { label: String, spans: Array },
  setup(props) {
    const isOpen = ref(false);
    return () => html`
      <details class="chart-table" onToggle=${(event) => (isOpen.value = event.target.open)}>
        <summary>${t("chart.table")}</summary>
        ${isOpen.value && tableOfSpans(props)}
      </details>
    `;
  },
};

function tableOfSpans({ label, spans }) {
  const names = [...new Set(spans.flatMap((span) => span.lines.map(([name]) => name)))];
  const shown = spans.filter((span) => span.lines.length > 0);
  return html`
    <div class="chart-scroll" tabindex="0" role="region" aria-label=${label}>
      <table class="table">
        <caption class="unseen">${label}</caption>
        <thead><tr><th>${t("chart.time")}</th>${names.map((name) => html`<th class="right" key=${name}>${name}</th>`)}</tr></thead>
        <tbody>${shown.map((span) => rowOfSpan(span, names))}</tbody>
      </table>
    </div>
  `;
}

function rowOfSpan(span, names) {
  const texts = new Map(span.lines);
  return html`<tr key=${span.from}><td>${span.title}</td>${names.map((name) => html`<td class="right number" key=${name}>${texts.get(name) ?? "–"}</td>`)}</tr>`;
}

function scaleOf({ spans, amounts, height }, width) {
  const from = spans[0]?.from ?? 0;
  const to = Math.max(spans.at(-1)?.to ?? 1, from + 1);
  const base = height - BOTTOM;
  const x = (at) => LEFT + ((at - from) / (to - from)) * (width - LEFT - RIGHT);
  const y = (amount) => base - (amount / amounts.top) * (base - TOP);
  return { x, y, base, from, to, left: LEFT, right: width - RIGHT, top: TOP };
}

function amountAxis(scale, amounts, width) {
  return amounts.ticks.map(({ value, text }) => html`
    <g key=${value}>
      <line class="chart-line" x1=${LEFT} x2=${width - RIGHT} y1=${scale.y(value)} y2=${scale.y(value)}/>
      <text class="chart-text" x=${LEFT - 8} y=${scale.y(value) + 4} text-anchor="end">${text}</text>
    </g>
  `);
}

function timeAxis(scale, zone) {
  const count = Math.max(2, Math.floor((scale.right - scale.left) / ROOM_OF_TICK));
  return ticksOfTime(scale.from, scale.to, count, zone).map(({ at, text, isDay }) => html`
    <g key=${at}>
      <line class="chart-tick" x1=${scale.x(at)} x2=${scale.x(at)} y1=${scale.base} y2=${scale.base + 4}/>
      <text class=${["chart-text", { day: isDay }]} x=${scale.x(at)} y=${scale.base + 17} text-anchor=${anchorAt(scale.x(at), scale)}>${text}</text>
    </g>
  `);
}

function anchorAt(place, scale) {
  if (place > scale.right - 20) return "end";
  return place < scale.left + 10 ? "start" : "middle";
}

function nearestSpan(spans, scale, place) {
  let best = -1;
  let nearest = Infinity;
  for (const [index, span] of spans.entries()) {
    const [left, right] = [scale.x(span.from), scale.x(span.to)];
    const distance = place < left ? left - place : Math.max(0, place - right);
    if (distance < nearest) [best, nearest] = [index, distance];
  }
  return best;
}

function tipOf(span, scale) {
  const [left, right] = [scale.x(span.from), Math.max(scale.x(span.to), scale.x(span.from) + 1)];
  const isLate = (left + right) / 2 > (scale.left + scale.right) / 2;
  const place = isLate ? { right: `calc(100% - ${left - 8}px)` } : { left: `${right + 8}px` };
  return html`
    <div class="chart-cursor" style=${{ left: `${left}px`, width: `${right - left}px`, top: `${scale.top}px`, height: `${scale.base - scale.top}px` }}></div>
    <div class="chart-tip" style=${{ ...place, top: `${scale.top}px` }} aria-hidden="true">
      <strong>${span.title}</strong>
      ${span.lines.map(([name, text]) => html`<div key=${name}><span>${name}</span><b>${text}</b></div>`)}
      ${span.lines.length === 0 && html`<div><span>${t("chart.none")}</span></div>`}
    </div>
  `;
}

function wordsOf(span) {
  const words = span.lines.map(([name, text]) => `${text} ${name}`);
  return `${span.title}: ${words.length === 0 ? t("chart.none") : words.join(", ")}`;
}
