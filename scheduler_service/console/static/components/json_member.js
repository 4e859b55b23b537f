// A part of a JSON draft that is typed as JSON, and where a pointer is in its text.

import { formatBytes } from "../core/formats.js";
import { html } from "../core/html.js";
import { t } from "../core/language.js";
import { shallowRef } from "../core/vue.js";
import { Field } from "./fields.js";
import { LARGE_PART } from "./json_draft.js";
import { lineOf, nodeAt, pointerOf, readTree, stepsOf } from "./json_tree.js";

/** Any JSON value, typed as JSON: numbers stay as they are written. Empty: the member goes. */
export const JsonMember = {
  props: { form: Object, path: Array, label: null, hint: null, rows: { default: 3 } },
  setup(props) {
    const typed = shallowRef(null);
    const part = () => props.form.draft.part(props.path);

    function type(text) {
      const fault = faultOfJson(text);
      if (fault === null && text.trim() === "") props.form.draft.remove(props.path);
      else if (fault === null) props.form.draft.setPart(props.path, text);
      typed.value = { text, fault, part: part() };
    }

    return () => {
      const { form, path, label, hint } = props;
      const own = typed.value !== null && typed.value.part === part() ? typed.value : { text: part() ?? "", fault: null };
      if (own.text.length > LARGE_PART) return html`<p class="hint" id=${idOf(path)} tabindex="-1">${label}: ${t("editor.large", { size: formatBytes(own.text.length) })}</p>`;
      const lines = own.text.split("\n").length;
      const slot = (described) => html`
        <textarea ...${described} class="mono" spellcheck="false" rows=${Math.min(14, Math.max(props.rows, lines))} value=${own.text} onInput=${(event) => type(event.target.value)}></textarea>
      `;
      return html`<${Field} id=${idOf(path)} label=${label} hint=${hint} error=${own.fault ?? form.errorAt(path)}>${{ default: slot }}<//>`;
    };
  },
};

/** The id of the field for the member at `path`. */
export function idOf(path) {
  return `member${pointerOf(path)}`;
}

/** The line (from 0) of `pointer` in the text of `draft`, or of what is nearest around it; null while the text is no JSON. */
export function placeOfPointer(draft, pointer) {
  if (draft.tree === null) return null;
  const steps = stepsOf(pointer);
  let node = nodeAt(draft.tree, steps);
  while (node === null) {
    steps.pop();
    node = nodeAt(draft.tree, steps);
  }
  return { offset: node.start, line: lineOf(draft.text, node.start) };
}

/** Why `text` is no JSON, in words; null where it is, or where it is empty. */
export function faultOfJson(text) {
  try {
    if (text.trim() !== "") readTree(text);
    return null;
  } catch (error) {
    return t("editor.notJson", { line: lineOf(text, error.offset) + 1, reason: t(`editor.json.${error.code}`) });
  }
}
