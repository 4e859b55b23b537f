// The filters of the list of executions, as they stand in the address.

import { JobFilter, Tabs, TextFilter, fieldMoment, formatNumber, html, now, pushQuery, route, t, valuesOf } from "../../core.js";

const NAMES = ["jobId", "state", "error", "triggeredBy", "label", "from", "to", "range"];
const STATES = ["terminated", "processing", "failed", "enqueued", "scheduled", "succeeded", "cancelled", "skipped"];
const TRIGGERS = ["timer", "manual", "replay", "trial", "backfill"];
const RANGES = { "15m": 900_000, "1h": 3_600_000, "24h": 86_400_000, "7d": 604_800_000 };
const MINUTE_MS = 60_000;

/** The query of the API for the query of the address; a span as `1h` is that before `since` (ms). */
export function filtersOf(query, since) {
  const { jobId, state, error, triggeredBy, label } = query;
  return { jobId, state, error, triggeredBy, label, ...spanOf(query, since) };
}

/** Whether the address has any filter. */
export function hasFilters(query) {
  return NAMES.some((name) => query[name] !== undefined);
}

/** The rows of filters; `counts` are those of the API without the state. */
export function Filters({ counts }) {
  const choose = (name) => (value) => pushQuery({ [name]: value });
  return html`
    <div class="filters">
      <${Tabs} items=${tabsOf(counts)} chosen=${route.query.state ?? ""} label=${t("executions.state")} onChoose=${choose("state")}/>
    </div>
    <div class="filters">
      <${JobFilter} value=${route.query.jobId} label=${t("executions.jobId")} onChoose=${choose("jobId")}/>
      <${TextFilter} value=${route.query.error} label=${t("executions.error")} onChoose=${choose("error")}/>
      ${select("triggeredBy", t("executions.anyTrigger"), TRIGGERS.map((value) => ({ value, text: t(`triggeredBy.${value}`) })))}
      ${spanFilter()}
      <input class="short" aria-label=${t("executions.addLabel")} placeholder=${t("executions.addLabel")} onChange=${addLabel}/>
      ${valuesOf("label").map(
        (label) => html`
          <button type="button" class="label" key=${label} aria-label=${t("executions.dropLabel", { label })} onClick=${() => dropLabel(label)}>${label} ×</button>
        `,
      )}
      ${hasFilters(route.query) && html`<a class="button bare" href="#/executions">${t("executions.clear")}</a>`}
    </div>
  `;
}

Filters.props = ["counts"];

function tabsOf(counts) {
  const byState = counts?.byState ?? {};
  const shown = STATES.filter((state) => state === route.query.state || ALWAYS.has(state) || byState[state] > 0);
  const count = (value) => (value === undefined ? undefined : formatNumber(value));
  return [{ key: "", text: t("executions.all") }, ...shown.map((state) => ({ key: state, text: t(`state.${state}`), count: count(byState[state]) }))];
}

const ALWAYS = new Set(["terminated", "processing", "succeeded"]);

function select(name, label, options) {
  return html`
    <select aria-label=${label} value=${route.query[name] ?? ""} onChange=${(event) => pushQuery({ [name]: event.target.value })}>
      ${[{ value: "", text: label }, ...options].map((one) => html`<option key=${one.value} value=${one.value}>${one.text}</option>`)}
    </select>
  `;
}

function spanFilter() {
  const isOwn = route.query.from !== undefined || route.query.to !== undefined;
  const chosen = isOwn ? "own" : (route.query.range ?? "");
  const options = ["", ...Object.keys(RANGES), "own"].map((value) => ({ value, text: t(`executions.range.${value || "all"}`) }));
  return html`
    <select aria-label=${t("executions.range")} value=${chosen} onChange=${(event) => chooseSpan(event.target.value)}>
      ${options.map((one) => html`<option key=${one.value} value=${one.value}>${one.text}</option>`)}
    </select>
    ${isOwn && moment("from", t("executions.from"))}
    ${isOwn && moment("to", t("executions.to"))}
  `;
}

function chooseSpan(value) {
  if (value !== "own") return pushQuery({ range: value, from: null, to: null });
  const to = Math.ceil(now.value / MINUTE_MS) * MINUTE_MS;
  return pushQuery({ range: null, from: new Date(to - RANGES["24h"]).toISOString(), to: new Date(to).toISOString() });
}

/** A moment of the span; fields of this kind have the browser's zone, whatever zone the page shows. */
function moment(name, label) {
  return html`
    <input
      type="datetime-local"
      step="1"
      class="moment-field"
      aria-label=${label}
      title=${label}
      value=${fieldMoment(route.query[name])}
      onChange=${(event) => pushQuery({ [name]: event.target.value === "" ? null : new Date(event.target.value).toISOString() })}
    />
  `;
}

function spanOf({ range, from, to }, since) {
  return range in RANGES ? { from: new Date(since - RANGES[range]).toISOString() } : { from, to };
}

function addLabel(event) {
  const label = event.target.value.trim();
  if (label.includes(":")) pushQuery({ label: [...new Set([...valuesOf("label"), label])] });
  event.target.value = "";
}

function dropLabel(label) {
  pushQuery({ label: valuesOf("label").filter((one) => one !== label) });
}
