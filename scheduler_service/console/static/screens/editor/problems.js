// All that is wrong or doubtful, in one list: each entry leads to its field, or to its line of the JSON text.

import { Icon, html, placeOfPointer, showUnseen, t } from "../../core.js";

const LONGEST_SHOWN = 120;

/** The marks of lines: a Map from the line to `{kind, text}`. */
export function marksOf(form) {
  const { draft } = form;
  if (draft.fault !== null) return new Map([[draft.fault.line, { kind: "bad", text: t(`editor.json.${draft.fault.code}`) }]]);
  const marks = new Map();
  for (const [kind, list] of [["warn", form.warnings()], ["bad", form.errors()]]) {
    for (const one of list) marks.set(placeOfPointer(draft, one.pointer).line, { kind, text: one.message });
  }
  return marks;
}

/** The list; `onLine(offset)` goes to a place in the text, `isForm` says whether there are fields. */
export function Problems({ form, isForm, onLine }) {
  const { draft } = form;
  const entries = draft.fault !== null ? [syntaxOf(draft.fault)] : [...of(form.errors(), "bad"), ...of(form.warnings(), "warn"), ...unseenIn(draft.text)];
  const goTo = async (one) => {
    if (one.pointer !== undefined && isForm && (await form.show(one.pointer))) return;
    onLine(one.offset ?? placeOfPointer(draft, one.pointer).offset);
  };
  if (entries.length === 0) return fine(form);
  return html`
    <ul class="problems" id="problems" aria-label=${t("editor.problems")}>
      ${entries.map((one, index) => html`
        <li key=${index} class=${one.kind}>
          <button type="button" onClick=${() => goTo(one)}>
            <${Icon} name="alert" size=${13}/>
            <span><code>${one.place}</code> ${one.message}</span>
          </button>
        </li>
      `)}
    </ul>
  `;
}

Problems.props = ["form", "isForm", "onLine"];

function of(list, kind) {
  return list.map((one) => ({ kind, pointer: one.pointer, place: one.pointer, message: one.message }));
}

function syntaxOf(fault) {
  return { kind: "bad", offset: fault.offset, place: t("editor.line", { number: fault.line + 1 }), message: t(`editor.json.${fault.code}`) };
}

/** Characters that are not seen, and may make a text look like another one. */
function unseenIn(text) {
  if (showUnseen(text) === text) return [];
  const lines = text.split("\n");
  const found = lines.findIndex((line) => showUnseen(line) !== line);
  const offset = lines.slice(0, found).join("\n").length + 1;
  return [{ kind: "warn", offset, place: t("editor.line", { number: found + 1 }), message: t("editor.unseen", { text: showUnseen(lines[found].trim()).slice(0, LONGEST_SHOWN) }) }];
}

function fine({ checks }) {
  if (checks.isAbsent || checks.data === null || checks.problem !== null) return null;
  return html`<p class="fine"><${Icon} name="check" size=${14}/>${t("editor.fine")}</p>`;
}
