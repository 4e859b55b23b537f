// Upcoming: what is planned, in order of time: a panel for each day, a part of its table for each hour.

import {
  EmptyState,
  Loaded,
  Moment,
  PageHead,
  Pager,
  Panel,
  formatDay,
  formatMoment,
  html,
  linkTo,
  offsetOf,
  pushQuery,
  route,
  t,
  useListing,
  zoneOf,
} from "../../core.js";

const SPANS = ["1", "6", "24", "168"];
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const FEW_IN_HOUR = 2;

/** `#/upcoming`. */
export const Screen = {
  setup() {
    const listing = useListing("upcoming", () => ({ from: route.query.from, to: endOf(route.query), jobId: route.query.jobId, perJob: route.query.perJob }), { limit: 100, live: false });
    return () => html`
      <${PageHead} title=${t("upcoming.title")}>
        <select aria-label=${t("upcoming.span")} class="auto" value=${route.query.hours ?? "24"} onChange=${(event) => pushQuery({ hours: event.target.value })}>
          ${SPANS.map((hours) => html`<option key=${hours} value=${hours}>${hours > 24 ? t("upcoming.days", { count: hours / 24 }) : t("upcoming.hours", { count: hours })}</option>`)}
        </select>
        <label class="check"><input type="checkbox" checked=${route.query.perJob === "1"} onChange=${(event) => pushQuery({ perJob: event.target.checked ? "1" : null })}/>${t("upcoming.onceEach")}</label>
      <//>
      <${Loaded} resource=${listing.resource}>${{
        default: () => (listing.items.value.length === 0 ? html`<${EmptyState} icon="calendar" title=${t("upcoming.none")} text=${t("upcoming.noneText")}/>` : daysOf(listing)),
      }}<//>
      <${Pager} page=${listing.page.value} hasNext=${listing.hasNext.value} onBack=${listing.back} onNext=${listing.next}/>
    `;
  },
};

function daysOf(listing) {
  const hours = hoursOf(listing.items.value);
  const last = listing.hasNext.value ? hours.at(-1) : null;
  return [...Map.groupBy(hours, (hour) => hour.day)].map(
    ([day, ofDay]) => html`
      <${Panel} key=${day} flush class="day-panel" title=${formatDay(ofDay[0].firings[0].plannedAt)}>${{
        actions: () => html`<span class="dim">${countOf(ofDay.flatMap((hour) => hour.firings), ofDay.includes(last))}</span>`,
        default: () => html`
          <table class="table cards">
            <thead class="unseen"><tr><th scope="col">${t("upcoming.at")}</th><th scope="col">${t("jobs.name")}</th><th scope="col">${t("jobs.next")}</th></tr></thead>
            ${ofDay.map((hour) => hourPart(hour, { isNamed: isCrowded(ofDay), goesOn: hour === last }))}
          </table>
        `,
      }}<//>
    `,
  );
}

/** Whether a day has so many firings that its hours need heads. */
function isCrowded(hours) {
  return hours.reduce((sum, hour) => sum + hour.firings.length, 0) > FEW_IN_HOUR * hours.length;
}

function hourPart({ key, firings }, { isNamed, goesOn }) {
  return html`
    <tbody key=${key}>
      ${isNamed && html`<tr class="hour"><th scope="rowgroup" colspan="3">${formatMoment(firings[0].plannedAt, { withDate: false }).slice(0, 3)}00 <span class="dim">${countOf(firings, goesOn)}</span></th></tr>`}
      ${firings.map((one) => html`<${FiringRow} key=${`${one.jobId} ${one.plannedAt}`} firing=${one}/>`)}
    </tbody>
  `;
}

/** How many firings; with a plus where the next page goes on with them. */
function countOf({ length }, goesOn) {
  return t("upcoming.count", { count: `${length}${goesOn ? "+" : ""}` });
}

/** Firings by the hours of the zone that the reader has chosen: `{key, day, firings}`. The hour that a clock change repeats is there twice. */
function hoursOf(items) {
  const zone = zoneOf();
  const hours = new Map();
  for (const one of items) {
    const at = new Date(one.plannedAt).getTime();
    const offset = offsetOf(at, zone);
    const key = `${Math.floor((at + offset) / HOUR_MS)} ${offset}`;
    if (!hours.has(key)) hours.set(key, { key, day: Math.floor((at + offset) / DAY_MS), firings: [] });
    hours.get(key).firings.push(one);
  }
  return [...hours.values()];
}

function FiringRow({ firing }) {
  return html`
    <tr>
      <td class="narrow number">${formatMoment(firing.plannedAt, { withDate: false })}</td>
      <td><a class="name" href=${linkTo("jobs", firing.jobId)}>${firing.jobName}</a> ${firing.jobName !== firing.jobId && html`<span class="dim mono">${firing.jobId}</span>`} <span class="dim">${t(`kind.${firing.kind}`)}</span></td>
      <td class="narrow right"><${Moment} at=${firing.plannedAt}/></td>
    </tr>
  `;
}

FiringRow.props = ["firing"];

function endOf(query) {
  const start = query.from === undefined ? Math.floor(Date.now() / 60_000) * 60_000 : new Date(query.from).getTime();
  return query.to ?? new Date(start + Number(query.hours ?? 24) * HOUR_MS).toISOString();
}
