// The waterfall: a table whose last column is a time axis. Those who do not see the bars have its other columns.

import { ActionButton, Panel, Tabs, formatDuration, formatMoment, html, nextTick, now, ref, t, useKeys } from "../../core.js";
import { isLive, spansOf } from "./rows.js";
import { fit, panBy, placeIn, ticksOf, zoomBy } from "./scale.js";
import { STRAIGHT, warpOf } from "./warp.js";
import { nameOfRow, statusOfRow } from "./words.js";

const ZOOM = 0.5;
const PAN = 0.25;
const SHOWN_ROWS = 120;
const DRAG_PX = 6;
// Percentages of the axis: no tick after this, no words in bars that are shorter.
const LAST_TICK = 95;
const LABELLED = 8;
const TICK_ROOM = 11;

/**
 * The waterfall of `execution`: `rows` (of rowsOf), `chosen` (the key of the row that is open), `onChoose(key)`, `zone` of the job. Keys: j and k move,
 * Enter opens, + and - zoom, h and l move the span, f fits the row, 0 shows the whole.
 */
export const Waterfall = {
  props: { execution: Object, rows: Array, chosen: String, onChoose: Function, zone: String },
  setup(props) {
    const view = ref(null);
    const isShort = ref(true);
    const scope = ref("run");
    const at = ref(-1);
    const limit = ref(SHOWN_ROWS);
    const drag = useDrag((from, to) => show({ from, to }));

    const spans = () => spansOf(props.execution, props.rows, now.value);
    const shortened = () => warpOf(props.rows, spans()[scope.value], now.value);
    const warp = () => (isShort.value ? shortened() : STRAIGHT);
    const across = ({ from, to }) => ({ from: warp().to(from), to: warp().to(to) });
    const bounds = () => across(spans().all);
    const whole = () => fitAll(across(spans()[scope.value]));
    const seen = () => view.value ?? whole();
    const show = ({ from, to }) => (view.value = fit(from, to, bounds()));
    const rowAt = () => props.rows[at.value] ?? props.rows.find((row) => row.key === props.chosen);
    const zoom = (factor) => (view.value = zoomBy(seen(), factor, bounds()));
    const pan = (share) => (view.value = panBy(seen(), share, bounds()));
    const fitRow = (row) => row !== undefined && show(across({ from: row.from, to: row.to ?? now.value }));

    async function move(step) {
      at.value = Math.min(Math.max(at.value + step, 0), Math.min(props.rows.length, limit.value) - 1);
      await nextTick();
      document.querySelector(".waterfall tr[aria-current=true] button")?.focus();
    }

    useKeys([
      { keys: "j", text: "keys.next", run: () => move(1) },
      { keys: "k", text: "keys.previous", run: () => move(-1) },
      { keys: "+", text: "execution.zoomIn", run: () => zoom(ZOOM) },
      { keys: "-", text: "execution.zoomOut", run: () => zoom(1 / ZOOM) },
      { keys: "h", text: "execution.earlier", run: () => pan(-PAN) },
      { keys: "l", text: "execution.later", run: () => pan(PAN) },
      { keys: "f", text: "execution.fit", run: () => fitRow(rowAt()) },
      { keys: "0", text: "execution.whole", run: () => (view.value = null) },
    ]);

    function chooseScope(value) {
      scope.value = value;
      view.value = null;
    }

    function shorten() {
      isShort.value = !isShort.value;
      view.value = null;
    }

    const tools = () => html`
      ${shortened().isShorter && html`<button type="button" class="button small" aria-pressed=${String(isShort.value)} onClick=${shorten}>${t("execution.shorten")}</button>`}
      ${hasMore(spans()) && html`
        <${Tabs}
          items=${["run", "all"].map((key) => ({ key, text: t(`execution.scope.${key}`) }))}
          chosen=${view.value === null ? scope.value : ""}
          label=${t("execution.scope")}
          onChoose=${chooseScope}
        />
      `}
      ${view.value !== null && html`<button type="button" class="button bare" onClick=${() => (view.value = null)}>${t("execution.whole")}</button>`}
      <${ActionButton} bare icon="dash" text=${t("execution.zoomOut")} run=${() => zoom(1 / ZOOM)}/>
      <${ActionButton} bare icon="plus" text=${t("execution.zoomIn")} run=${() => zoom(ZOOM)}/>
    `;

    const rowOf = (row, index) => html`
      <${WaterfallRow}
        key=${row.key}
        row=${row}
        view=${seen()}
        warp=${warp()}
        origin=${originOf(props.execution)}
        isLive=${row.to === null && isLive(props.execution)}
        isChosen=${row.key === props.chosen}
        isAt=${at.value === index}
        onChoose=${() => {
          at.value = index;
          props.onChoose(row.key === props.chosen ? null : row.key);
        }}
        onFit=${() => fitRow(row)}
      />
    `;

    return () => html`
      <${Panel} title=${t("execution.timeline")} flush>${{
        actions: tools,
        default: () => html`
          <table class="waterfall">
            <thead>
              <tr>
                <th scope="col">${t("execution.what")}</th>
                <th scope="col">${t("execution.status")}</th>
                <th scope="col" class="right">${t("execution.start")}</th>
                <th scope="col" class="right">${t("execution.took")}</th>
                <th scope="col" class="axis"><span class="unseen">${t("execution.timeline")}</span><${Axis} view=${seen()} warp=${warp()} origin=${originOf(props.execution)} zone=${props.zone} drag=${drag}/></th>
              </tr>
            </thead>
            <tbody>${props.rows.slice(0, limit.value).map(rowOf)}</tbody>
          </table>
          ${props.rows.length > limit.value && html`
            <button type="button" class="button rest" onClick=${() => (limit.value += 4 * SHOWN_ROWS)}>${t("code.more", { count: props.rows.length - limit.value })}</button>
          `}
        `,
      }}<//>
    `;
  },
};

