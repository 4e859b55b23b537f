// Colours of a JSON text: its parts with what they are, as text nodes.

import { html } from "../core/html.js";

const LONGEST_COLOURED = 100_000;
const PART = /("(?:[^"\\\n]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*)|(true|false|null)|(\$\{[^}"]*\})/g;
const VARIABLE = /(\$\{[^}]*\})/;

/** `text` as nodes: names, strings (with their `${…}`), numbers and words; a text that is long stays plain. */
export function colourJson(text) {
  if (text.length > LONGEST_COLOURED) return [text];
  const nodes = [];
  let end = 0;
  for (const match of text.matchAll(PART)) {
    if (match.index > end) nodes.push(text.slice(end, match.index));
    end = match.index + match[0].length;
    nodes.push(...partOfText(match));
  }
  nodes.push(text.slice(end));
  return nodes;
}

function partOfText([whole, string, colon, number]) {
  if (string === undefined) return [html`<span class=${number === undefined ? "word" : "number"}>${whole}</span>`];
  if (colon !== undefined) return [html`<span class="name">${string}</span>`, colon];
  const parts = string.split(VARIABLE).filter(Boolean);
  return parts.map((part) => html`<span class=${VARIABLE.test(part) ? "variable" : "string"}>${part}</span>`);
}
