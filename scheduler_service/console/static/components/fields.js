// Fields of forms and filters.

import { html } from "../core/html.js";
import { t } from "../core/language.js";
import { Icon } from "./icons.js";

/** A field with its label, hint and error: the slot gets `{id, describedBy}` where it is a function of them. */
export function Field({ id, label, hint, error }, { slots }) {
  const described = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(" ") || undefined;
  return html`
    <div class=${["field", { wrong: Boolean(error) }]}>
      <label for=${id}>${label}</label>
      ${slots.default({ id, "aria-describedby": described, "aria-invalid": error ? "true" : undefined })}
      ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
      ${error && html`<p class="error" id=${`${id}-error`}>${error}</p>`}
    </div>
  `;
}

Field.props = ["id", "label", "hint", "error"];

/** One line of text with its label: `value`, `onChange(text)` at each stroke. */
export function TextField(props) {
  const { id, label, hint, error, value, onChange, ...rest } = props;
  return html`
    <${Field} id=${id} label=${label} hint=${hint} error=${error}>${{
      default: (described) => html`
        <input ...${rest} ...${described} value=${value ?? ""} onInput=${(event) => onChange(event.target.value)}/>
      `,
    }}<//>
  `;
}

TextField.props = ["id", "label", "hint", "error", "value", "onChange", "type", "placeholder", "list", "class", "autocomplete", "disabled"];

/** One of `options` (`{value, text}`) with its label: `value`, `onChange(value)`. */
export function SelectField({ id, label, hint, error, value, options, onChange }) {
  return html`
    <${Field} id=${id} label=${label} hint=${hint} error=${error}>${{
      default: (described) => html`
        <select ...${described} value=${value ?? ""} onChange=${(event) => onChange(event.target.value)}>
          ${options.map((one) => html`<option key=${one.value} value=${one.value}>${one.text}</option>`)}
        </select>
      `,
    }}<//>
  `;
}

SelectField.props = ["id", "label", "hint", "error", "value", "options", "onChange"];

/** The search of a list; its key is `/`. */
export function SearchField({ value, label, placeholder, onChange }) {
  return html`
    <div class="search" role="search">
      <${Icon} name="search" size=${16}/>
      <input
        type="search"
        class="search-input"
        aria-label=${label}
        placeholder=${placeholder ?? label}
        value=${value ?? ""}
        onInput=${(event) => onChange(event.target.value)}
        onKeydown=${(event) => event.key === "Enter" && event.target.blur()}
      />
      <kbd aria-hidden="true">/</kbd>
    </div>
  `;
}

SearchField.props = ["value", "label", "placeholder", "onChange"];

/** Pages of a list by cursor: `page` from 1, `hasNext`, `onBack`, `onNext`. Nothing where there is but one. */
export function Pager({ text, page, hasNext, onBack, onNext }) {
  if (page <= 1 && !hasNext) return null;
  return html`
    <nav class="pager" aria-label=${t("pager.label")}>
      <span class="dim">${text}</span>
      <button type="button" class="button" disabled=${page <= 1} aria-label=${t("pager.back")} onClick=${onBack}>‹</button>
      <span>${page}</span>
      <button type="button" class="button" disabled=${!hasNext} aria-label=${t("pager.next")} onClick=${onNext}>›</button>
    </nav>
  `;
}

Pager.props = ["text", "page", "hasNext", "onBack", "onNext"];
