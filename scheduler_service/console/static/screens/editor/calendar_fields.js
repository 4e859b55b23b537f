// On which days of a calendar a timer fires, and what becomes of its moments on others.

import { Field, SelectField, TextField, html, idOf, may, t, useResource } from "../../core.js";

const PATH = ["timer", "calendar"];
const DAYS = ["work", "free"];
const OTHERWISE = ["skip", "next", "previous"];

/** The calendar by its name: one of the tenant's where the reader's key sees them; then days and other days, which begin with what counts unsaid. */
export const CalendarFields = {
  props: { form: Object },
  setup(props) {
    const known = useResource(() => (may("viewer", "tenant") ? { path: "calendars" } : null));
    return () => {
      const { form } = props;
      const { name, days, otherwise } = partsOf(form.draft.get(PATH));
      const write = (change) => form.draft.set(PATH, calendarOf({ name, days, otherwise, ...change }));
      const names = known.data?.items.map((one) => one.name) ?? null;
      return html`
        <div class="columns">
          ${nameField(form, names, name, write)}
          ${name !== "" && html`
            <${SelectField} ...${fieldOf(form, "days")} value=${days} options=${choicesFor("days", DAYS, days)} onChange=${(value) => write({ days: value })}/>
            <${SelectField} ...${fieldOf(form, "otherwise")} value=${otherwise} options=${choicesFor("otherwise", OTHERWISE, otherwise)} onChange=${(value) => write({ otherwise: value })}/>
          `}
        </div>
      `;
    };
  },
};

function nameField(form, names, name, write) {
  const field = { id: idOf(PATH), label: t("editor.calendar"), error: form.errorAt(PATH) ?? form.errorAt([...PATH, "name"]) };
  if (names === null) return html`<${TextField} ...${field} hint=${t("editor.calendarHint")} value=${name} onChange=${(value) => write({ name: value })} autocomplete="off"/>`;
  const options = [...new Set([...names, name])].filter(Boolean);
  return html`
    <${Field} ...${field} hint=${html`${t("editor.calendarHint")} <a href="#/calendars">${t("editor.calendars")}</a>`}>${{
      default: (described) => html`
        <select ...${described} value=${name} onChange=${(event) => write({ name: event.target.value })}>
          <option value="">${t("editor.calendarNone")}</option>
          ${options.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}
        </select>
      `,
    }}<//>
  `;
}

function fieldOf(form, name) {
  const path = [...PATH, name];
  return { id: idOf(path), label: t(`editor.calendar.${name}`), error: form.errorAt(path) };
}

function choicesFor(name, known, value) {
  return [...new Set([...known, value])].map((one) => ({ value: one, text: known.includes(one) ? t(`editor.calendar.${name}.${one}`) : String(one) }));
}

function partsOf(value) {
  if (typeof value === "string") return { name: value, days: DAYS[0], otherwise: OTHERWISE[0] };
  const { name, days, otherwise } = Object(value) === value ? value : {};
  return { name: typeof name === "string" ? name : "", days: days ?? DAYS[0], otherwise: otherwise ?? OTHERWISE[0] };
}

/** Without what counts unsaid; a name alone is a text. */
function calendarOf({ name, days, otherwise }) {
  if (name === "") return undefined;
  const rest = { ...(days === DAYS[0] ? {} : { days }), ...(otherwise === OTHERWISE[0] ? {} : { otherwise }) };
  return Object.keys(rest).length === 0 ? name : { name, ...rest };
}
