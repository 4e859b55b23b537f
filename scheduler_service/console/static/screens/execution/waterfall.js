// The waterfall: a table whose last column is a time axis. Those who do not see the bars have its other columns.

import { ActionButton, Panel, Tabs, html, nextTick, ref, t, useKeys } from "../../core.js";
import { Axis, useDrag } from "./axis.js";
import { isLive } from "./rows.js";
import { useSpan } from "./span.js";
import { WaterfallRow } from "./waterfall_row.js";

const ZOOM = 0.5;
const PAN = 0.25;
const SHOWN_ROWS = 120;

/**
 * The waterfall of `execution`: `rows` (of rowsOf), `chosen` (the key of the row that is open), `onChoose(key)` (null: close), `zone` of the job. Keys: j
 * and k move, Enter opens, + and - zoom, h and l move the span, f fits the row, 0 shows the whole.
 */
export const Waterfall = {
  props: { execution: Object, rows: Array, chosen: String, onChoose: Function, zone: String },
  setup(props) {
    const span = useSpan(props);
    const drag = useDrag(span.show);
    const at = ref(-1);
    const limit = ref(SHOWN_ROWS);
    useWaterfallKeys(props, span, at, limit);
    const rowOf = (row, index) => html`
      <${WaterfallRow}
        key=${row.key}
        row=${row}
        view=${span.seen()}
        warp=${span.warp()}
        origin=${originOf(props.execution)}
        isLive=${row.to === null && isLive(props.execution)}
        isChosen=${row.key === props.chosen}
        isAt=${at.value === index}
        onChoose=${() => {
          at.value = index;
          props.onChoose(row.key === props.chosen ? null : row.key);
        }}
        onFit=${() => span.fitRow(row)}
      />
    `;
    return () => html`
      <${Panel} title=${t("execution.timeline")} flush>${{
        actions: () => tools(span),
        default: () => props.rows.length === 0 ? html`<p class="dim nothing">${t(nothingText(props.execution))}</p>` : html`
          <table class="waterfall">
            <thead>
              <tr>
                <th scope="col">${t("execution.what")}</th>
                <th scope="col">${t("execution.status")}</th>
                <th scope="col" class="right">${t("execution.start")}</th>
                <th scope="col" class="right">${t("execution.took")}</th>
                <th scope="col" class="axis">${axisOf(props, span, drag)}</th>
              </tr>
            </thead>
            <tbody>${props.rows.slice(0, limit.value).map(rowOf)}</tbody>
          </table>
          ${rest(props.rows.length - limit.value, () => (limit.value += 4 * SHOWN_ROWS))}
        `,
      }}<//>
    `;
  },
};

function useWaterfallKeys(props, span, at, limit) {
  const present = () => props.rows[at.value] ?? props.rows.find((row) => row.key === props.chosen);

  async function move(step) {
    at.value = Math.min(Math.max(at.value + step, 0), Math.min(props.rows.length, limit.value) - 1);
    await nextTick();
    document.querySelector(".waterfall tr[aria-current=true] button")?.focus();
  }

  useKeys([
    { keys: "j", text: "keys.next", run: () => move(1) },
    { keys: "k", text: "keys.previous", run: () => move(-1) },
    { keys: "+", text: "execution.zoomIn", run: () => span.zoom(ZOOM) },
    { keys: "-", text: "execution.zoomOut", run: () => span.zoom(1 / ZOOM) },
    { keys: "h", text: "execution.earlier", run: () => span.pan(-PAN) },
    { keys: "l", text: "execution.later", run: () => span.pan(PAN) },
    { keys: "f", text: "execution.fit", run: () => span.fitRow(present()) },
    { keys: "0", text: "execution.whole", run: span.reset },
  ]);
}

function tools(span) {
  const scopes = ["run", "all"].map((key) => ({ key, text: t(`execution.scope.${key}`) }));
  return html`
    ${span.canShorten() && html`<button type="button" class="button small" aria-pressed=${String(span.isShort.value)} onClick=${span.shorten}>${t("execution.shorten")}</button>`}
    ${span.hasMore() && html`<${Tabs} items=${scopes} chosen=${span.isWhole() ? span.scope.value : ""} label=${t("execution.scope")} onChoose=${span.choose}/>`}
    ${!span.isWhole() && html`<button type="button" class="button small" onClick=${span.reset}>${t("execution.whole")}</button>`}
    <${ActionButton} bare icon="dash" text=${t("execution.zoomOut")} run=${() => span.zoom(1 / ZOOM)}/>
    <${ActionButton} bare icon="plus" text=${t("execution.zoomIn")} run=${() => span.zoom(ZOOM)}/>
  `;
}

function axisOf({ execution, zone }, span, drag) {
  return html`
    <span class="unseen">${t("execution.timeline")}</span>
    <${Axis} view=${span.seen()} warp=${span.warp()} origin=${originOf(execution)} zone=${zone} drag=${drag}/>
  `;
}

function rest(count, onMore) {
  if (count <= 0) return null;
  return html`<button type="button" class="button rest" onClick=${onMore}>${t("code.more", { count })}</button>`;
}

/** Why there is no row. */
function nothingText({ state, startedAt }) {
  if (state === "scheduled") return "execution.notBegun";
  return startedAt === null ? "execution.neverBegun" : "execution.notKept";
}

/** The moment from which starts are counted: the execution's own, else the planned one. */
function originOf(execution) {
  return Date.parse(execution.startedAt ?? execution.plannedAt);
}
