// How members of a definition are typed into one line or a small area: from text to value and back.

import { t } from "../../core.js";

const NUMBER_OR_CLASS = /^[1-5][xX]{2}$/;

/** By kind of field: `read(text)` gives `{value}` (undefined: nothing is written) or `{fault}` in words; `write(value)` the text. */
export const CODECS = {
  text: { read: (text) => ({ value: text === "" ? undefined : text }), write: writeText },
  required: { read: (text) => ({ value: text }), write: writeText },
  number: { read: readNumber, write: writeText },
  list: { read: (text) => ({ value: readList(text) }), write: writeList },
  codes: { read: readCodes, write: writeList },
  statuses: { read: readStatuses, write: writeList },
};

function writeText(value) {
  if (value === undefined || value === null) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function writeList(value) {
  return Array.isArray(value) ? value.map(writeText).join(", ") : writeText(value);
}

function readNumber(text) {
  const trimmed = text.trim();
  if (trimmed === "") return { value: undefined };
  const value = Number(trimmed);
  return Number.isFinite(value) ? { value } : { fault: t("editor.notNumber") };
}

function readList(text) {
  const items = text.split(/[,\s]+/).filter(Boolean);
  return items.length === 0 ? undefined : items;
}

/** One code is written as a string, several as a list: both are what the definition takes. */
function readCodes(text) {
  const items = text.split(",").map((one) => one.trim()).filter(Boolean);
  return { value: items.length === 0 ? undefined : items.length === 1 ? items[0] : items };
}

function readStatuses(text) {
  const items = readList(text);
  return { value: items?.map((one) => (NUMBER_OR_CLASS.test(one) || Number.isNaN(Number(one)) ? one : Number(one))) };
}
