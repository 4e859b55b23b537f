// The list of jobs: searched, filtered, chosen, and acted upon.

import {
  BulkReport,
  EmptyState,
  Icon,
  Loaded,
  PageHead,
  Pager,
  Panel,
  SearchField,
  behind,
  formatNumber,
  html,
  linkTo,
  may,
  navigate,
  ref,
  reloadWith,
  replaceQuery,
  route,
  t,
  useBulk,
  useGradually,
  useListing,
  useResource,
  useSelection,
} from "../../core.js";
import { JobsBulk } from "./bulk.js";
import { Filters, filtersOf, hasFilters } from "./filters.js";
import { ImportDialog } from "./import_dialog.js";
import { JobRow } from "./row.js";

const COUNTED_EVERY_MS = 15_000;
const ROW_PIXELS = 40;

/** `#/jobs`. */
export const Screen = {
  setup() {
    const listing = useListing("jobs", () => ({ ...filtersOf(route.query), sort: route.query.sort, timers: true }));
    const counts = useResource(() => behind(listing, { path: "counts/jobs", query: filtersOf(route.query) }), { keeps: true });
    // It reads all jobs that fit: with ten thousand of them that is too much for each second.
    reloadWith(() => listing.resource.loadedAt, counts, COUNTED_EVERY_MS);
    const outcomes = useResource(() => behind(listing, outcomesOf(listing.items.value)), { live: true, keeps: true });
    const selection = useSelection(
      () => listing.items.value.map((job) => job.jobId),
      (jobId) => navigate(linkTo("jobs", jobId)),
    );
    const rows = useGradually(() => listing.items.value, ROW_PIXELS);
    const isImporting = ref(false);
    const bulk = useBulk("bulk/jobs", () => {
      listing.resource.reload();
      counts.reload();
    });
    return () => html`
      <${PageHead} title=${t("jobs.title")} count=${listing.resource.error === null ? countOf(counts.data) : undefined}>
        <${SearchField} label=${t("jobs.search")} value=${route.query.text} onChange=${(text) => replaceQuery({ text })}/>
        ${may("editor") && html`<button type="button" class="button" onClick=${() => (isImporting.value = true)}><${Icon} name="upload" size=${14}/>${t("import.open")}</button>`}
        ${may("editor") && html`<a class="button primary" href="#/new"><${Icon} name="plus" size=${14}/>${t("jobs.new")}</a>`}
      <//>
      <${Filters} counts=${counts.data}/>
      ${selection.chosen.size > 0 && html`<${JobsBulk} selection=${selection} bulk=${bulk} filter=${filtersOf(route.query)} total=${counts.data?.total ?? null}/>`}
      <${BulkReport} bulk=${bulk}/>
      <${Loaded} resource=${listing.resource} lines=${12}>${{
        default: () => (listing.items.value.length === 0 ? nothing() : table(listing, rows.value, selection, outcomes.data)),
      }}<//>
      <${Pager} page=${listing.page.value} hasNext=${listing.hasNext.value} onBack=${listing.back} onNext=${listing.next}/>
      ${isImporting.value && html`<${ImportDialog} onClose=${() => (isImporting.value = false)} onDone=${listing.resource.reload}/>`}
    `;
  },
};

function table(listing, rows, selection, outcomes) {
  const byJob = new Map((outcomes?.items ?? []).map((one) => [one.jobId, one.executions]));
  return html`
    <${Panel} flush class="jobs">
      <table class="table cards">
        <thead>
          <tr>
            <th class="narrow" data-label=${t("jobs.chooseAll")}><${ChooseAll} jobs=${listing.items.value} selection=${selection}/></th>
            ${sortable("jobName", t("jobs.name"))}
            <th>${t("jobs.state")}</th>
            <th>${t("jobs.outcomes")}</th>
            <th>${t("jobs.timer")}</th>
            ${sortable("nextFireTime", t("jobs.next"))}
            <th>${t("jobs.creator")}</th>
            <th><span class="unseen">${t("jobs.actions")}</span></th>
          </tr>
        </thead>
        <tbody>
          ${rows.map(
            (job, index) => html`
              <${JobRow}
                key=${job.jobId}
                job=${job}
                outcomes=${byJob.get(job.jobId)}
                selection=${selection}
                isAt=${selection.at === index}
                onDone=${listing.resource.reload}
              />
            `,
          )}
        </tbody>
      </table>
    <//>
  `;
}

/** The choice of all rows; apart, so that a choice in one row does not draw the table again. */
function ChooseAll({ jobs, selection }) {
  const isAll = jobs.every((job) => selection.chosen.has(job.jobId));
  return html`<input type="checkbox" aria-label=${t("jobs.chooseAll")} checked=${isAll} onChange=${selection.toggleAll}/>`;
}

ChooseAll.props = ["jobs", "selection"];

function sortable(name, text) {
  const present = route.query.sort ?? "jobId";
  const next = present === name ? `-${name}` : name;
  const order = { [name]: "ascending", [`-${name}`]: "descending" }[present];
  return html`
    <th aria-sort=${order}>
      <button type="button" class="sort" onClick=${() => replaceQuery({ sort: next })}>${text}${order && html`<span aria-hidden="true">${order === "ascending" ? "↑" : "↓"}</span>`}</button>
    </th>
  `;
}

function nothing() {
  if (hasFilters(route.query)) {
    return html`<${EmptyState} icon="search" title=${t("jobs.none")} text=${t("jobs.noneText")}><a class="button" href="#/jobs">${t("jobs.clear")}</a><//>`;
  }
  return html`
    <${EmptyState} icon="jobs" title=${t("jobs.first")} text=${t("jobs.firstText")}>
      ${may("editor") && html`<a class="button primary" href="#/new">${t("jobs.new")}</a>`}
    <//>
  `;
}

function outcomesOf(jobs) {
  return jobs.length === 0 ? null : { path: "outcomes", query: { jobId: jobs.map((job) => job.jobId), count: 20 } };
}

function countOf(counts) {
  if (counts === null) return undefined;
  return formatNumber(counts.total.value) + (counts.total.isCapped ? "+" : "");
}
