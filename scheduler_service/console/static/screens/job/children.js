// The jobs that executions of this job created, and how their newest executions went.

import { DataTable, EmptyState, Loaded, Moment, NumberFilter, Pager, Panel, StateBadge, html, linkTo, may, pushQuery, route, showUnseen, t, useListing } from "../../core.js";
import { executionTable } from "./execution_rows.js";

/** All children, or those of one execution (`?execution=`) with their newest executions. */
export const ChildrenTab = {
  props: { job: Object, preview: Object, etag: String, onDone: Function },
  setup(props) {
    const own = props.job.jobId;
    const listing = useListing("jobs", () => ({ parentJob: own, parentJobExecution: route.query.execution, state: ["active", "paused", "finished"].includes(route.query.state) ? route.query.state : null }));
    const latest = useListing("main/getChildJobLogs", () => (route.query.execution && may("viewer", "tenant") ? { parentJobId: own, execution: route.query.execution } : null), { live: false });
    return () => html`
      <div class="filters">
        <${NumberFilter} value=${route.query.execution} label=${t("job.ofExecution")} onChoose=${(execution) => pushQuery({ execution })}/>
      </div>
      <${Panel} flush>
        <${Loaded} resource=${listing.resource} lines=${4}>${{
          default: () => (listing.items.value.length === 0
            ? html`<${EmptyState} icon="jobs" title=${t("job.noChildren")} text=${t("job.noChildrenText")}/>`
            : html`<${DataTable} columns=${columnsOfChildren()} rows=${listing.items.value} keyOf=${(one) => one.jobId} label=${t("job.children")}/>`),
        }}<//>
      <//>
      <${Pager} page=${listing.page.value} hasNext=${listing.hasNext.value} onBack=${listing.back} onNext=${listing.next}/>
      ${route.query.execution && latest.resource.data && html`
        <${Panel} title=${t("job.childExecutions")} flush>${executionTable(latest.items.value, t("job.childExecutions"))}<//>
        <${Pager} page=${latest.page.value} hasNext=${latest.hasNext.value} onBack=${latest.back} onNext=${latest.next}/>
      `}
    `;
  },
};

function columnsOfChildren() {
  return [
    { key: "name", text: t("jobs.name"), cell: (one) => html`<a class="name" href=${linkTo("jobs", one.jobId)}>${showUnseen(one.jobName)}</a>` },
    { key: "state", text: t("jobs.state"), cell: (one) => html`<${StateBadge} state=${one.state}/>` },
    { key: "latest", text: t("job.last"), cell: (one) => one.latestExecution && html`<a href=${linkTo("executions", one.latestExecution.executionId)}><${StateBadge} state=${one.latestExecution.state}/></a>` },
    { key: "execution", text: t("job.ofExecution"), kind: "right", cell: (one) => html`<span class="number">${one.parentJobExecution}</span>` },
    { key: "created", text: t("job.created"), cell: (one) => html`<${Moment} at=${one.createdAt}/>` },
  ];
}
