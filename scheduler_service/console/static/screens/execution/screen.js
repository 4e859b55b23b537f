// One execution: its head, its waterfall, each request and response, its log, and the comparison with one that succeeded.

import { JsonView, Loaded, NumberFilter, Tabs, computed, html, navigate, pathOf, pushQuery, ref, replacePlace, replaceQuery, route, t, useKeys, useResource, watch } from "../../core.js";
import { ExecutionActions } from "./actions.js";
import { ComparisonView } from "./comparison.js";
import { RowDetail } from "./detail.js";
import { ExecutionHead, besides } from "./head.js";
import { LogView } from "./log.js";
import { ResultView } from "./result.js";
import { failingRow, rowsOf } from "./rows.js";
import { Waterfall } from "./waterfall.js";

const TABS = ["log", "compare", "params", "result"];

/** `#/executions/:executionId`. */
export const Screen = {
  props: { executionId: String },
  setup(props) {
    const resource = useResource(() => ({ path: pathOf("executions", props.executionId), query: { requestCounts: attemptAlone() } }), { live: true });
    const jobId = computed(() => resource.data?.jobId ?? null);
    const job = useResource(() => (jobId.value === null ? null : { path: pathOf("jobs", jobId.value) }));
    const replayFrom = ref(null);
    const neighbours = computed(() => neighboursOf(props.executionId, job.data));
    const chain = computed(() => chainOf(job.data, resource.data));
    const rows = computed(() => (resource.data === null ? [] : rowsOf(resource.data, chain.value, isPart(resource.data))));

    // `job#last` is the name of one for a moment only.
    watch(() => resource.data?.executionId, (id) => id !== undefined && id !== props.executionId && replacePlace(besides(id)));
    const go = (id) => id !== null && navigate(besides(id));
    useKeys([
      { keys: "[", text: "execution.before", run: () => go(neighbours.value.before) },
      { keys: "]", text: "execution.after", run: () => go(neighbours.value.after) },
      { keys: "Escape", text: "execution.closeDetail", run: () => replaceQuery({ at: "none" }) },
    ]);

    const parts = (execution) => {
      const zone = job.data?.definition?.timer?.timezone;
      const row = chosenRow(rows.value, execution);
      const replay = (step) => (replayFrom.value = step);
      const isJobGone = job.error?.status === 404;
      return html`
        <${ExecutionHead} execution=${execution} job=${job.data} neighbours=${neighbours.value}>
          <${ExecutionActions} execution=${execution} isJobGone=${isJobGone} stepCount=${stepCount(chain.value, execution)} replayFrom=${replayFrom.value} onReplayFrom=${replay} onDone=${resource.reload}/>
        <//>
        ${execution.detail === "brief" && html`<p class="note">${t("execution.brief")}</p>`}
        ${execution.detail === "dropped" && html`<p class="note">${t("execution.dropped")}</p>`}
        ${isPart(execution) && partNote(execution)}
        <div class=${["split", { open: row !== null }]}>
          <${Waterfall} execution=${execution} rows=${rows.value} chosen=${row?.key} zone=${zone} onChoose=${(key) => replaceQuery({ at: key ?? "none" })}/>
          ${row && html`<${RowDetail} key=${row.key} row=${row} zone=${zone} onReplay=${isJobGone ? null : replay} onClose=${() => replaceQuery({ at: "none" })}/>`}
          ${lower(execution, zone)}
        </div>
      `;
    };

    return () => html`<${Loaded} resource=${resource} lines=${10}>${{ default: parts }}<//>`;
  },
};

/** The `requestCounts` of the attempt that the address asks for alone, or null. */
function attemptAlone() {
  return /^\d{1,15}$/.test(route.query.attempt ?? "") ? route.query.attempt : null;
}

/** Whether there may be attempts that are not in the answer: then they cannot be counted. */
function isPart(execution) {
  return execution.detail === "partial" || attemptAlone() !== null;
}

function partNote(execution) {
  return html`
    <p class="note">
      ${execution.detail === "partial" && t("execution.partial")}
      <${NumberFilter} value=${attemptAlone() ?? ""} label=${t("execution.attemptAlone")} onChoose=${(attempt) => pushQuery({ attempt })}/>
    </p>
  `;
}

function lower(execution, zone) {
  const tabs = execution.result === null ? TABS.filter((key) => key !== "result") : TABS;
  const tab = tabs.includes(route.query.tab) ? route.query.tab : tabs[0];
  const views = {
    log: () => html`<${LogView} executionId=${execution.executionId} attempts=${isPart(execution) ? null : execution.attempts} zone=${zone}/>`,
    compare: () => html`<${ComparisonView} execution=${execution}/>`,
    params: () => html`
      ${!execution.paramsComplete && html`<p class="note">${t("execution.paramsCut")}</p>`}
      <${JsonView} value=${execution.params} label=${t("execution.params")}/>
    `,
    result: () => html`<${ResultView} execution=${execution}/>`,
  };
  return html`
    <section class="panel lower">
      <div class="panel-head">
        <${Tabs} items=${tabs.map((key) => ({ key, text: t(`execution.tab.${key}`) }))} chosen=${tab} label=${t("execution.more")} onChoose=${(key) => pushQuery({ tab: key })}/>
      </div>
      <div class="panel-body" key=${tab}>${views[tab]()}</div>
    </section>
  `;
}

/** The row that is open: that of the address; else, of one that failed for good, what made it fail; else none. */
function chosenRow(rows, execution) {
  const wanted = route.query.at;
  if (wanted === undefined) return execution.state === "terminated" ? failingRow(rows) : null;
  return rows.find((row) => row.key === wanted) ?? null;
}

/** The executions before and after in the job's count; whether they are still kept only asking tells. */
function neighboursOf(executionId, job) {
  const [, uid, digits] = /^(.*)-(\d+)$/.exec(executionId) ?? [];
  if (uid === undefined) return { before: null, after: null };
  const number = Number(digits);
  const isLast = job === null || number >= job.executeNumber;
  return { before: number > 1 ? `${uid}-${number - 1}` : null, after: isLast ? null : `${uid}-${number + 1}` };
}

/** What the definition says of the chain, where it is the one with which the execution started. */
function chainOf(job, execution) {
  const definition = job?.definition;
  if (definition === undefined || execution === null || job.revision !== execution.revision) return null;
  return { steps: definition.request ?? [], isAsync: definition.async === true, hasCheck: Boolean(definition.checkUrl) };
}

function stepCount(chain, execution) {
  const seen = execution.attempts.flatMap((attempt) => attempt.steps.map((step) => step.index + 1));
  return Math.max(chain?.steps.length ?? 0, ...seen, 1);
}
