// The executions of one job, filtered.

import { Loaded, Pager, Panel, Tabs, html, pushQuery, replaceQuery, route, t, useListing } from "../../core.js";
import { executionTable } from "./execution_rows.js";

const OUTCOMES = ["failed", "succeeded", "cancelled", "skipped"];
const TRIGGERS = ["timer", "manual", "replay", "trial", "backfill"];

/** The list; its filters stand in the address. */
export const ExecutionsTab = {
  props: { job: Object, preview: Object, etag: String, onDone: Function },
  setup(props) {
    const listing = useListing("executions", () => ({ jobId: props.job.jobId, ...filtersOf(route.query) }));
    return () => html`
      ${filters()}
      <${Panel} flush>
        <${Loaded} resource=${listing.resource} lines=${12}>${{ default: () => executionTable(listing.items.value, t("job.executions")) }}<//>
      <//>
      <${Pager} page=${listing.page.value} hasNext=${listing.hasNext.value} onBack=${listing.back} onNext=${listing.next}/>
    `;
  },
};

function filtersOf({ outcome, state, error, triggeredBy, from, to }) {
  return { outcome, state, error, triggeredBy, from, to };
}

function filters() {
  const { outcome, error, triggeredBy, from, to } = route.query;
  const items = [{ key: "", text: t("jobs.all") }, ...OUTCOMES.map((one) => ({ key: one, text: t(`job.outcome.${one}`) }))];
  return html`
    <div class="filters">
      <${Tabs} items=${items} chosen=${outcome ?? ""} label=${t("job.outcome")} onChoose=${(value) => pushQuery({ outcome: value })}/>
      <select aria-label=${t("job.triggeredBy")} value=${triggeredBy ?? ""} onChange=${(event) => pushQuery({ triggeredBy: event.target.value })}>
        <option value="">${t("job.anyTrigger")}</option>
        ${TRIGGERS.map((one) => html`<option key=${one} value=${one}>${t(`triggeredBy.${one}`)}</option>`)}
      </select>
      <input class="short" aria-label=${t("job.error")} placeholder=${t("job.error")} value=${error ?? ""} onInput=${(event) => replaceQuery({ error: event.target.value })}/>
      ${(from || to) && html`<button type="button" class="label" onClick=${() => pushQuery({ from: null, to: null })}>${t("job.span", { from: momentText(from), to: momentText(to) })} ×</button>`}
    </div>
  `;
}

function momentText(moment) {
  return moment === undefined ? "…" : moment.slice(0, 16).replace("T", " ");
}
