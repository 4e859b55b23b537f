// The next hour of firings as a strip of minutes.

import { Panel, SmallBars, formatMoment, formatNumber, html, now, t, useResource } from "../../core.js";

const STRIP_MINUTE_MS = 60_000;
const MINUTES = 60;

/** How many firings each of the coming sixty minutes has; where there are more than the service counts, that is said. */
export const NextHour = {
  setup() {
    const begin = () => Math.floor(now.value / STRIP_MINUTE_MS) * STRIP_MINUTE_MS;
    const planned = useResource(() => ({ path: "counts/upcoming", query: { from: new Date(begin()).toISOString(), buckets: MINUTES } }), { keeps: true });
    return () => {
      const counts = planned.data?.counts ?? Array.from({ length: MINUTES }, () => 0);
      const total = planned.data?.total;
      const shown = `${formatNumber(total?.value ?? 0)}${total?.isCapped ? "+" : ""}`;
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

function marksOf(begin) {
  const marks = {};
  for (let index = 0; index < MINUTES; index += 10) marks[index] = formatMoment(begin + index * STRIP_MINUTE_MS, { withDate: false }).slice(0, 5);
  return marks;
}
