// The difference of two texts, line by line.

import { formatNumber } from "../core/formats.js";
import { html } from "../core/html.js";
import { t } from "../core/language.js";
import { showUnseen } from "../core/unseen.js";
import { computed, ref, watch } from "../core/vue.js";

const AROUND = 3;
const MOST_CELLS = 4_000_000;
const LONGEST_LINE = 2_000;

/** A JSON value as the text that is compared: members in order of their names where `isSorted`. */
export function textOfJson(value, isSorted = false) {
  return JSON.stringify(isSorted ? sortMembers(value) : value, null, 2);
}

/**
 * The lines of two texts in order: `{kind, text, before, after}`; `kind` is same, removed or added, `before` and `after` are line numbers from 1 or
 * null. What was removed stands before what took its place. Very large differences are told as one block.
 */
export function diffLines(before, after) {
  const [old, young] = [before.split("\n"), after.split("\n")];
  let head = 0;
  while (head < old.length && head < young.length && old[head] === young[head]) head += 1;
  let tail = 0;
  while (tail < Math.min(old.length, young.length) - head && old.at(-1 - tail) === young.at(-1 - tail)) tail += 1;
  const middle = diffMiddle(old.slice(head, old.length - tail), young.slice(head, young.length - tail));
  const kinds = [...Array(head).fill("same"), ...middle, ...Array(tail).fill("same")];
  return numberLines(kinds, old, young);
}

/**
 * The difference between `before` and `after` (texts), with what is equal around it folded; a text says so where there is none. `names`: what the
 * two are called.
 */
export const DiffView = {
  props: { before: String, after: String, names: { type: Array, default: () => [] }, label: String },
  setup(props) {
    const lines = computed(() => diffLines(props.before, props.after));
    const open = ref(new Set());
    watch(lines, () => (open.value = new Set()));
    return () => {
      const [removed, added] = ["removed", "added"].map((kind) => lines.value.filter((one) => one.kind === kind).length);
      if (removed + added === 0) return html`<p class="dim">${t("diff.same")}</p>`;
      return html`
        <div class="diff">
          <p class="diff-head">
            ${props.names.length === 2 && html`<span>${props.names[0]} → ${props.names[1]}</span>`}
            <span class="removed">${t("diff.removed", { count: formatNumber(removed) })}</span>
            <span class="added">${t("diff.added", { count: formatNumber(added) })}</span>
          </p>
          <div class="diff-lines" tabindex="0" role="region" aria-label=${props.label ?? t("diff.label")}>
            <table><tbody>${foldLines(lines.value, open.value).map((one) => shownPart(one, open))}</tbody></table>
          </div>
        </div>
      `;
    };
  },
};

const SIGNS = { same: " ", removed: "−", added: "+" };

function shownPart(one, open) {
  if (one.hidden === undefined) return lineOfDiff(one);
  const show = () => (open.value = new Set([...open.value, one.first]));
  return html`
    <tr key=${`fold ${one.first}`} class="fold">
      <td colspan="4"><button type="button" class="button bare" onClick=${show}>${t("diff.fold", { count: formatNumber(one.hidden) })}</button></td>
    </tr>
  `;
}

function lineOfDiff({ kind, text, before, after }) {
  const shown = text.length > LONGEST_LINE ? `${text.slice(0, LONGEST_LINE)}…` : text;
  return html`
    <tr key=${`${before} ${after}`} class=${kind}>
      <td class="line-number" aria-hidden="true">${before}</td>
      <td class="line-number" aria-hidden="true">${after}</td>
      <td class="sign">${kind === "same" ? " " : html`<span aria-hidden="true">${SIGNS[kind]}</span><span class="unseen">${t(`diff.${kind}Line`)}</span>`}</td>
      <td class="text">${showUnseen(shown)}</td>
    </tr>
  `;
}

/** Long runs of equal lines become `{hidden, first}`, but for those that `open` (their first line's index) names. */
function foldLines(lines, open) {
  const isNear = nearChanges(lines);
  const shown = [];
  for (let index = 0; index < lines.length; ) {
    let end = index;
    while (end < lines.length && !isNear[end]) end += 1;
    if (end - index > 1 && !open.has(index)) shown.push({ hidden: end - index, first: index });
    else shown.push(...lines.slice(index, end));
    while (end < lines.length && isNear[end]) shown.push(lines[end++]);
    index = end;
  }
  return shown;
}

function nearChanges(lines) {
  const isNear = Array(lines.length).fill(false);
  for (const [index, line] of lines.entries()) {
    if (line.kind !== "same") isNear.fill(true, Math.max(0, index - AROUND), index + AROUND + 1);
  }
  return isNear;
}

// The longest common subsequence, by its table; beyond MOST_CELLS it would take too long, and nobody reads such a difference line by line.
function diffMiddle(old, young) {
  if (old.length * young.length > MOST_CELLS) return [...old.map(() => "removed"), ...young.map(() => "added")];
  const width = young.length + 1;
  const lengths = new Uint16Array((old.length + 1) * width);
  for (let row = old.length - 1; row >= 0; row -= 1) {
    for (let column = young.length - 1; column >= 0; column -= 1) {
      const [below, right] = [lengths[(row + 1) * width + column], lengths[row * width + column + 1]];
      lengths[row * width + column] = old[row] === young[column] ? lengths[(row + 1) * width + column + 1] + 1 : Math.max(below, right);
    }
  }
  return walkLengths(old, young, (row, column) => lengths[row * width + column]);
}

function walkLengths(old, young, lengthAt) {
  const kinds = [];
  let [row, column] = [0, 0];
  while (row < old.length || column < young.length) {
    if (row < old.length && column < young.length && old[row] === young[column]) {
      kinds.push("same");
      row += 1;
      column += 1;
    } else if (row < old.length && (column === young.length || lengthAt(row + 1, column) >= lengthAt(row, column + 1))) {
      kinds.push("removed");
      row += 1;
    } else {
      kinds.push("added");
      column += 1;
    }
  }
  return kinds;
}

function numberLines(kinds, old, young) {
  let [before, after] = [0, 0];
  return kinds.map((kind) => {
    if (kind !== "added") before += 1;
    if (kind !== "removed") after += 1;
    const text = kind === "added" ? young[after - 1] : old[before - 1];
    return { kind, text, before: kind === "added" ? null : before, after: kind === "removed" ? null : after };
  });
}

function sortMembers(value) {
  if (Array.isArray(value)) return value.map(sortMembers);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.keys(value).sort().map((name) => [name, sortMembers(value[name])]));
}
