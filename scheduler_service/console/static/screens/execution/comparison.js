// This execution beside the last one of its job that succeeded.

import { EmptyState, Loaded, ScrollArea, formatDuration, formatNumber, html, linkTo, pathOf, showUnseen, t, useResource } from "../../core.js";
import { compareExecutions } from "./differences.js";
import { shortUrl } from "./words.js";

const SHOWN_VALUE = 300;

/** The comparison of `execution` (in full) with the last other one that succeeded. */
export const ComparisonView = {
  props: { execution: Object },
  setup(props) {
    const list = useResource(() => ({ path: `${pathOf("jobs", props.execution.jobId)}/executions`, query: { outcome: "succeeded", limit: 2 } }));
    const pastId = () => list.data?.items.find((one) => one.executionId !== props.execution.executionId)?.executionId ?? null;
    const past = useResource(() => (pastId() === null ? null : { path: pathOf("executions", pastId()) }));
    return () => html`
      <${Loaded} resource=${list} lines=${4}>${{
        default: () => {
          if (pastId() === null) return html`<${EmptyState} icon="executions" title=${t("execution.noPast")} text=${t("execution.noPastText")}/>`;
          return html`<${Loaded} resource=${past} lines=${4}>${{ default: () => comparison(props.execution, past.data) }}<//>`;
        },
      }}<//>
    `;
  },
};

function comparison(present, past) {
  const { steps, total } = compareExecutions(present, past);
  const longest = Math.max(1, ...steps.flatMap((step) => [step.present?.durationMs ?? 0, step.past?.durationMs ?? 0]));
  return html`
    <${ScrollArea} label=${t("execution.compare")}>
      <table class="table comparison">
        <caption class="unseen">${t("execution.compare")}</caption>
        <thead>
          <tr>
            <th scope="col">${t("execution.step")}</th>
            <th scope="col">${t("execution.this", { number: formatNumber(present.executeNumber) })}</th>
            <th scope="col"><a href=${linkTo("executions", past.executionId)}>${t("execution.past", { number: formatNumber(past.executeNumber) })}</a></th>
            <th scope="col">${t("execution.difference")}</th>
          </tr>
        </thead>
        <tbody>
          ${steps.map((step) => stepLine(step, longest))}
          <tr class="total">
            <th scope="row">${t("execution.total")}</th>
            <td class="number">${formatDuration(total.present)}</td>
            <td class="number">${formatDuration(total.past)}</td>
            <td>${t("execution.attemptsBoth", { present: present.attemptCount, past: past.attemptCount })}${present.revision !== past.revision && html` · ${t("execution.revisionsDiffer", { present: present.revision, past: past.revision })}`}</td>
          </tr>
        </tbody>
      </table>
    <//>
  `;
}

function stepLine(step, longest) {
  const given = step.present ?? step.past;
  return html`
    <tr key=${step.index}>
      <th scope="row">${step.index + 1} <span class="mono dim">${given.method} ${shortUrl(given.url)}</span></th>
      <td>${side(step.present, longest)}</td>
      <td>${side(step.past, longest)}</td>
      <td>${differenceOf(step)}</td>
    </tr>
  `;
}

function side(step, longest) {
  if (step === null) return html`<span class="dim">${t("execution.notReached")}</span>`;
  const tone = step.error === null ? "good" : "bad";
  return html`
    <span class=${["status", `ink-${tone}`]}>${step.status ?? t("execution.noAnswer")}</span>
    <span class="number">${formatDuration(step.durationMs)}</span>
    <span class=${["length", tone]} aria-hidden="true" style=${{ width: `${(100 * (step.durationMs ?? 0)) / longest}%` }}></span>
  `;
}

function differenceOf(step) {
  if (step.present === null || step.past === null) return "";
  const { request, response } = step;
  if (request === null && response === null) return html`<span class="dim">${t("execution.same")}</span>`;
  return html`
    ${request && oneDifference(t("execution.request"), request)}
    ${response && oneDifference(t("execution.response"), response)}
  `;
}

function oneDifference(title, { path, present, past }) {
  return html`
    <div class="first-difference">
      <span class="dim">${title}</span> <code>${showUnseen(path)}</code>
      <span class="mono now">${valueText(present)}</span><span class="dim">${t("execution.instead")}</span><span class="mono then">${valueText(past)}</span>
    </div>
  `;
}

function valueText(value) {
  if (value === undefined) return t("execution.missing");
  const text = showUnseen(JSON.stringify(value));
  return text.length > SHOWN_VALUE ? `${text.slice(0, SHOWN_VALUE)}…` : text;
}