/** The moment from which starts are counted: the execution's own, else the planned one. */
export function originOf(execution) {
  return Date.parse(execution.startedAt ?? execution.plannedAt);
}

/** The ticks over the bars; a part that is drawn with the mouse is looked at more closely. */
function Axis({ view, warp, origin, zone, drag }) {
  const mark = drag.mark();
  return html`
    <div class="ticks" aria-hidden="true" onPointerdown=${(event) => drag.begin(event, view)}>
      ${ticksFor(view, warp, origin).map(
        ({ at, left }) => html`<span key=${at} class="tick" style=${{ left: `${left}%` }} title=${formatMoment(at, { zone, withMs: true })}>${offsetText(at - origin)}</span>`,
      )}
      ${mark && html`<span class="drawn" style=${{ left: `${mark.left}%`, width: `${mark.width}%` }}></span>`}
    </div>
  `;
}

Axis.props = ["view", "warp", "origin", "zone", "drag"];

/** Ticks as `{at, left}`: where work goes on after a wait that is drawn short, and at round distances where there is room. */
function ticksFor(view, warp, origin) {
  const begins = warp.gaps.map((gap) => gap.to).filter((at) => warp.to(at) > view.from && warp.to(at) < view.to);
  const round = ticksOf(view, warp.to(origin)).map((x) => Math.round(warp.back(x)));
  const ticks = [];
  for (const at of [origin, ...begins, ...round.filter((one) => !warp.gaps.some((gap) => one > gap.from && one < gap.to))]) {
    const left = placeIn(view, warp.to(at));
    if (left < LAST_TICK && warp.to(at) >= view.from && ticks.every((tick) => Math.abs(tick.left - left) > TICK_ROOM)) ticks.push({ at, left });
  }
  return ticks;
}

