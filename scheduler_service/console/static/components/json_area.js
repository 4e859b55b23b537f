// The JSON text to write in: line numbers, colours, marks on lines, indentation; the browser's own text field below it all.

import { html } from "../core/html.js";
import { nextTick, ref, watch } from "../core/vue.js";
import { colourJson } from "./json_marks.js";

const INDENTATION = "  ";
/** The height of a line in the style sheet. */
const LINE_EM = 1.55;

/**
 * A text field for JSON: `value`, `onWrite(text)`, `label`, `marks` (a Map of lines from 0 to `{kind, text}`), `place` (reactive `{offset, times}`: when `times` changes the
 * keyboard goes to `offset`), `onCursor(offset)`. Tab indents once somebody has begun to write; after Escape, and before the first stroke, it leaves.
 */
export const JsonArea = {
  props: { value: String, label: String, marks: Map, place: Object, onWrite: Function, onCursor: Function, describedBy: String },
  setup(props) {
    const area = ref(null);
    let leaves = true;

    watch(() => props.place?.times, async () => {
      await nextTick();
      goTo(area.value, props.place.offset);
    });
    watch(() => props.value, (value) => keepCursor(area.value, value), { flush: "pre" });

    function onKey(event) {
      if (event.key === "Escape") leaves = true;
      else if (event.key === "Tab" && !leaves && !event.ctrlKey) indent(area.value, event);
      else if (event.key === "Enter" && !event.ctrlKey && !event.isComposing) breakLine(area.value, event);
      else if (event.key !== "Tab" && event.key !== "Shift") leaves = false;
    }

    const tellCursor = () => props.onCursor?.(area.value.selectionStart);
    return () => {
      const lines = props.value.split("\n").length;
      return html`
        <div class="json-area">
          <div class="json-sheet">
            <div class="json-lines" aria-hidden="true">
              ${[...(props.marks ?? [])].map(([line, mark]) => html`<div class=${["json-mark", mark.kind]} key=${line} title=${mark.text} style=${{ top: `${line * LINE_EM}em` }}></div>`)}
              <pre>${numbersTo(lines)}</pre>
            </div>
            <div class="json-text">
              <pre aria-hidden="true">${colourJson(props.value)}${"\n"}</pre>
              <textarea
                ref=${area}
                aria-label=${props.label}
                aria-describedby=${props.describedBy}
                value=${props.value}
                wrap="off"
                spellcheck="false"
                autocapitalize="off"
                autocomplete="off"
                onInput=${(event) => props.onWrite(event.target.value)}
                onKeydown=${onKey}
                onKeyup=${tellCursor}
                onClick=${() => ((leaves = false), tellCursor())}
                onFocus=${() => (leaves = true)}
              ></textarea>
            </div>
          </div>
        </div>
      `;
    };
  },
};

/** One text for all numbers: a definition may have many thousands of lines. */
function numbersTo(lines) {
  return Array.from({ length: lines }, (_, line) => line + 1).join("\n");
}

/** Where another part of the page changes the text, the cursor stays at the characters beside it. */
function keepCursor(area, next) {
  const before = area?.value;
  if (before === undefined || before === next) return;
  const { selectionStart, selectionEnd } = area;
  let same = 0;
  while (same < before.length && before[same] === next[same]) same += 1;
  const shift = (at) => (at <= same ? at : Math.max(same, at + next.length - before.length));
  nextTick(() => area.setSelectionRange(shift(selectionStart), shift(selectionEnd)));
}

function goTo(area, offset) {
  area.focus();
  area.setSelectionRange(offset, offset);
  const line = area.value.slice(0, offset).split("\n").length - 1;
  const sheet = area.closest(".json-area");
  const height = area.scrollHeight / area.value.split("\n").length;
  sheet.scrollTo({ top: Math.max(0, line * height - sheet.clientHeight / 3) });
  area.scrollIntoView({ block: "nearest" });
}

function indent(area, event) {
  event.preventDefault();
  const { selectionStart: start, selectionEnd: end, value } = area;
  if (start === end && !event.shiftKey) return insert(INDENTATION);
  const from = value.lastIndexOf("\n", start - 1) + 1;
  const lines = value.slice(from, end);
  const changed = event.shiftKey ? lines.replace(/^ {1,2}/gm, "") : lines.replace(/^/gm, INDENTATION);
  area.setSelectionRange(from, end);
  insert(changed);
  area.setSelectionRange(start === end ? Math.max(from, start + changed.length - lines.length) : from, from + changed.length);
}

function breakLine(area, event) {
  event.preventDefault();
  const { selectionStart: at, value } = area;
  const line = value.slice(value.lastIndexOf("\n", at - 1) + 1, at);
  const depth = /^ */.exec(line)[0];
  const isOpening = /[[{]\s*$/.test(line);
  const isAround = isOpening && /^\s*[\]}]/.test(value.slice(area.selectionEnd));
  insert(`\n${depth}${isOpening ? INDENTATION : ""}${isAround ? `\n${depth}` : ""}`);
  if (isAround) area.setSelectionRange(at + 1 + depth.length + INDENTATION.length, at + 1 + depth.length + INDENTATION.length);
}

/** Writes as a keyboard would: the browser tells of it by an input event. */
function insert(text) {
  document.execCommand("insertText", false, text);
}
