// One execution in the list.

import {
  ActionButton,
  Duration,
  Moment,
  StateBadge,
  attempt,
  formatDuration,
  formatNumber,
  html,
  linkTo,
  may,
  now,
  pathOf,
  post,
  reasonText,
  showUnseen,
  t,
  triggerText,
} from "../../core.js";

const LIVE = new Set(["processing", "failed"]);
const OPEN = new Set(["scheduled", "enqueued", ...LIVE]);
// A second late is what the ledger calls late.
const LATE_MS = 1_000;

/** A row: `execution` as the API has it; a component, so that a choice in one row draws only that one again. */
export const ExecutionRow = {
  props: { execution: Object, isChosen: Boolean, isAt: Boolean, isGone: Boolean, onChoose: Function, onDone: Function },
  setup(props) {
    return () => {
      const { execution } = props;
      const id = execution.executionId;
      return html`
        <tr class=${{ gone: props.isGone }} title=${props.isGone ? t("executions.gone") : undefined} aria-current=${props.isAt ? "true" : undefined}>
          <td class="narrow">
            <input type="checkbox" aria-label=${t("executions.choose", { name: nameOf(execution) })} checked=${props.isChosen} onChange=${props.onChoose}/>
          </td>
          <td class="narrow"><${StateBadge} state=${execution.state}/></td>
          <td class="execution-name">
            <a class="name" href=${linkTo("executions", id)}>${execution.jobId} <span class="number">#${formatNumber(execution.executeNumber)}</span></a>
          </td>
          <td class="execution-why">${whyOf(execution)}</td>
          <td data-label=${t("executions.planned")}><${Moment} at=${execution.plannedAt}/></td>
          <td class="right" data-label=${t("executions.late")}>${latenessOf(execution)}</td>
          <td class="right" data-label=${t("executions.took")}>${tookOf(execution)}</td>
          <td class="right number" data-label=${t("executions.attempts")}>${execution.attemptCount || html`<span class="dim">–</span>`}</td>
          <td class="dim narrow" data-label=${t("executions.by")}>${triggerText(execution)}</td>
          <td class="narrow right">${may("operator") && actionOf(execution, props.onDone)}</td>
        </tr>
      `;
    };
  },
};

/** The name by which people know an execution: its job and number. */
export function nameOf(execution) {
  return `${execution.jobId} #${execution.executeNumber}`;
}

function whyOf({ error, message, reason, progress, progressFraction, state }) {
  if (LIVE.has(state) && progressFraction !== null) {
    return html`<progress max="1" value=${progressFraction} aria-label=${t("executions.progress")}></progress> <span class="dim number">${progress}</span>`;
  }
  const words = message ? "" : reasonText(reason);
  return html`
    ${error !== null && html`<a class="mono error-code" href=${`#/executions?error=${encodeURIComponent(error)}`}>${showUnseen(error)}</a>`}
    ${message && html`<span title=${message}>${message}</span> `}
    ${words && html`<span class="dim" title=${words}>${words}</span>`}
  `;
}

function latenessOf({ latenessMs, triggeredBy }) {
  if (latenessMs === null || triggeredBy !== "timer") return html`<span class="dim">–</span>`;
  return html`<span class=${["number", { late: latenessMs > LATE_MS }]}>${formatDuration(latenessMs)}</span>`;
}

function tookOf({ startedAt, endedAt }) {
  if (startedAt === null) return html`<span class="dim">–</span>`;
  const end = endedAt === null ? Math.max(now.value, Date.parse(startedAt)) : Date.parse(endedAt);
  return html`<${Duration} ms=${end - Date.parse(startedAt)}/>`;
}

function actionOf(execution, onDone) {
  const name = nameOf(execution);
  const path = pathOf("executions", execution.executionId);
  if (OPEN.has(execution.state)) {
    const cancel = () => attempt(() => post(`${path}/cancel`, {}), t("executions.cancelled", { name }));
    return html`<${ActionButton} bare icon="stop" text=${t("action.stopOne", { name })} run=${() => cancel().then(onDone)}/>`;
  }
  const replay = () => attempt(() => post(`${path}/replay`, {}), t("executions.replayed", { name }));
  return html`<${ActionButton} bare icon="retry" text=${t("action.replayOne", { name })} run=${() => replay().then(onDone)}/>`;
}
