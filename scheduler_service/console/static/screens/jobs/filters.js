// The filters of the list of jobs, as they stand in the address.

import { Tabs, html, pushQuery, replaceQuery, route, t, valuesOf } from "../../core.js";

const NAMES = ["text", "state", "kind", "label", "creator", "lastOutcome", "objectId", "parentJob", "system"];
const STATES = ["active", "paused", "finished"];
const KINDS = ["cron", "timing", "one_time", "external"];
const OUTCOMES = ["succeeded", "terminated", "cancelled", "skipped", "running", "waiting", "none"];

/** The query of the API for the query of the address. */
export function filtersOf(query) {
  return Object.fromEntries(NAMES.map((name) => [name, query[name]]));
}

/** Whether the address has any filter. */
export function hasFilters(query) {
  return NAMES.some((name) => query[name] !== undefined);
}

/** The row of filters; `counts` are those of the API. */
export function Filters({ counts }) {
  const choose = (name) => (value) => pushQuery({ [name]: value });
  const tabs = [{ key: "", text: t("jobs.all") }, ...STATES.map((state) => ({ key: state, text: t(`state.${state}`), count: route.query.state ? undefined : counts?.byState[state] }))];
  return html`
    <div class="filters">
      <${Tabs} items=${tabs} chosen=${route.query.state ?? ""} label=${t("jobs.state")} onChoose=${choose("state")}/>
      ${choice("kind", t("jobs.kind"), KINDS, choose("kind"))}
      ${choice("lastOutcome", t("jobs.lastOutcome"), OUTCOMES, choose("lastOutcome"))}
      <input
        class="short"
        aria-label=${t("jobs.creator")}
        placeholder=${t("jobs.creator")}
        value=${route.query.creator ?? ""}
        onInput=${(event) => replaceQuery({ creator: event.target.value })}
      />
      <input
        class="short"
        aria-label=${t("jobs.addLabel")}
        placeholder=${t("jobs.addLabel")}
        onChange=${addLabel}
      />
      ${valuesOf("label").map(
        (label) => html`
          <button type="button" class="label" key=${label} aria-label=${t("jobs.dropLabel", { label })} onClick=${() => dropLabel(label)}>${label} ×</button>
        `,
      )}
      ${["objectId", "parentJob"].filter((name) => route.query[name]).map((name) => html`
        <button type="button" class="label" key=${name} onClick=${() => pushQuery({ [name]: null })}>${t(`jobs.${name}`)}: ${route.query[name]} ×</button>
      `)}
      <label class="check"><input type="checkbox" checked=${route.query.system === "true"} onChange=${(event) => pushQuery({ system: event.target.checked ? "true" : null })}/>${t("jobs.system")}</label>
      ${hasFilters(route.query) && html`<a class="button bare" href="#/jobs">${t("jobs.clear")}</a>`}
    </div>
  `;
}

Filters.props = ["counts"];

function choice(name, label, values, onChange) {
  const options = [{ value: "", text: label }, ...values.map((value) => ({ value, text: t(`${name}.${value}`) }))];
  return html`
    <select aria-label=${label} value=${route.query[name] ?? ""} onChange=${(event) => onChange(event.target.value)}>
      ${options.map((one) => html`<option key=${one.value} value=${one.value}>${one.text}</option>`)}
    </select>
  `;
}

function addLabel(event) {
  const label = event.target.value.trim();
  if (label.includes(":")) pushQuery({ label: [...new Set([...valuesOf("label"), label])] });
  event.target.value = "";
}

function dropLabel(label) {
  pushQuery({ label: valuesOf("label").filter((one) => one !== label) });
}
