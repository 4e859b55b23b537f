// What is seen of bulk actions: the bar over a list while rows are chosen, and the progress and report of an action.

import { formatNumber } from "../core/formats.js";
import { html } from "../core/html.js";
import { t } from "../core/language.js";
import { linkTo } from "../core/router.js";
import { Icon } from "./icons.js";
import { ActionButton } from "./panels.js";

/**
 * The bar over a list while rows are chosen: `chosen` (how many), `total` (`{value, isCapped}`: how many the filters find, or null), `isAll` (all of
 * those are meant), `onAll(isAll)`, `onClear()`; the slot has the buttons of the actions.
 */
export function BulkBar({ chosen, total, isAll, onAll, onClear }, { slots }) {
  const found = total && formatNumber(total.value) + (total.isCapped ? "+" : "");
  const offersAll = total && !isAll && (total.isCapped || total.value > chosen);
  return html`
    <div class="bulk" role="region" aria-label=${t("bulk.title")}>
      <strong>${isAll ? t("bulk.all", { count: found }) : t("bulk.chosen", { count: formatNumber(chosen) })}</strong>
      ${offersAll && html`<button type="button" class="button bare link" onClick=${() => onAll(true)}>${t("bulk.takeAll", { count: found })}</button>`}
      ${isAll && html`<button type="button" class="button bare link" onClick=${() => onAll(false)}>${t("bulk.takeChosen", { count: formatNumber(chosen) })}</button>`}
      <span class="grow"></span>
      ${slots.default?.()}
      <button type="button" class="button bare" onClick=${onClear}><${Icon} name="close" size=${14}/>${t("bulk.clear")}</button>
    </div>
  `;
}

BulkBar.props = { chosen: Number, total: Object, isAll: Boolean, onAll: Function, onClear: Function };

const GOES_ON = new Set(["interrupted", "unheard"]);

/** The progress of an action while it runs, then its report: `bulk` is that of `useBulk`. */
export function BulkReport({ bulk }) {
  const { operation } = bulk;
  if (operation === null) return null;
  const figures = { done: formatNumber(operation.done), total: formatNumber(operation.total) };
  const ended = { succeeded: formatNumber(operation.succeeded), failed: formatNumber(operation.failed) };
  return html`
    <section class=${["panel", "bulk-report"]} role="region" aria-label=${t("bulk.report")}>
      <div class="bulk-line" role="status">
        <strong>${t(`action.${operation.action}`)}</strong>
        <span class="grow">${bulk.isRunning ? t("bulk.running", figures) : endText(operation, ended)}</span>
        ${GOES_ON.has(operation.state) && html`<${ActionButton} text=${t("action.goOn")} run=${bulk.goOn}/>`}
        ${bulk.isRunning
          ? html`<${ActionButton} text=${t("action.stop")} run=${bulk.cancel}/>`
          : html`<button type="button" class="button bare" aria-label=${t("action.close")} onClick=${bulk.close}><${Icon} name="close" size=${14}/></button>`}
      </div>
      ${bulk.isRunning && html`<progress max=${operation.total} value=${operation.done} aria-label=${t("bulk.running", figures)}></progress>`}
      ${operation.warnings?.map((one) => html`<p key=${one.code} class="dim">${one.message}</p>`)}
      ${operation.problems.length > 0 && problems(operation)}
      ${!bulk.isRunning && operation.started.length > 0 && started(operation)}
    </section>
  `;
}

BulkReport.props = ["bulk"];

function endText(operation, ended) {
  const text = t("bulk.done", ended);
  return operation.state === "done" ? text : `${t(`bulk.${operation.state}`)} ${text}`;
}

function problems(operation) {
  return html`
    <details open>
      <summary>${t("bulk.problems", { count: formatNumber(operation.failed) })}</summary>
      <ul class="bulk-lines">
        ${operation.problems.map(
          (one, index) => html`
            <li key=${index}>
              ${one.executionId ? executionLink(one.executionId) : html`<a class="mono" href=${linkTo("jobs", one.jobId)}>${one.jobId}</a>`}
              <span>${one.problem.detail ?? one.problem.title}</span>
            </li>
          `,
        )}
        ${operation.moreProblems > 0 && html`<li class="dim">${t("bulk.more", { count: formatNumber(operation.moreProblems) })}</li>`}
      </ul>
    </details>
  `;
}

function started(operation) {
  return html`
    <details>
      <summary>${t("bulk.started", { count: formatNumber(operation.started.length + operation.moreStarted) })}</summary>
      <ul class="bulk-lines">
        ${operation.started.map(
          (one) => html`<li key=${one.executionId}>${executionLink(one.executionId)}<span class="dim">${one.jobId}</span></li>`,
        )}
        ${operation.moreStarted > 0 && html`<li class="dim">${t("bulk.more", { count: formatNumber(operation.moreStarted) })}</li>`}
      </ul>
    </details>
  `;
}

function executionLink(executionId) {
  return html`<a class="mono" href=${linkTo("executions", executionId)}>${executionId}</a>`;
}
