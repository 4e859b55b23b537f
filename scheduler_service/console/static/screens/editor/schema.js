// What the JSON Schema of a definition says about one member: default, bounds, choices. The service writes it; nothing of it is repeated here.

/** The subschema of the member at `path`, `{}` where the schema says nothing (or is not there). */
export function memberOf(schema, path) {
  let part = schema;
  for (const step of path) part = resolved(schema, childOf(resolved(schema, part), step));
  return part ?? {};
}

/** The default of the member at `path` as a text; "" for none, null and empty lists and maps. */
export function defaultOf(schema, path) {
  const value = memberOf(schema, path).default;
  if (value === undefined || value === null) return "";
  if (typeof value !== "object") return String(value);
  return Array.isArray(value) ? value.join(", ") : "";
}

/** The words among which the member at `path` chooses; `known` where the schema is not there. */
export function choicesOf(schema, path, known) {
  return memberOf(schema, path).enum ?? known;
}

function childOf(part, step) {
  if (part === undefined || part === null) return undefined;
  return part.properties?.[step] ?? part.items ?? part.additionalProperties;
}

function resolved(schema, part) {
  if (part === undefined || part === null || part === true || part === false) return undefined;
  const outer = part.default === undefined ? {} : { default: part.default };
  if (part.$ref !== undefined) return { ...resolved(schema, schema.$defs?.[part.$ref.split("/").at(-1)]), ...outer };
  const choices = part.anyOf ?? part.oneOf;
  if (choices === undefined) return part;
  const best = choices.find((one) => one.type !== "null" && one.type !== "string") ?? choices[0];
  return { ...resolved(schema, best), ...outer };
}
