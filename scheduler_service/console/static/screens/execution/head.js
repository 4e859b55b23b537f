// The head of an execution: what it is, how it stands, and why.

import { Duration, Facts, Icon, Moment, PageHead, StateBadge, copy, formatDuration, formatNumber, html, linkTo, now, placeOf, reasonText, route, showUnseen, t, triggerText } from "../../core.js";
import { isLive } from "./rows.js";
import { msOf } from "./times.js";
import { shortUrl } from "./words.js";

const SHOWN_MESSAGE = 600;

/** The head: `execution`, `job` (null while it is not known), `neighbours` (`{before, after}`, ids or null); the slot has the buttons. */
export function ExecutionHead({ execution, job, neighbours }, { slots }) {
  const name = job?.jobName ?? execution.jobId;
  return html`
    <nav class="crumbs" aria-label=${t("execution.where")}>
      <a href="#/executions">${t("executions.title")}</a><span aria-hidden="true">/</span><a href=${linkTo("jobs", execution.jobId)}>${showUnseen(name)}</a>
      <span class="grow"></span>
      <button type="button" class="id-copy mono" title=${t("execution.copyId")} onClick=${() => copy(execution.executionId)}>${execution.executionId}</button>
      ${neighbour(neighbours.before, "execution.before", "[")}
      ${neighbour(neighbours.after, "execution.after", "]")}
    </nav>
    <${PageHead} title=${html`${showUnseen(name)} <span class="number light">#${formatNumber(execution.executeNumber)}</span>`}>${{
      marks: () => html`<${StateBadge} state=${execution.state}/>`,
      default: slots.default,
    }}<//>
    ${verdict(execution)}
    ${isLive(execution) && execution.progressFraction !== null && html`
      <div class="progress-line"><progress max="1" value=${execution.progressFraction} aria-label=${t("executions.progress")}></progress><span class="number">${execution.progress}</span></div>
    `}
    <section class="panel facts-panel"><${Facts} items=${factsOf(execution, job)}/></section>
  `;
}

ExecutionHead.props = ["execution", "job", "neighbours"];

function neighbour(id, text, key) {
  if (id === null) return html`<span class="button bare off" aria-hidden="true">${key === "[" ? "‹" : "›"}</span>`;
  return html`<a class="button bare" href=${besides(id)} aria-label=${t(text)} title=${`${t(text)} (${key})`}>${key === "[" ? "‹" : "›"}</a>`;
}

/** The link to another execution of the job, with the same part of it open. */
export function besides(id) {
  return placeOf(`/executions/${encodeURIComponent(id)}`, { tab: route.query.tab });
}

/** Why it ended so, in words: the error, the answer that made it, the reason of the end. */
function verdict(execution) {
  const { state, error, reason } = execution;
  if (error === null && reason === null) return null;
  const tone = state === "terminated" ? "bad" : state === "failed" ? "warn" : "quiet";
  const last = execution.attempts.at(-1);
  const step = last?.steps.findLast((one) => one.error !== null);
  const message = last?.message ?? "";
  return html`
    <div class=${["verdict", tone]} role="note">
      <${Icon} name=${tone === "quiet" ? "clock" : "alert"}/>
      <div>
        <p>${error !== null && html`<strong class="mono">${showUnseen(error)}</strong> `}${showUnseen(message.slice(0, SHOWN_MESSAGE))}${step && html` <span class="dim">${t("execution.atStep", { number: step.index + 1, name: `${step.method} ${shortUrl(step.url)}` })}</span>`}</p>
        ${reason !== null && html`<p class="dim">${reasonText(reason)}</p>`}
      </div>
    </div>
  `;
}

function factsOf(execution, job) {
  const zone = job?.definition?.timer?.timezone;
  const end = msOf(execution.endedAt) ?? now.value;
  const isOld = job !== null && job.revision !== execution.revision;
  const compared = isOld ? { before: execution.revision, after: job.revision } : {};
  const revision = placeOf(`/jobs/${encodeURIComponent(execution.jobId)}`, { tab: "definition", ...compared });
  return [
    [t("execution.planned"), html`<${Moment} at=${execution.plannedAt} zone=${zone} absolute withMs/>${execution.state === "scheduled" && html` <span class="dim"><${Moment} at=${execution.plannedAt} zone=${zone}/></span>`}`],
    [t("execution.started"), html`<${Moment} at=${execution.startedAt} zone=${zone} absolute withMs/> ${lateness(execution)}`],
    [t("execution.took"), execution.startedAt && html`<${Duration} ms=${Math.max(0, end - msOf(execution.startedAt))}/>`],
    [t("execution.attempts"), execution.attemptCount > 0 && formatNumber(execution.attemptCount)],
    [t("execution.by"), triggerText(execution)],
    [t("execution.revision"), html`<a href=${revision}>${formatNumber(execution.revision)}</a>${isOld && html` <span class="dim">${t("execution.nowRevision", { number: formatNumber(job.revision) })}</span>`}`],
    [t("execution.failureType"), execution.failureType],
    [t("execution.progress"), execution.progress && showUnseen(execution.progress)],
  ];
}

function lateness({ latenessMs, triggeredBy }) {
  if (latenessMs === null || triggeredBy !== "timer") return "";
  return html`<span class="dim">${t("execution.lateBy", { time: formatDuration(latenessMs) })}</span>`;
}
