// Edits of a JSON text: each changes the characters of one value and leaves order, spacing, numbers and unknown members as they are.

import { nodeAt, readTree } from "./json_tree.js";

const INDENT = "  ";

/** `text` with `value` (a JSON value; undefined removes it) at `path`; missing objects on the way are made. */
export function withValue(text, path, value) {
  return value === undefined ? without(text, path) : withPart(text, path, JSON.stringify(value));
}

/** The same with a JSON text, whose numbers stay as they are written. */
export function withPart(text, path, part) {
  const tree = readTree(text);
  const node = nodeAt(tree, path);
  if (node !== null) return replaced(text, node.start, node.end, indented(part, path.length));
  const parentPath = path.slice(0, -1);
  const parent = nodeAt(tree, parentPath);
  if (parent === null) return withPart(text, parentPath, nested(path.at(-1), part));
  if (parent.kind === "object") return withMember(text, parent, path, part);
  if (parent.kind === "array") return withItemPart(text, parentPath, parent.items.length, part);
  return replaced(text, parent.start, parent.end, indented(nested(path.at(-1), part), parentPath.length));
}

/** `text` without what is at `path`; what is not there stays away. */
export function without(text, path) {
  const tree = readTree(text);
  const parent = nodeAt(tree, path.slice(0, -1));
  const spans = spansOf(parent);
  const index = indexOf(parent, path.at(-1));
  if (index < 0) return text;
  if (spans.length === 1) return replaced(text, parent.start, parent.end, parent.kind === "object" ? "{}" : "[]");
  const [from, to] = index === 0 ? [spans[0][0], spans[1][0]] : [spans[index - 1][1], spans[index][1]];
  return replaced(text, from, to, "");
}

/** `text` with `value` put before item `index` of the array at `path`. */
export function withItem(text, path, index, value) {
  return withItemPart(text, path, index, JSON.stringify(value));
}

/** `text` with item `from` of the array at `path` in the place of item `to`, and the other way round. */
export function withSwapped(text, path, from, to) {
  const { items } = nodeAt(readTree(text), path);
  const [first, second] = [items[Math.min(from, to)], items[Math.max(from, to)]];
  const texts = [text.slice(first.start, first.end), text.slice(second.start, second.end)];
  return replaced(replaced(text, second.start, second.end, texts[0]), first.start, first.end, texts[1]);
}

/** The value written by two spaces a level, numbers as they stand in `text`. Throws JsonFault. */
export function arranged(text) {
  return arrange(text, readTree(text), 0);
}

/** The part of `text` at `path`, arranged; null where there is none. Throws JsonFault. */
export function partOf(text, path) {
  const node = nodeAt(readTree(text), path);
  return node === null ? null : arrange(text, node, 0);
}

/** The same of a node of the tree of `text`. */
export function partOfNode(text, node) {
  return arrange(text, node, 0);
}

function arrange(text, node, depth) {
  const inner = `\n${INDENT.repeat(depth + 1)}`;
  const outer = `\n${INDENT.repeat(depth)}`;
  if (node.kind === "scalar") return text.slice(node.start, node.end);
  if (node.kind === "array") {
    if (node.items.length === 0) return "[]";
    const items = node.items.map((one) => arrange(text, one, depth + 1));
    if (items.every((one) => !one.includes("\n")) && items.join(", ").length < 60 && node.items.every((one) => one.kind === "scalar")) return `[${items.join(", ")}]`;
    return `[${inner}${items.join(`,${inner}`)}${outer}]`;
  }
  if (node.members.length === 0) return "{}";
  const members = node.members.map((one) => `${JSON.stringify(one.key)}: ${arrange(text, one.node, depth + 1)}`);
  return `{${inner}${members.join(`,${inner}`)}${outer}}`;
}

function withItemPart(text, path, index, part) {
  const node = nodeAt(readTree(text), path);
  if (node === null || node.kind !== "array") return withPart(text, path, `[${part}]`);
  const { open, between, close, write } = spacing(text, node, path.length);
  const item = write(part);
  if (node.items.length === 0) return replaced(text, node.start, node.end, `[${open}${item}${close}]`);
  if (index >= node.items.length) return replaced(text, node.items.at(-1).end, node.items.at(-1).end, `,${between}${item}`);
  const at = node.items[index].start;
  return replaced(text, at, at, `${item},${between}`);
}

function withMember(text, parent, path, part) {
  const { open, between, close, write } = spacing(text, parent, path.length - 1);
  const member = `${JSON.stringify(String(path.at(-1)))}: ${write(part)}`;
  if (parent.members.length === 0) return replaced(text, parent.start, parent.end, `{${open}${member}${close}}`);
  const { end } = parent.members.at(-1).node;
  return replaced(text, end, end, `,${between}${member}`);
}

/** The space of a list as its author writes it: on one line where the present one has none, else a line each. */
function spacing(text, node, depth) {
  const isOnOneLine = spansOf(node).length > 0 && !text.slice(node.start, node.end).includes("\n");
  if (isOnOneLine) return { open: "", between: " ", close: "", write: (part) => part };
  const line = `\n${INDENT.repeat(depth + 1)}`;
  return { open: line, between: line, close: `\n${INDENT.repeat(depth)}`, write: (part) => indented(part, depth + 1) };
}

function spansOf(node) {
  if (node?.kind === "object") return node.members.map((one) => [one.keyStart, one.node.end]);
  return node?.kind === "array" ? node.items.map((one) => [one.start, one.end]) : [];
}

function indexOf(node, step) {
  if (node?.kind === "object") return node.members.findIndex((one) => one.key === String(step));
  return node?.kind === "array" && Number(step) < node.items.length ? Number(step) : -1;
}

function nested(step, part) {
  return typeof step === "number" ? `[${part}]` : `{${JSON.stringify(step)}: ${part}}`;
}

function indented(part, depth) {
  return arranged(part).replace(/\n/g, `\n${INDENT.repeat(depth)}`);
}

function replaced(text, start, end, part) {
  return text.slice(0, start) + part + text.slice(end);
}
