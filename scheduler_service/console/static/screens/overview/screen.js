// The overview: how it goes, what needs attention, what comes.

import { EmptyState, Loaded, PageHead, Panel, StackedBars, endOfSeries, html, may, navigate, placeOf, pushQuery, route, t, useResource, useShown } from "../../core.js";
import { Attention } from "./attention.js";
import { Errors } from "./errors.js";
import { Figures } from "./figures.js";
import { NextHour } from "./next_hour.js";

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
const SPANS = [1, 6, 24, 168];
const BUCKETS = 60;

/** `#/`, `?hours=` chooses the span of the figures. */
export const Screen = {
  setup() {
    const hours = () => Number(route.query.hours ?? 24);
    // A key for a part of a tenant sees counts of its own jobs alone.
    const stats = useResource(() => ({ path: may("viewer", "tenant") ? "stats" : "counts/executions" }), { live: true });
    // What costs more, or fills what is there already, does not delay the figures.
    const isBegun = useShown(() => stats.data !== null || stats.error !== null);
    const then = (path, query) => (isBegun.value ? { path, query } : null);
    const nodes = useResource(() => (may("viewer", "platform") ? then("nodes") : null), { live: true });
    const executions = useResource(() => then("counts/executions", { from: startOf(hours()) }), { live: true, keeps: true });
    const series = useResource(() => then("series/executions", { from: startOf(hours()), buckets: BUCKETS }), { live: true, keeps: true });
    const jobs = useResource(() => then("counts/jobs"), { live: true });
    const services = useResource(() => (may("viewer", "service") ? then("services", { limit: 500 }) : null), { live: true });
    return () => html`
      <${PageHead} title=${t("overview.title")}>
        <select class="auto" aria-label=${t("overview.span")} value=${String(hours())} onChange=${(event) => pushQuery({ hours: event.target.value })}>
          ${SPANS.map((span) => html`<option key=${span} value=${span}>${span > 24 ? t("overview.lastDays", { count: span / 24 }) : t("overview.lastHours", { count: span })}</option>`)}
        </select>
      <//>
      <${Loaded} resource=${stats}>${{
        default: (data) => html`<${Figures} now=${data.lateness === undefined ? nowOf(data) : data} nodes=${nodes.data} executions=${executions.data} services=${services.data} hours=${hours()}/>`,
      }}<//>
      ${jobs.data?.total.value === 0 && first()}
      ${isBegun.value && panels(jobs, series, executions, services, startOf(hours()))}
    `;
  },
};

/** What `GET /stats` says of a whole tenant, of the counts of a part. */
function nowOf({ byState }) {
  return { running: byState.processing, waiting: byState.enqueued };
}

function panels(jobs, series, executions, services, from) {
  return html`
    <${Panel} title=${t("overview.series")}>
      <${Loaded} resource=${series}>${{
        default: (data) => html`<${StackedBars} buckets=${data.buckets} to=${endOfSeries(data)} label=${t("overview.series")} onChoose=${(span) => navigate(placeOf("/executions", { from: span.from, to: span.to }))}/>`,
      }}<//>
    <//>
    <div class="panels">
      <${Attention} jobs=${jobs.data} services=${services.data}/>
      <${Panel} title=${t("overview.errors")} flush>
        <${Loaded} resource=${executions}>${{ default: (data) => html`<${Errors} counts=${data} from=${from}/>` }}<//>
      <//>
    </div>
    <${NextHour}/>
  `;
}

function first() {
  return html`
    <${Panel}>
      <${EmptyState} icon="jobs" title=${t("jobs.first")} text=${t("jobs.firstText")}>
        ${may("editor") && html`<a class="button primary" href="#/new?example=1">${t("overview.firstJob")}</a>`}
      <//>
    <//>
  `;
}

/** The begin of the span, at a full minute: the same question for a minute. */
function startOf(hours) {
  return new Date(Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS - hours * HOUR_MS).toISOString();
}
