// Texts of machines: JSON that folds, bodies, headers; always text nodes, never markup.

import { copy } from "../core/clipboard.js";
import { formatBytes } from "../core/formats.js";
import { html } from "../core/html.js";
import { t } from "../core/language.js";
import { showUnseen } from "../core/unseen.js";
import { ref } from "../core/vue.js";
import { ActionButton } from "./panels.js";

const SHOWN_CHARACTERS = 20_000;
const SHOWN_MEMBERS = 100;
const OPEN_DEPTH = 2;

/** A text with a button that copies it; what is long is cut, with a button for the rest. */
export const CodeBlock = {
  props: { text: String, label: String, wrap: { type: Boolean, default: true } },
  setup(props) {
    const isWhole = ref(false);
    return () => {
      const isCut = !isWhole.value && props.text.length > SHOWN_CHARACTERS;
      const shown = isCut ? props.text.slice(0, SHOWN_CHARACTERS) : props.text;
      return html`
        <div class="code">
          <${ActionButton} bare icon="copy" text=${t("action.copy")} run=${() => copy(props.text)}/>
          <pre class=${{ wrap: props.wrap }} tabindex="0" aria-label=${props.label}>${showUnseen(shown)}</pre>
          ${isCut && html`
            <button type="button" class="button" onClick=${() => (isWhole.value = true)}>
              ${t("code.rest", { size: formatBytes(props.text.length - SHOWN_CHARACTERS) })}
            </button>
          `}
        </div>
      `;
    };
  },
};

/** A JSON value as a tree that folds; deep parts are closed at first and made only when they are opened. */
export const JsonView = {
  props: { value: null, label: String },
  setup(props) {
    return () => html`
      <div class="code json" role="group" aria-label=${props.label}>
        <${ActionButton} bare icon="copy" text=${t("action.copy")} run=${() => copy(JSON.stringify(props.value, null, 2))}/>
        <${JsonNode} value=${props.value} depth=${0}/>
      </div>
    `;
  },
};

const JsonNode = {
  props: { name: String, value: null, depth: Number },
  setup(props) {
    const isOpen = ref(props.depth < OPEN_DEPTH);
    const limit = ref(SHOWN_MEMBERS);
    return () => {
      const name = props.name !== undefined && html`<span class="name">${showUnseen(props.name)}</span>`;
      if (props.value === null || typeof props.value !== "object") {
        return html`<div class="leaf">${name}${name && ": "}<${Scalar} value=${props.value}/></div>`;
      }
      const isArray = Array.isArray(props.value);
      const members = Object.entries(props.value);
      if (members.length === 0) return html`<div class="leaf">${name}${name && ": "}${isArray ? "[]" : "{}"}</div>`;
      const size = isArray ? `[${members.length}]` : `{${members.length}}`;
      return html`
        <details open=${isOpen.value} onToggle=${(event) => (isOpen.value = event.target.open)}>
          <summary>${name}${name && ": "}<span class="dim">${size}</span></summary>
          ${isOpen.value && html`
            <div class="members">
              ${members.slice(0, limit.value).map(
                ([key, value]) => html`<${JsonNode} key=${key} name=${key} value=${value} depth=${props.depth + 1}/>`,
              )}
              ${members.length > limit.value && html`
                <button type="button" class="button" onClick=${() => (limit.value += 10 * SHOWN_MEMBERS)}>
                  ${t("code.more", { count: members.length - limit.value })}
                </button>
              `}
            </div>
          `}
        </details>
      `;
    };
  },
};

const Scalar = {
  props: { value: null },
  setup(props) {
    const isWhole = ref(false);
    return () => {
      const kind = props.value === null ? "null" : typeof props.value;
      const text = kind === "string" ? JSON.stringify(props.value) : String(props.value);
      if (isWhole.value || text.length <= 2_000) return html`<span class=${kind}>${showUnseen(text)}</span>`;
      return html`
        <span class=${kind}>${showUnseen(text.slice(0, 2_000))}…</span>
        <button type="button" class="button" onClick=${() => (isWhole.value = true)}>${t("code.rest", { size: formatBytes(text.length - 2_000) })}</button>
      `;
    };
  },
};
