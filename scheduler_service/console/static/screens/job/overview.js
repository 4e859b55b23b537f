// How a job stands: figures, last outcomes, executions and durations over time, what comes next.

import {
  Facts,
  Labels,
  LineChart,
  Loaded,
  Moment,
  OutcomeBars,
  Panel,
  StackedBars,
  Tabs,
  endOfSeries,
  formatNumber,
  html,
  linkTo,
  navigate,
  now,
  pathOf,
  placeOf,
  pushQuery,
  reloadWith,
  route,
  t,
  useResource,
  useShown,
} from "../../core.js";
import { JobFigures } from "./figures.js";
import { executionTable } from "./execution_rows.js";
import { comingList } from "./schedule.js";

const MINUTE = 60_000;
const SHOWN_STEPS = 3;
const DAY = 24 * 60 * MINUTE;
const RANGES = { "1h": 60 * MINUTE, "24h": DAY, "7d": 7 * DAY, "30d": 30 * DAY };

/** The part that is shown first; `latest` is the resource of the job's latest executions. */
export const OverviewTab = {
  props: { job: Object, preview: Object, latest: Object, etag: String, onDone: Function },
  setup(props) {
    const { latest } = props;
    const own = { jobId: props.job.jobId };
    const path = pathOf("jobs", own.jobId);
    // Charts do not delay the rows.
    const isShown = useShown(() => latest.data !== null || latest.error !== null);
    const then = (path, query) => (isShown.value ? { path, query } : null);
    const statistics = useResource(() => then(`${path}/statistics`));
    const outcomes = useResource(() => then("outcomes", { ...own, count: 50 }));
    const series = useResource(() => then("series/executions", { ...own, from: momentBefore(RANGES[rangeOf()]), buckets: 60 }), { keeps: true });
    const moved = () => [props.job.latestExecution, props.job.executeNumber, props.job.requestCounts];
    for (const [resource, pause] of [[outcomes, 1_000], [latest, 1_000], [statistics, 5_000], [series, 10_000]]) reloadWith(moved, resource, pause);
    return () => html`
      ${factsOf(props.job)}
      <${JobFigures} job=${props.job} statistics=${statistics.data}/>
      <div class="job-columns">
        <div>
          <${Panel} title=${t("job.latest")} flush>${{
            actions: () => html`<a href=${placeOf(route.path, { tab: "executions" })}>${t("job.allExecutions")}</a>`,
            default: () => html`<${Loaded} resource=${latest} lines=${4}>${{ default: (data) => executionTable(data.items, t("job.latest")) }}<//>`,
          }}<//>
          <${Panel} title=${t("job.overTime")}>${{ actions: () => html`<${RangeTabs}/>`, default: () => html`<${Loaded} resource=${series} lines=${6}>${{ default: charts }}<//>` }}<//>
        </div>
        <div>
          <${Panel} title=${t("job.outcomes")}><${OutcomeBars} items=${outcomes.data?.items[0]?.executions ?? []} slots=${50}/><//>
          <${Panel} title=${t("job.coming")}>${comingList(props.preview.data, props.job)}<//>
        </div>
      </div>
    `;
  },
};

/** Which time the charts show. */
function RangeTabs() {
  const items = Object.keys(RANGES).map((key) => ({ key, text: t(`job.range.${key}`) }));
  return html`<${Tabs} items=${items} chosen=${rangeOf()} label=${t("job.range")} onChoose=${(range) => pushQuery({ range })}/>`;
}

function charts(data) {
  if (data.buckets.every(isEmpty)) return html`<p class="dim">${t("job.noneInTime")}</p>`;
  const lines = [
    { key: "p50", text: t("job.p50"), tone: "busy" },
    { key: "p95", text: t("job.p95"), tone: "wait", isDashed: true },
  ];
  return html`
    ${data.isCapped && html`<p class="dim">${t("job.capped")}</p>`}
    <${StackedBars} buckets=${data.buckets} to=${endOfSeries(data)} label=${t("job.byState")} onChoose=${toExecutions}/>
    <h3 class="chart-title">${t("job.durations")}</h3>
    <${LineChart} points=${pointsOf(data)} lines=${lines} label=${t("job.durations")} height=${140} onChoose=${toExecutions}/>
  `;
}

function isEmpty({ byState }) {
  return Object.values(byState).every((count) => count === 0);
}

function pointsOf(series) {
  const { buckets } = series;
  return buckets.map((bucket, index) => {
    const end = buckets[index + 1]?.from ?? endOfSeries(series);
    return { from: bucket.from, to: end, values: bucket.durationMs ?? {}, last: new Date(new Date(end).getTime() - 1).toISOString() };
  });
}

function toExecutions({ from, to, last }) {
  navigate(placeOf(route.path, { tab: "executions", from, to: last ?? to }));
}

function rangeOf() {
  return route.query.range in RANGES ? route.query.range : "24h";
}

// A full minute, so that the question stays the same for as long.
function momentBefore(length) {
  return new Date(Math.floor((now.value - length) / MINUTE) * MINUTE).toISOString();
}

/** By whom it is and where to, before any figure; id and timer stand in the head. */
function factsOf(job) {
  const { definition } = job;
  const parent = job.parentJob && html`<a href=${linkTo("jobs", job.parentJob)}>${job.parentJob}</a>${job.parentJobExecution !== null && ` #${job.parentJobExecution}`}`;
  const creator = [...new Set([job.creator, definition.creatorName])].filter(Boolean).join(" · ");
  return html`
    <section class="panel job-facts" aria-label=${t("job.facts")}><${Facts} items=${[
      [t("jobs.creator"), creator || null],
      [t("job.labels"), Object.keys(job.labels).length > 0 && html`<${Labels} labels=${job.labels} linked/>`],
      [t("job.steps"), listOfSteps(definition.request ?? [])],
      [t("job.description"), definition.jobDescription || null],
      [t("job.object"), job.objectId],
      [t("job.parent"), parent],
      [t("job.attempts"), formatNumber(job.requestCounts)],
      [t("job.created"), html`<${Moment} at=${job.createdAt} absolute/>`],
      [t("job.updated"), job.updatedAt !== job.createdAt && html`<${Moment} at=${job.updatedAt} absolute/>`],
    ]}/></section>
  `;
}

function listOfSteps(steps) {
  const rest = steps.length - SHOWN_STEPS;
  return html`
    <ol class="job-steps">
      ${steps.slice(0, SHOWN_STEPS).map((one, index) => html`<li key=${index} class="mono cut" title=${one.url}>${one.method ?? "POST"} ${one.url}</li>`)}
      ${rest > 0 && html`<li class="dim">${t("code.more", { count: rest })}</li>`}
    </ol>
  `;
}
