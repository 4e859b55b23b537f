// The next hour of firings as a strip of minutes.

import { Panel, SmallBars, formatMoment, formatNumber, html, now, t, useResource } from "../../core.js";

const STRIP_MINUTE_MS = 60_000;
const MINUTES = 60;
const MOST = 500;

/** How many firings each of the coming sixty minutes has; at most the first 500 firings are counted, and that is said. */
export const NextHour = {
  setup() {
    const begin = () => Math.floor(now.value / STRIP_MINUTE_MS) * STRIP_MINUTE_MS;
    const planned = useResource(() => ({ path: "upcoming", query: { to: new Date(begin() + MINUTES * STRIP_MINUTE_MS).toISOString(), limit: MOST } }), { keeps: true });
    return () => {
      const counts = countsOf(planned.data?.items ?? [], begin());
      const total = planned.data?.items.length ?? 0;
      const shown = planned.data?.nextCursor ? `${formatNumber(MOST)}+` : formatNumber(total);
      return html`
        <${Panel} title=${t("overview.nextHour")}>${{
          actions: () => html`<a href="#/upcoming?hours=1">${t("overview.planned", { count: shown })}</a>`,
          default: () => html`
            <${SmallBars}
              values=${counts}
              words=${(index) => t("overview.inMinute", { time: formatMoment(begin() + index * STRIP_MINUTE_MS, { withDate: false }).slice(0, 5), count: counts[index] })}
              marks=${marksOf(begin())}
              label=${t("overview.nextHour")}
              tone="busy"
            />
          `,
        }}<//>
      `;
    };
  },
};

function countsOf(items, begin) {
  const counts = Array.from({ length: MINUTES }, () => 0);
  for (const one of items) {
    const index = Math.floor((new Date(one.plannedAt).getTime() - begin) / STRIP_MINUTE_MS);
    if (index >= 0 && index < MINUTES) counts[index] += 1;
  }
  return counts;
}

function marksOf(begin) {
  const marks = {};
  for (let index = 0; index < MINUTES; index += 10) marks[index] = formatMoment(begin + index * STRIP_MINUTE_MS, { withDate: false }).slice(0, 5);
  return marks;
}
