// The time axis over the bars: ticks, and a part that is drawn with the pointer to look at it closely.

import { formatDuration, formatMoment, html, ref } from "../../core.js";
import { placeIn, ticksOf } from "./scale.js";

const DRAG_PX = 6;
// Percentages of the axis: no tick after this, and this far from each other.
const LAST_TICK = 91;
const TICK_ROOM = 20;

/** The axis: `view`, `warp`, `origin` (ms, the moment called 0), `zone`, `drag` (of useDrag). */
export function Axis({ view, warp, origin, zone, drag }) {
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

/** A distance from the start: 0, 20 ms, 1.5 s. */
export function offsetText(ms) {
  return ms === 0 ? "0" : formatDuration(ms);
}

/** Drawing a part of the axis with the pointer: `onDrawn({from, to})`, on the axis. */
export function useDrag(onDrawn) {
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
      if ((to - from) * box.width >= DRAG_PX) onDrawn({ from: at(from), to: at(to) });
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end, { once: true });
    event.preventDefault();
  }

  const mark = () => drawn.value && { left: 100 * drawn.value.from, width: 100 * (drawn.value.to - drawn.value.from) };
  return { begin, mark };
}

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
