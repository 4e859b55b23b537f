// The page of `?`: which keys do what at the moment.

import { html } from "../core/html.js";
import { bindings } from "../core/keys.js";
import { t } from "../core/language.js";
import { Dialog } from "../components/dialogs.js";

/** The keys that are bound, as a dialog. */
export function KeysHelp({ onClose }) {
  return html`
    <${Dialog} title=${t("keys.title")} onClose=${onClose}>${{
      default: () => html`
        <dl class="keys">
          ${bindings.map(
            (one) => html`<div key=${one.keys}><dt>${one.keys.split(/[ +]/).map((key) => html`<kbd key=${key}>${key}</kbd>`)}</dt><dd>${t(one.text)}</dd></div>`,
          )}
        </dl>
      `,
    }}<//>
  `;
}

KeysHelp.props = ["onClose"];
