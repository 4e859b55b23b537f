// A section of the form: its head says in a line what is set, and how many errors are inside; the body is made when it is open.

import { Icon, html, t } from "../../core.js";

/** `name` is that of SECTIONS; `summary` a short text for the closed section. */
export function Section({ form, name, title, summary }, { slots }) {
  const errors = form.countIn(name);
  const isOpen = form.open.has(name);
  const toggle = (event) => (event.target.open ? form.open.add(name) : form.open.delete(name));
  return html`
    <details class="panel section" open=${isOpen} onToggle=${toggle} id=${`section-${name}`}>
      <summary>
        <${Icon} name="chevron" size=${14}/>
        <h2>${title}</h2>
        ${errors > 0 && html`<span class="badge bad"><${Icon} name="alert" size=${12}/>${t("editor.errors", { count: errors })}</span>`}
        <span class="dim cut summary">${summary}</span>
      </summary>
      ${isOpen && html`<div class="panel-body">${slots.default()}</div>`}
    </details>
  `;
}

Section.props = ["form", "name", "title", "summary"];

/** Members of which few people need one: folded, but open where one of them is set. */
export function More({ form, paths, text }, { slots }) {
  const isSet = paths.some((path) => form.draft.get(path) !== undefined || form.errorAt(path) !== null);
  return html`<details class="more" open=${isSet || undefined}><summary>${text}</summary><div class="columns">${slots.default()}</div></details>`;
}

More.props = ["form", "paths", "text"];
