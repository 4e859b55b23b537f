// The log of an execution: lines in order of time, with a filter.

import { ActionButton, Loaded, Pager, copy, formatMoment, html, ref, showUnseen, t, useListing } from "../../core.js";

const PAGE = 500;
const SHOWN_TEXT = 2_000;

/** The lines of `executionId`, as they come; `attempts` of it, by whose places they are numbered as in the waterfall (null: by `requestCounts`); `zone` of the job. */
export const LogView = {
  props: { executionId: String, attempts: Array, zone: String },
  setup(props) {
    const wanted = ref("");
    const kind = ref("");
    const listing = useListing(() => `executions/${encodeURIComponent(props.executionId)}/log`, () => ({}), { limit: PAGE });
    const fits = (line) => (kind.value === "" || line.kind === kind.value) && line.text.toLowerCase().includes(wanted.value.toLowerCase());
    return () => html`
      <${Loaded} resource=${listing.resource} lines=${8}>${{
        default: () => {
          const lines = listing.items.value;
          const shown = lines.filter(fits);
          return html`
            <div class="filters">
              <input class="log-filter" type="search" aria-label=${t("execution.logFilter")} placeholder=${t("execution.logFilter")} value=${wanted.value} onInput=${(event) => (wanted.value = event.target.value)}/>
              <select aria-label=${t("execution.logKind")} value=${kind.value} onChange=${(event) => (kind.value = event.target.value)}>
                ${["", ...new Set(lines.map((line) => line.kind))].map((one) => html`<option key=${one} value=${one}>${one === "" ? t("execution.allKinds") : one}</option>`)}
              </select>
              <${ActionButton} bare icon="copy" text=${t("execution.copyLog")} run=${() => copy(shown.map(textOf).join("\n"))}/>
              <span class="dim number">${t("execution.logCount", { shown: shown.length, count: lines.length })}</span>
            </div>
            <ol class="log">${shown.map((line, index) => html`<${LogLine} key=${index} line=${line} number=${numberOf(line, props.attempts)} zone=${props.zone}/>`)}</ol>
          `;
        },
      }}<//>
      ${(listing.page.value > 1 || listing.hasNext.value) && html`<${Pager} page=${listing.page.value} hasNext=${listing.hasNext.value} onBack=${listing.back} onNext=${listing.next}/>`}
    `;
  },
};

/** The attempt of a line, counted from 1 within its execution; null for a line of none that is kept. */
function numberOf({ requestCounts }, attempts) {
  if (attempts === null) return requestCounts;
  return attempts.findIndex((one) => one.requestCounts === requestCounts) + 1 || null;
}

function textOf({ at, kind, requestCounts, text }) {
  return [at, kind, requestCounts ?? "-", text].join(" ");
}

function LogLine({ line, number, zone }) {
  const text = line.text.length > SHOWN_TEXT ? `${line.text.slice(0, SHOWN_TEXT)}…` : line.text;
  return html`
    <li class=${`log-${line.kind}`}>
      <time class="dim number" datetime=${line.at} title=${line.at}>${formatMoment(line.at, { zone, withMs: true, withDate: false })}</time>
      <span class="log-kind">${line.kind}</span>
      <span class="dim number" title=${number && t("execution.row.attempt", { number })}>${number}</span>
      <span class="log-text">${showUnseen(text)}</span>
    </li>
  `;
}

LogLine.props = ["line", "number", "zone"];