const WaterfallRow = {
  props: { row: Object, view: Object, warp: Object, origin: Number, isLive: Boolean, isChosen: Boolean, isAt: Boolean, onChoose: Function, onFit: Function },
  setup(props) {
    return () => {
      const { row, view } = props;
      const { text, mono } = nameOfRow(row);
      return html`
        <tr class=${[`kind-${row.kind}`, { chosen: props.isChosen }]} aria-current=${props.isAt ? "true" : undefined} onDblclick=${props.onFit}>
          <th scope="row" class=${`depth-${row.depth}`}>
            <button type="button" aria-expanded=${String(props.isChosen)} onClick=${props.onChoose}>
              <span class=${["mark", row.tone]} aria-hidden="true"></span><span>${text}</span>${mono && html`<span class="mono cut" title=${mono}>${mono}</span>`}
            </button>
          </th>
          <td class=${["status", `ink-${row.tone}`]}>${statusOfRow(row)}</td>
          <td class="right number dim">${offsetText(row.from - props.origin)}</td>
          <td class="right number">${tookOf(row)}</td>
          <td class="track" aria-hidden="true" onClick=${props.onChoose}>
            <div class="lane">${row.bars.map((bar, index) => barOf(bar, index, props))}</div>
          </td>
        </tr>
      `;
    };
  },
};

/** How long a row took; of a notification only where it has arrived. */
function tookOf(row) {
  if (row.kind === "notification" && row.notification.state !== "delivered") return "";
  return formatDuration((row.to ?? Math.max(now.value, row.from)) - row.from);
}

function barOf(bar, index, { view, warp, isLive: isGrowing }) {
  const end = bar.to ?? Math.max(now.value, bar.from);
  const [first, last] = [warp.to(bar.from), warp.to(end)];
  if (last < view.from || first > view.to) return null;
  const left = placeIn(view, first);
  const width = placeIn(view, last) - left;
  const isBroken = warp.gaps.some((gap) => bar.from <= gap.from && end >= gap.to);
  const classes = ["span", bar.kind, bar.tone, { growing: isGrowing && bar.to === null, broken: isBroken, before: first < view.from, after: last > view.to }];
  const text = bar.words === undefined ? "" : t(bar.words, { time: formatDuration(end - bar.from) });
  return html`<span key=${index} class=${classes} title=${text || undefined} style=${{ left: `${left}%`, width: `${width}%` }}>${width > LABELLED && text && html`<span class="words">${text}</span>`}</span>`;
}

/** A distance from the start: 0 ms, 1.5 s, −20 ms. */
function offsetText(ms) {
  return ms === 0 ? "0" : formatDuration(ms);
}

function fitAll({ from, to }) {
  return fit(from, to, { from: -Infinity, to: Infinity });
}

function hasMore({ run, all }) {
  const span = run.to - run.from;
  return all.from < run.from - 0.02 * span || all.to > run.to + 0.02 * span;
}

/** A part of the axis that is drawn with the pointer: `onDrawn(from, to)` in ms. */
function useDrag(onDrawn) {
  const drawn = ref(null);

  function begin(event, view) {
    if (event.button !== 0) return;
    const box = event.currentTarget.getBoundingClientRect();
    const share = (x) => Math.min(1, Math.max(0, (x - box.left) / box.width));
    const first = share(event.clientX);
    const move = (moved) => (drawn.value = { from: Math.min(first, share(moved.clientX)), to: Math.max(first, share(moved.clientX)) });
    const end = () => {
      removeEventListener("pointermove", move);
      const { from, to } = drawn.value ?? { from: 0, to: 0 };
      drawn.value = null;
      const at = (part) => view.from + part * (view.to - view.from);
      if ((to - from) * box.width >= DRAG_PX) onDrawn(at(from), at(to));
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end, { once: true });
    event.preventDefault();
  }

  const mark = () => drawn.value && { left: 100 * drawn.value.from, width: 100 * (drawn.value.to - drawn.value.from) };
  return { begin, mark };
}
