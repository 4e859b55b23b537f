// The executions of all jobs: by state, by error, filtered, chosen, and acted upon.

import {
  ArrivalsButton,
  BulkReport,
  EmptyState,
  Loaded,
  PageHead,
  Pager,
  Panel,
  behind,
  computed,
  formatNumber,
  html,
  linkTo,
  navigate,
  pushQuery,
  ref,
  route,
  t,
  useArrivals,
  useBulk,
  useGradually,
  useListing,
  useResource,
  useSelection,
  watch,
} from "../../core.js";
import { ExecutionsBulk } from "./bulk.js";
import { ErrorGroups } from "./errors.js";
import { Filters, filtersOf, hasFilters } from "./filters.js";
import { ExecutionRow } from "./row.js";

const FAILED_SHOWN = 25;
const ROW_PIXELS = 34;
// Counts look at many rows: they are asked for more rarely than the rows that are shown.
const COUNTED_MS = 4_000;

/** `#/executions`. */
export const Screen = {
  setup() {
    // A span that ends now begins at the same moment until another one is chosen, so that pages and rows stay.
    const since = ref(Date.now());
    watch(() => route.query.range, () => (since.value = Date.now()));
    const filters = () => filtersOf(route.query, since.value);
    const listing = useListing("executions", filters);
    const counts = useResource(() => behind(listing, { path: "counts/executions", query: { ...filters(), state: null } }), { live: true, keeps: true, least: COUNTED_MS });
    const failed = useResource(() => (isFailedFirst() ? { path: "executions", query: { ...filters(), state: "terminated", limit: FAILED_SHOWN } } : null), { live: true, keeps: true });
    const latest = computed(() => mergeFailed(listing, failed));
    const arrivals = useArrivals(() => latest.value, keyOf, () => JSON.stringify([filters(), listing.page.value, isFailedFirst()]));
    const rows = useGradually(() => arrivals.rows.value, ROW_PIXELS);
    const selection = useSelection(
      () => arrivals.rows.value.map(keyOf),
      (id) => navigate(linkTo("executions", id)),
    );
    const reload = () => Promise.all([listing.resource.reload(), counts.reload()]);
    const bulk = useBulk("bulk/executions", reload);
    return () => html`
      <${PageHead} title=${t("executions.title")} count=${listing.resource.error === null ? countText(totalOf(counts.data)) : undefined}>
        ${toggle("first", "failed", isFailedFirst(), t("executions.failedFirst"))}
        ${toggle("group", "error", isGrouped(), t("executions.groupByError"))}
      <//>
      <${Filters} counts=${counts.data}/>
      ${isGrouped() && counts.data !== null && html`<div class="error-groups"><${ErrorGroups} groups=${counts.data.byError}/></div>`}
      ${selection.chosen.size > 0 && html`<${ExecutionsBulk} selection=${selection} bulk=${bulk} filter=${filters()} total=${totalOf(counts.data)}/>`}
      <${BulkReport} bulk=${bulk}/>
      <${ArrivalsButton} arrivals=${arrivals}/>
      <${Loaded} resource=${listing.resource} lines=${12}>${{
        default: () => (arrivals.rows.value.length === 0 ? nothing() : table(arrivals, rows.value, selection, reload)),
      }}<//>
      <${Pager} page=${listing.page.value} hasNext=${listing.hasNext.value} onBack=${listing.back} onNext=${listing.next}/>
    `;
  },
};

function table(arrivals, rows, selection, reload) {
  return html`
    <${Panel} flush class="executions">
      <table class="table cards">
        <thead>
          <tr>
            <th class="narrow" data-label=${t("executions.chooseAll")}>
              <input type="checkbox" aria-label=${t("executions.chooseAll")} checked=${arrivals.rows.value.every((one) => selection.chosen.has(keyOf(one)))} onChange=${selection.toggleAll}/>
            </th>
            <th>${t("executions.state")}</th>
            <th>${t("executions.job")}</th>
            <th>${t("executions.why")}</th>
            <th>${t("executions.planned")}</th>
            <th class="right">${t("executions.late")}</th>
            <th class="right">${t("executions.took")}</th>
            <th class="right">${t("executions.attempts")}</th>
            <th>${t("executions.by")}</th>
            <th><span class="unseen">${t("executions.actions")}</span></th>
          </tr>
        </thead>
        <tbody>
          ${rows.map(
            (one, index) => html`
              <${ExecutionRow}
                key=${keyOf(one)}
                execution=${one}
                isChosen=${selection.chosen.has(keyOf(one))}
                isAt=${selection.at === index}
                isGone=${arrivals.gone.value.has(keyOf(one))}
                onChoose=${() => selection.toggle(keyOf(one))}
                onDone=${reload}
              />
            `,
          )}
        </tbody>
      </table>
    <//>
  `;
}

function toggle(name, value, isOn, text) {
  return html`<button type="button" class="button" aria-pressed=${String(isOn)} onClick=${() => pushQuery({ [name]: isOn ? null : value })}>${text}</button>`;
}

function nothing() {
  if (hasFilters(route.query)) {
    return html`<${EmptyState} icon="search" title=${t("executions.none")} text=${t("executions.noneText")}><a class="button" href="#/executions">${t("executions.all")}</a><//>`;
  }
  return html`<${EmptyState} icon="executions" title=${t("executions.first")} text=${t("executions.firstText")}><a class="button" href="#/jobs">${t("jobs.title")}</a><//>`;
}

/** The rows of the latest answers, the failed ones first where that is wanted; null while an answer is waited for. */
function mergeFailed(listing, failed) {
  if (listing.resource.data === null) return null;
  if (!isFailedFirst() || listing.page.value > 1) return listing.items.value;
  if (failed.data === null) return failed.error === null ? null : listing.items.value;
  return [...failed.data.items, ...listing.items.value.filter((one) => one.state !== "terminated")];
}

function keyOf(execution) {
  return execution.executionId;
}

function isFailedFirst() {
  return route.query.first === "failed" && route.query.state === undefined;
}

function isGrouped() {
  return route.query.group === "error";
}

/** How many the filters find with their state: `{value, isCapped}`, or null while that is not known. */
function totalOf(counts) {
  if (counts === null) return null;
  const { state } = route.query;
  return state === undefined ? counts.total : { value: counts.byState[state] ?? 0, isCapped: counts.total.isCapped };
}

function countText(total) {
  return total === null ? undefined : formatNumber(total.value) + (total.isCapped ? "+" : "");
}
