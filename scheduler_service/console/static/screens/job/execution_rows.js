// Executions of a job as rows.

import { DataTable, Duration, EmptyState, Moment, StateBadge, formatDuration, html, linkTo, reasonText, t, triggerText } from "../../core.js";

const SHOWN_LATENESS = 1_000;

/** A table of executions as the API lists them; a text where there is none. */
export function executionTable(items, label) {
  if (items.length === 0) return html`<${EmptyState} icon="executions" title=${t("job.noExecutions")} text=${t("job.noExecutionsText")}/>`;
  return html`<${DataTable} columns=${columnsOf()} rows=${items} keyOf=${(one) => one.executionId} label=${label}/>`;
}

function columnsOf() {
  return [
    { key: "number", text: "#", kind: "narrow", cell: (one) => html`<a class="name number" href=${linkTo("executions", one.executionId)}>${one.executeNumber}</a>` },
    { key: "state", text: t("jobs.state"), cell: (one) => html`<${StateBadge} state=${one.state}/>` },
    { key: "planned", text: t("job.planned"), cell: (one) => html`<${Moment} at=${one.plannedAt} absolute/>${latenessOf(one)}` },
    { key: "duration", text: t("job.duration"), kind: "right", cell: (one) => html`<${Duration} ms=${durationOf(one)}/>` },
    { key: "attempts", text: t("job.attempts"), kind: "right", cell: (one) => html`<span class="number">${one.attemptCount}</span>` },
    { key: "by", text: t("job.triggeredBy"), cell: (one) => triggerText(one) },
    { key: "error", text: t("job.error"), cell: (one) => errorOf(one) },
  ];
}

function durationOf({ startedAt, endedAt }) {
  return startedAt === null || endedAt === null ? null : new Date(endedAt).getTime() - new Date(startedAt).getTime();
}

function latenessOf({ latenessMs }) {
  if (latenessMs === null || latenessMs < SHOWN_LATENESS) return null;
  return html` <span class="job-late">${t("job.late", { time: formatDuration(latenessMs) })}</span>`;
}

function errorOf({ error, message, reason }) {
  if (error === null) return reason === null ? null : html`<span class="dim job-why">${reasonText(reason)}</span>`;
  return html`<span class="job-error">${error}</span>${message && html` <span class="dim cut job-message" title=${message}>${message}</span>`}`;
}
