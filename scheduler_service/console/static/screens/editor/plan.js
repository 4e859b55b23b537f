// The retries that policies lead to, as a time line for each error: attempts as points, waits as lengths; the service plans them.

import { formatDuration, h, html, t, useSoft } from "../../core.js";

const WIDTH = 640;
const HEIGHT = 46;
const EDGE = 10;
const LABEL_ROOM = 52;
/** What else a definition needs, so that policies can be planned while other members still have errors. */
const REST = { jobId: "plan", jobName: "plan", creator: "plan", creatorName: "plan", request: [{ url: "service://plan/" }] };

/** The plans of `retry` with `maxRetries`. */
export const Plan = {
  props: { retry: Array, maxRetries: null },
  setup(props) {
    const body = () => ({ ...REST, retry: props.retry, maxRetries: props.maxRetries });
    const checked = useSoft(() => ({ path: "definitions/check", body: body() }));
    return () => {
      const plans = checked.data?.retryPlans ?? [];
      return checked.problem === null && html`<div class=${["plans", { busy: checked.isBusy }]}>${plans.map((plan) => html`<${PlanLine} key=${plan.policy} plan=${plan}/>`)}</div>`;
    };
  },
};

function PlanLine({ plan }) {
  const { items } = plan;
  const total = items.at(-1)?.afterMs ?? 0;
  const title = t("editor.planOf", { error: plan.error, count: items.length, time: formatDuration(total) });
  return html`
    <figure class="plan">
      <figcaption><span class="mono">${plan.errors.join(", ")}</span> <span class="dim">${title}</span></figcaption>
      ${items.length > 0 && drawing(items, total, title)}
      ${items.length > 0 && html`
        <details class="more">
          <summary>${t("editor.planTable")}</summary>
          <table class="table small">
            <thead><tr><th>${t("editor.planRetry")}</th><th>${t("editor.planWait")}</th><th>${t("editor.planAfter")}</th></tr></thead>
            <tbody>${items.map((one) => html`
              <tr key=${one.retry}><td>${one.retry}</td><td class="number">${waitOf(one)}</td><td class="number">${formatDuration(one.afterMs)}</td></tr>
            `)}</tbody>
          </table>
        </details>
      `}
    </figure>
  `;
}

PlanLine.props = ["plan"];

function drawing(items, total, title) {
  const x = (ms) => EDGE + (total === 0 ? 0 : (ms / total) * (WIDTH - 2 * EDGE));
  const waits = items.map((one) => h("line", { class: ["wait", { jitter: one.jitter === "full" }], x1: x(one.afterMs - one.waitMs), x2: x(one.afterMs), y1: 16, y2: 16, key: `w${one.retry}` }));
  const points = [0, ...items.map((one) => one.afterMs)].map((ms, index) => h("circle", { cx: x(ms), cy: 16, r: 5, class: index === 0 ? "first" : "", key: `p${index}` }));
  return h("svg", { class: "plan-line", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title }, [...waits, ...points, ...labels(items, x)]);
}

/** The moments of retries that have room for their text, from the last one backwards: it says how long all takes. */
function labels(items, x) {
  let free = WIDTH + LABEL_ROOM;
  const shown = [{ afterMs: 0 }, ...items].toReversed().filter(({ afterMs }) => {
    const hasRoom = x(afterMs) <= free - LABEL_ROOM;
    if (hasRoom) free = x(afterMs);
    return hasRoom;
  });
  return shown.map(({ afterMs }) => {
    const anchor = x(afterMs) > WIDTH - LABEL_ROOM ? "end" : x(afterMs) < LABEL_ROOM / 2 ? "start" : "middle";
    const place = anchor === "end" ? WIDTH : anchor === "start" ? 0 : x(afterMs);
    return h("text", { x: place, y: 40, "text-anchor": anchor, key: `t${afterMs}` }, afterMs === 0 ? "0" : formatDuration(afterMs));
  });
}

function waitOf({ waitMs, jitter }) {
  return jitter === "full" ? `0 – ${formatDuration(waitMs)}` : formatDuration(waitMs);
}
