// The fields of a trigger's parameters, as the job's schema names them; each writes its member of the JSON text.

import { Field, JsonMember, html, idOf, shallowRef, t } from "../../core.js";

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const LONG_TEXT = 60;
const LONGEST_CHOICE = 200;

/** `fields` of readFields; `form` has `draft`, `errorAt(path)` and `optional(path)`: whether an object may go when nothing is left in it. */
export function ParamFields({ form, fields }) {
  return fields.map((field) => {
    const key = JSON.stringify(field.path);
    if (field.kind === "object") return html`<${ParamGroup} key=${key} form=${form} field=${field}/>`;
    if (field.kind === "json") return html`<${JsonMember} key=${key} form=${form} path=${field.path} label=${labelOf(field)} hint=${hintOf(field)}/>`;
    return html`<${ParamField} key=${key} form=${form} field=${field}/>`;
  });
}

ParamFields.props = ["form", "fields"];

function ParamGroup({ form, field }) {
  const error = form.errorAt(field.path);
  return html`
    <fieldset class=${["param-group", { wrong: error }]} id=${idOf(field.path)} tabindex="-1">
      <legend>${labelOf(field)}</legend>
      ${field.about && html`<p class="hint">${field.about}</p>`}
      ${error && html`<p class="error">${error}</p>`}
      <${ParamFields} form=${form} fields=${field.fields}/>
    </fieldset>
  `;
}

ParamGroup.props = ["form", "field"];

/** A member of one value. What cannot be read stays in the field with the reason, and out of the parameters. */
const ParamField = {
  props: { form: Object, field: Object },
  setup(props) {
    const typed = shallowRef(null);
    const part = () => props.form.draft.part(props.field.path);

    function write(text) {
      const fault = text.trim() !== "" && props.field.kind === "number" && !NUMBER.test(text.trim()) ? t("job.notNumber") : null;
      if (fault === null) writePart(props.form, props.field, partOfText(props.field, text));
      typed.value = { text, fault, part: part() };
    }

    return () => {
      const { form, field } = props;
      const own = typed.value !== null && typed.value.part === part() ? typed.value : { text: textOfPart(field, part()), fault: null };
      const slot = (described) => control(field, { ...described, "aria-required": field.isRequired ? "true" : undefined }, own.text, write);
      return html`<${Field} id=${idOf(field.path)} label=${labelOf(field)} hint=${hintOf(field)} error=${own.fault ?? form.errorAt(field.path)}>${{ default: slot }}<//>`;
    };
  },
};

function control(field, described, text, write) {
  const choices = choicesOf(field);
  if (choices !== null) {
    return html`
      <select ...${described} value=${text} onChange=${(event) => write(event.target.value)}>
        <option value="">${t("job.paramUnset")}</option>
        ${text !== "" && !choices.some(([part]) => part === text) && html`<option value=${text}>${text}</option>`}
        ${choices.map(([part, shown]) => html`<option key=${part} value=${part}>${shown}</option>`)}
      </select>
    `;
  }
  const typing = { ...described, value: text, autocomplete: "off", spellcheck: "false", onInput: (event) => write(event.target.value) };
  if (field.kind === "text" && (text.length > LONG_TEXT || text.includes("\n"))) return html`<textarea ...${typing} rows=${Math.min(8, text.split("\n").length + 1)}></textarea>`;
  return html`<input ...${typing} inputmode=${field.kind === "number" ? "decimal" : undefined}/>`;
}

/** `[JSON text, words]` of each value among which a field chooses; null where anything may be typed. */
function choicesOf({ kind, choices }) {
  if (kind === "flag") return [["true", t("job.yes")], ["false", t("job.no")]];
  return kind === "choice" ? choices.map((one) => [JSON.stringify(one), (typeof one === "string" && one !== "" ? one : JSON.stringify(one)).slice(0, LONGEST_CHOICE)]) : null;
}

/** The JSON text of what is typed; null for nothing. */
function partOfText({ kind }, text) {
  if (kind === "text") return text === "" ? null : JSON.stringify(text);
  return text.trim() === "" ? null : text.trim();
}

function textOfPart({ kind, isNullable }, part) {
  if (part === null || (part === "null" && (kind === "text" || !isNullable))) return "";
  if (kind !== "text") return part.includes("\n") ? JSON.stringify(JSON.parse(part)) : part;
  const value = JSON.parse(part);
  return typeof value === "string" ? value : part;
}

/** Nothing is null where the member is required, so that its name stays in the text; else the member goes, and objects around it that are empty then. */
function writePart({ draft, optional }, { path, isRequired }, part) {
  if (part !== null) return draft.setPart(path, part);
  if (isRequired) return draft.set(path, null);
  draft.remove(path);
  for (let above = path.slice(0, -1); above.length > 0 && optional(above) && draft.part(above) === "{}"; above = above.slice(0, -1)) draft.remove(above);
  return undefined;
}

function labelOf(field) {
  return html`${field.label}${field.label !== field.name && html` <code class="dim">${field.name}</code>`}${field.isRequired && html` <span class="param-required">${t("job.required")}</span>`}`;
}

function hintOf({ about, limits }) {
  const words = limits.map(([keyword, value]) => t(`job.limit.${keyword}`, { value })).join(" · ");
  return about === "" && words === "" ? undefined : html`${about}${about && words && " "}${words && html`<span class="param-limits">${words}</span>`}`;
}
