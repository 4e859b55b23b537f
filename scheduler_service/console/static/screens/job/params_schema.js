// What a `paramsSchema` says of the parameters: fields to fill in, and what to begin with. It is read and never run: what fits, the service says.

import { stepsOf } from "../../core.js";

/** Objects in objects that are drawn as fields; what is deeper is a field of JSON. */
const DEEPEST = 4;
const MOST_FIELDS = 100;
const MOST_REFERENCES = 20;
const MOST_CHOICES = 300;
const LONGEST = 300;

/**
 * The fields of `schema` (any JSON value): `{fields, rest}`, `rest` the number of members that are not drawn. A field is `{path, name, label, about,
 * kind, isRequired, isNullable, choices, limits, fields}`: `kind` is text, number, flag, choice, object (with its `fields`) or json; `limits` are pairs of
 * a keyword and its value, to be shown. No fields: the schema names no member.
 */
export function readFields(schema) {
  const state = { root: schema, left: MOST_FIELDS, rest: 0 };
  return { fields: membersOf(state, resolved(schema, schema), [], []), rest: state.rest };
}

/**
 * What to begin with: defaults, and what is required: its only value, an object with the same, an empty list, else null for whoever fills it in.
 */
export function skeletonOf(schema) {
  const { default: given } = resolved(schema, schema);
  return isObject(given) ? given : valueOfObject(readFields(schema).fields);
}

/** All fields, those of objects too, in order. */
export function flatten(fields) {
  return fields.flatMap((one) => [one, ...flatten(one.fields)]);
}

/** Whether what is required is not there: null stands for it where the schema takes no null. */
export function isMissing(field, value) {
  if (!field.isRequired) return false;
  return value === undefined || (value === null && !field.isNullable && field.kind !== "json");
}

/** `above` are the schemas around `part`: one that is in itself is drawn once. */
function membersOf(state, part, path, above) {
  const around = [...above, ...part.read];
  const properties = isObject(part.properties) ? part.properties : {};
  const required = new Set(Array.isArray(part.required) ? part.required.filter((one) => typeof one === "string") : []);
  const fields = [];
  for (const name of new Set([...Object.keys(properties), ...required])) {
    if (state.left === 0) state.rest += 1;
    else fields.push(fieldOf(state, [...path, name], Object.hasOwn(properties, name) ? properties[name] : true, required.has(name), around));
  }
  return fields;
}

function fieldOf(state, path, schema, isRequired, above) {
  state.left -= 1;
  const part = resolved(state.root, schema);
  const isTooDeep = path.length > DEEPEST || part.read.some((one) => above.includes(one));
  const kind = isTooDeep && kindOfPart(part) === "object" ? "json" : kindOfPart(part);
  const name = path.at(-1);
  return {
    path,
    name,
    label: textOf(part.title) || textOf(name) || '""',
    about: textOf(part.description),
    kind,
    isRequired,
    isNullable: part.isNullable || valuesOf(part).includes(null),
    choices: valuesOf(part),
    limits: kind === "choice" ? [] : LIMITS.filter((one) => Object.hasOwn(part, one) && part[one] !== null).map((one) => [one, shortJson(part[one])]),
    default: part.default,
    isList: typesOf(part).join() === "array",
    fields: kind === "object" ? membersOf(state, part, path, above) : [],
  };
}

const LIMITS = ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "format", "pattern", "default"];

function kindOfPart(part) {
  if (part.isOpen) return "json";
  const choices = valuesOf(part);
  if (choices.length > 0) return choices.length > MOST_CHOICES ? "json" : "choice";
  const types = typesOf(part);
  const isForMembers = isObject(part.properties) && Object.keys(part.properties).length > 0;
  if (types.length === 0 && isForMembers) return "object";
  if (types.length !== 1) return "json";
  return { string: "text", number: "number", integer: "number", boolean: "flag", object: isForMembers ? "object" : "json" }[types[0]] ?? "json";
}

/** The types but for null. */
function typesOf(part) {
  return [part.type].flat().filter((one) => typeof one === "string" && one !== "null");
}

function valuesOf(part) {
  if (Object.hasOwn(part, "const")) return [part.const];
  return Array.isArray(part.enum) ? part.enum : [];
}

/**
 * `part` with what it refers to, as far as one schema can say it: local references, an `allOf` of one, and a choice between null and one other
 * (`isNullable`). `isOpen`: there are alternatives, of which a field cannot tell. `read`: the schemas that it is made of.
 */
function resolved(root, part) {
  let found = { isNullable: false, isOpen: false, read: [] };
  let next = part;
  for (let steps = 0; isObject(next); steps += 1) {
    if (steps > MOST_REFERENCES) return { ...found, isOpen: true };
    const { $ref, $dynamicRef, allOf, anyOf, oneOf, not: _not, if: _if, isNullable: _nullable, isOpen: _open, read: _read, ...own } = next;
    const choices = [anyOf, oneOf].filter(Array.isArray);
    const others = choices.flat().filter((one) => one?.type !== "null");
    const further = [$ref === undefined ? undefined : targetOf(root, $ref), ...(Array.isArray(allOf) ? allOf : []), ...others].filter((one) => one !== undefined);
    const isNullable = found.isNullable || choices.some((list) => list.some((one) => one?.type === "null")) || [own.type].flat().includes("null");
    found = { ...own, ...found, read: [...found.read, next], isNullable, isOpen: found.isOpen || $dynamicRef !== undefined || choices.length > 1 || others.length > 1 };
    next = further.length === 1 ? further[0] : undefined;
    if (further.length > 1 && typesOf(found).length === 0) found.isOpen = true;
  }
  return found;
}

/** What a reference within the schema leads to; `true`, which says nothing, where it leads elsewhere. */
function targetOf(root, reference) {
  try {
    if (!String(reference).startsWith("#")) return true;
    const steps = stepsOf(decodeURIComponent(reference.slice(1)));
    return steps.reduce((one, step) => (Object(one) === one && Object.hasOwn(one, step) ? one[step] : true), root);
  } catch {
    return true;
  }
}

/** What is required of an object and what has a default; `__proto__` is a name as each other. */
function valueOfObject(fields) {
  return Object.fromEntries(fields.map((one) => [one.name, beginningOf(one)]).filter(([, value]) => value !== undefined));
}

function beginningOf(field) {
  if (field.default !== undefined && (field.default !== null || field.isRequired)) return field.default;
  if (!field.isRequired) return undefined;
  if (field.kind === "object") return valueOfObject(field.fields);
  if (field.choices.length === 1) return field.choices[0];
  return field.isList ? [] : null;
}

function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function textOf(value) {
  return typeof value === "string" ? cut(value.trim()) : "";
}

function shortJson(value) {
  return typeof value === "string" ? cut(value) : cut(JSON.stringify(value));
}

function cut(text) {
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}
