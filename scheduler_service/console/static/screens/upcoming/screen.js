// Upcoming: what is planned, in order of time, by hour.

import { EmptyState, Loaded, Moment, PageHead, Pager, Panel, formatDay, formatMoment, html, linkTo, pushQuery, route, t, useListing } from "../../core.js";

const SPANS = ["1", "6", "24", "168"];
const HOUR_MS = 3_600_000;

/** `#/upcoming`. */
export const Screen = {
  setup() {
    const listing = useListing("upcoming", () => ({ from: route.query.from, to: endOf(route.query), jobId: route.query.jobId, perJob: route.query.perJob }), { limit: 100, live: false });
    return () => html`
      <${PageHead} title=${t("upcoming.title")}>
        <select aria-label=${t("upcoming.span")} class="auto" value=${route.query.hours ?? "24"} onChange=${(event) => pushQuery({ hours: event.target.value })}>
          ${SPANS.map((hours) => html`<option key=${hours} value=${hours}>${t("upcoming.hours", { count: hours })}</option>`)}
        </select>
        <label class="check"><input type="checkbox" checked=${route.query.perJob === "1"} onChange=${(event) => pushQuery({ perJob: event.target.checked ? "1" : null })}/>${t("upcoming.onceEach")}</label>
      <//>
      <${Loaded} resource=${listing.resource}>${{
        default: () => (listing.items.value.length === 0 ? html`<${EmptyState} icon="calendar" title=${t("upcoming.none")} text=${t("upcoming.noneText")}/>` : hours(listing.items.value)),
      }}<//>
      <${Pager} page=${listing.page.value} hasNext=${listing.hasNext.value} onBack=${listing.back} onNext=${listing.next}/>
    `;
  },
};

function hours(items) {
  const byHour = new Map();
  for (const one of items) {
    const hour = Math.floor(new Date(one.plannedAt).getTime() / HOUR_MS) * HOUR_MS;
    byHour.set(hour, [...(byHour.get(hour) ?? []), one]);
  }
  return [...byHour].map(
    ([hour, firings]) => html`
      <${Panel} key=${hour} flush title=${`${formatDay(hour)} · ${formatMoment(hour, { withDate: false }).slice(0, 5)}`}>${{
        actions: () => html`<span class="dim">${t("upcoming.count", { count: firings.length })}</span>`,
        default: () => html`
          <table class="table">
            <thead class="unseen"><tr><th scope="col">${t("upcoming.at")}</th><th scope="col">${t("jobs.name")}</th><th scope="col">${t("jobs.timer")}</th><th scope="col">${t("jobs.next")}</th></tr></thead>
            <tbody>${firings.map((one) => html`<${FiringRow} key=${`${one.jobId} ${one.plannedAt}`} firing=${one}/>`)}</tbody>
          </table>
        `,
      }}<//>
    `,
  );
}

function FiringRow({ firing }) {
  return html`
    <tr>
      <td class="narrow number">${formatMoment(firing.plannedAt, { withDate: false })}</td>
      <td><a class="name" href=${linkTo("jobs", firing.jobId)}>${firing.jobName}</a> ${firing.jobName !== firing.jobId && html`<span class="dim mono">${firing.jobId}</span>`}</td>
      <td class="dim narrow">${t(`kind.${firing.kind}`)}</td>
      <td class="narrow right"><${Moment} at=${firing.plannedAt}/></td>
    </tr>
  `;
}

FiringRow.props = ["firing"];

function endOf(query) {
  const start = query.from === undefined ? Math.floor(Date.now() / 60_000) * 60_000 : new Date(query.from).getTime();
  return query.to ?? new Date(start + Number(query.hours ?? 24) * HOUR_MS).toISOString();
}
