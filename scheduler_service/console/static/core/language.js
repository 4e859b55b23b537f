// Texts in the reader's language, from one flat JSON each.

import { ASSETS } from "./assets.js";
import { preferences } from "./preferences.js";
import { shallowReactive, watch } from "./vue.js";

const texts = shallowReactive({ byKey: {}, language: "" });

/**
 * The text of `key` with `{name}` replaced by values. With `count` among them the form is chosen by the language's rules of plurals:
 * `key.one`, `key.other`. A key without a text is shown as it is.
 */
export function t(key, values = {}) {
  const found = texts.byKey[key] ?? texts.byKey[`${key}.${pluralOf(values.count)}`] ?? texts.byKey[`${key}.other`] ?? key;
  return found.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

/** Whether there is a text of this key. */
export function hasText(key) {
  return key in texts.byKey;
}

/** The tag of the reader's language for `Intl`. */
export function localeOf() {
  return preferences.language === "zh" ? "zh-CN" : "en-GB";
}

/** Loads the texts, now and whenever another language is chosen. Returns when the first ones are there. */
export async function startLanguage() {
  await load();
  watch(() => preferences.language, load);
}

async function load() {
  const language = preferences.language;
  const response = await fetch(new URL(`language/${language}.json`, ASSETS));
  if (response.ok) Object.assign(texts, { byKey: await response.json(), language });
}

function pluralOf(count) {
  return count === undefined ? "other" : new Intl.PluralRules(localeOf()).select(Number(String(count).replace(/\D/g, "")));
}
