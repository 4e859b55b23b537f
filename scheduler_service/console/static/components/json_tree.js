// Reads a JSON text with the place of each value in it, so that errors find their line and edits leave the rest of the text alone.

const SPACE = /[ \t\r\n]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const WORD = /true|false|null/y;
const DEEPEST = 64;

/** A text that is no JSON; `code` is what is wrong (a key of texts below `editor.json`), `offset` where. */
export class JsonFault extends Error {
  constructor(code, offset) {
    super(code);
    this.code = code;
    this.offset = offset;
  }
}

/**
 * The tree of `text`: `{kind, start, end}` with kind object (`members`: `{key, keyStart, node}`), array (`items`: nodes) or scalar.
 * `end` is behind the last character. Throws JsonFault.
 */
export function readTree(text) {
  const reader = { text, at: 0 };
  const node = readValue(reader, 0);
  skip(reader);
  if (reader.at < text.length) throw new JsonFault("after", reader.at);
  return node;
}

/** The node at `path` (names and indices) below `tree`, or null. */
export function nodeAt(tree, path) {
  let node = tree;
  for (const step of path) {
    if (node?.kind === "object") node = node.members.findLast((one) => one.key === String(step))?.node ?? null;
    else if (node?.kind === "array") node = node.items[Number(step)] ?? null;
    else return null;
  }
  return node;
}

/** The path of the innermost value around `offset`. */
export function pathAround(tree, offset) {
  const path = [];
  let node = tree;
  for (;;) {
    const found = childAround(node, offset);
    if (found === null) return path;
    path.push(found.step);
    node = found.node;
  }
}

/** The line (from 0) of `offset` in `text`. */
export function lineOf(text, offset) {
  let line = 0;
  for (let at = text.indexOf("\n"); at >= 0 && at < offset; at = text.indexOf("\n", at + 1)) line += 1;
  return line;
}

/** The steps of a JSON Pointer: `/request/0/url` is `["request", "0", "url"]`. */
export function stepsOf(pointer) {
  return pointer.split("/").slice(1).map((step) => step.replace(/~1/g, "/").replace(/~0/g, "~"));
}

/** Whether `pointer` is `above`, or of something within it. */
export function isBelow(pointer, above) {
  return pointer === above || pointer.startsWith(`${above}/`);
}

/** The JSON Pointer of `path`. */
export function pointerOf(path) {
  return path.map((step) => `/${String(step).replace(/~/g, "~0").replace(/\//g, "~1")}`).join("");
}

function childAround(node, offset) {
  if (node.kind === "object") {
    const member = node.members.find((one) => one.keyStart <= offset && offset <= one.node.end);
    return member === undefined ? null : { step: member.key, node: member.node };
  }
  if (node.kind !== "array") return null;
  const index = node.items.findIndex((one) => one.start <= offset && offset <= one.end);
  return index < 0 ? null : { step: index, node: node.items[index] };
}

function readValue(reader, depth) {
  if (depth > DEEPEST) throw new JsonFault("deep", reader.at);
  skip(reader);
  const first = reader.text[reader.at];
  if (first === "{") return readObject(reader, depth);
  if (first === "[") return readArray(reader, depth);
  const start = reader.at;
  const pattern = first === '"' ? STRING : /[-\d]/.test(first ?? "") ? NUMBER : WORD;
  if (!take(reader, pattern)) throw new JsonFault(first === undefined ? "end" : first === '"' ? "string" : "value", start);
  return { kind: "scalar", start, end: reader.at };
}

function readObject(reader, depth) {
  const node = { kind: "object", start: reader.at, end: 0, members: [] };
  reader.at += 1;
  while (!closes(reader, "}", node.members.length > 0)) {
    const keyStart = reader.at;
    if (!take(reader, STRING)) throw new JsonFault(keyStart >= reader.text.length ? "end" : "key", keyStart);
    const key = JSON.parse(reader.text.slice(keyStart, reader.at));
    if (node.members.some((one) => one.key === key)) throw new JsonFault("twice", keyStart);
    skip(reader);
    if (reader.text[reader.at] !== ":") throw new JsonFault("colon", reader.at);
    reader.at += 1;
    node.members.push({ key, keyStart, node: readValue(reader, depth + 1) });
  }
  node.end = reader.at;
  return node;
}

function readArray(reader, depth) {
  const node = { kind: "array", start: reader.at, end: 0, items: [] };
  reader.at += 1;
  while (!closes(reader, "]", node.items.length > 0)) node.items.push(readValue(reader, depth + 1));
  node.end = reader.at;
  return node;
}

/** Whether the closing character comes next, and is passed; else passes the comma before a further value. */
function closes(reader, character, hasSome) {
  skip(reader);
  const next = reader.text[reader.at];
  if (next === character) {
    reader.at += 1;
    return true;
  }
  if (!hasSome) return false;
  if (next !== ",") throw new JsonFault(next === undefined ? "end" : "comma", reader.at);
  const comma = reader.at;
  reader.at += 1;
  skip(reader);
  if (reader.text[reader.at] === character) throw new JsonFault("trailing", comma);
  return false;
}

function take(reader, pattern) {
  pattern.lastIndex = reader.at;
  const found = pattern.exec(reader.text);
  if (found === null) return false;
  reader.at = pattern.lastIndex;
  return true;
}

function skip(reader) {
  take(reader, SPACE);
}
