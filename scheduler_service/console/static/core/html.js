// The tag `html`: markup in a template literal becomes Vue nodes, without compiling code in the browser.
//
// html`<p class="dim" onClick=${go}>${text}</p>`; html`<${Badge} state=${state}/>`; ...${props} spreads. What stands in a hole is a
// value and never markup: texts are escaped by the browser, since they become text nodes, and unseen characters in them are written out
// (see unseen.js). Children of a component are its default slot; a single child that is an object of functions names its slots.

import { showUnseen } from "./unseen.js";
import { h } from "./vue.js";

const HOLE = /\u0001(\d+)\u0002/;
const HOLES = /\u0001(\d+)\u0002/g;
const TAG = /<(\/?)(\u0001\d+\u0002|[a-zA-Z][\w-]*)?((?:"[^"]*"|[^">])*?)(\/?)>/g;
const ATTRIBUTE = /\.\.\.\u0001(\d+)\u0002|([^\s=]+)(?:=(?:"([^"]*)"|(\u0001\d+\u0002)))?/g;
// Attributes that are read to people; the value of a field stays what it is.
const READ = new Set(["title", "aria-label", "aria-valuetext"]);
const VOID = new Set(["br", "col", "hr", "img", "input", "link", "meta", "wbr"]);
const parsed = new WeakMap();

/** The node, or the array of nodes, that the markup describes. Throws SyntaxError for tags that do not match. */
export function html(strings, ...values) {
  let nodes = parsed.get(strings);
  if (nodes === undefined) {
    nodes = parseMarkup(strings);
    parsed.set(strings, nodes);
  }
  const built = nodes.map((node) => build(node, values));
  return built.length === 1 ? built[0] : built;
}

function parseMarkup(strings) {
  const text = strings.reduce((whole, part, index) => `${whole}\u0001${index - 1}\u0002${part}`);
  const root = { children: [] };
  const open = [root];
  let end = 0;
  for (const match of text.matchAll(TAG)) {
    addText(open.at(-1), text.slice(end, match.index));
    end = match.index + match[0].length;
    const [, isClosing, name, attributes, isEmpty] = match;
    if (isClosing) closeElement(open, name, text);
    else addElement(open, name, attributes, isEmpty === "/" || VOID.has(name));
  }
  addText(root, text.slice(end));
  if (open.length > 1) throw new SyntaxError(`<${open.at(-1).name}> is not closed in ${text}`);
  return root.children;
}

function addElement(open, name, attributes, isEmpty) {
  const node = { name, component: holeOf(name), attributes: parseAttributes(attributes), children: [] };
  open.at(-1).children.push(node);
  if (!isEmpty) open.push(node);
}

function closeElement(open, name, text) {
  const node = open.pop();
  if (open.length === 0 || (name !== undefined && holeOf(name) === undefined && name !== node.name)) {
    throw new SyntaxError(`</${name ?? ""}> closes nothing in ${text}`);
  }
}

function addText(parent, raw) {
  const text = raw.replace(/^\s*\n\s*|\s*\n\s*$/g, "").replace(/\s*\n\s*/g, " ");
  if (text === "") return;
  text.split(HOLES).forEach((part, index) => {
    if (index % 2 === 1) parent.children.push({ hole: Number(part) });
    else if (part !== "") parent.children.push({ text: part });
  });
}

function parseAttributes(text) {
  if (/=(?!["\u0001])/.test(text.replace(/"[^"]*"/g, '""'))) throw new SyntaxError(`a value without quotes in ${text}`);
  return [...text.matchAll(ATTRIBUTE)].map(([, spread, name, quoted, hole]) => {
    if (spread !== undefined) return { spread: Number(spread) };
    if (hole !== undefined) return { name, hole: holeOf(hole) };
    return quoted === undefined ? { name, value: true } : { name, parts: quoted.split(HOLES) };
  });
}

function holeOf(text) {
  const found = HOLE.exec(text ?? "");
  return found === null ? undefined : Number(found[1]);
}

function build(node, values) {
  if (node.text !== undefined) return node.text;
  if (node.hole !== undefined) return readable(values[node.hole]);
  const props = node.attributes.length === 0 ? null : buildProps(node.attributes, values);
  const children = node.children.map((child) => build(child, values));
  if (node.component === undefined) return h(node.name, props, children);
  const component = values[node.component];
  // A mark has neither state nor slots: a list has ten of them in each row, and to make a component of one costs more than to draw it.
  return component.isMark ? component(props ?? {}) : h(component, props, slotsOf(children));
}

function readable(value) {
  return typeof value === "string" ? showUnseen(value) : value;
}

function slotsOf(children) {
  if (children.length === 0) return null;
  const [first] = children;
  if (children.length === 1 && isSlots(first)) return first;
  return { default: () => children };
}

function isSlots(value) {
  if (value === null || typeof value !== "object" || Array.isArray(value) || value.__v_isVNode) return false;
  return Object.values(value).every((slot) => typeof slot === "function");
}

function buildProps(attributes, values) {
  const props = {};
  for (const one of attributes) {
    if (one.spread !== undefined) Object.assign(props, values[one.spread]);
    else if (one.hole !== undefined) props[one.name] = READ.has(one.name) ? readable(values[one.hole]) : values[one.hole];
    else if (one.value !== undefined) props[one.name] = one.value;
    else props[one.name] = one.parts.map((part, index) => (index % 2 === 1 ? values[Number(part)] : part)).join("");
  }
  return props;
}
