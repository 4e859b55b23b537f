// Texts in the reader's language: those of the page from one flat JSON each, those of a screen with its file.

import { ASSETS } from "./assets.js";
import { preferences } from "./preferences.js";
import { shallowReactive, watch } from "./vue.js";

const shown = shallowReactive({ byKey: {}, language: "" });
const known = {};
const loads = new Map();
const intlFormats = new Map();

/**
 * The text of `key` with `{name}` replaced by values. With `count` among them the form is chosen by the language's rules of plurals:
 * `key.one`, `key.other`. A key without a text is shown as it is.
 */
export function t(key, values = {}) {
  const found = shown.byKey[key] ?? shown.byKey[`${key}.${pluralOf(values.count)}`] ?? shown.byKey[`${key}.other`] ?? key;
  return found.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

/** Whether there is a text of this key. */
export function hasText(key) {
  return key in shown.byKey;
}

/** The tag of the reader's language for `Intl`. */
export function localeOf() {
  return preferences.language === "zh" ? "zh-CN" : "en-GB";
}

/** The format of `Intl` of this kind in the reader's language; made once, since to make one takes longer than to use it fifty times. */
export function intlFormat(kind, options, locale = localeOf()) {
  const key = JSON.stringify([kind, locale, options]);
  if (!intlFormats.has(key)) intlFormats.set(key, new Intl[kind](locale, options));
  return intlFormats.get(key);
}

/** Loads the texts, now and whenever another language is chosen. Returns when the first ones are there. */
export async function startLanguage() {
  loads.set("", loadOwn);
  await show();
  watch(() => preferences.language, show);
}

/**
 * The texts of a part of the console: `load(language)` gives `{key: text}`, now and whenever another language is chosen.
 * Returns when they are there. A language is shown when all parts have their texts in it.
 */
export async function addTexts(part, load) {
  loads.set(part, load);
  try {
    const languages = new Set([shown.language || preferences.language, preferences.language]);
    await Promise.all([...languages].map((language) => take(language, load)));
  } catch (error) {
    loads.delete(part);
    throw error;
  }
  if (shown.language in known) shown.byKey = known[shown.language];
}

async function show() {
  const { language } = preferences;
  await Promise.all([...loads.values()].map((load) => take(language, load)));
  if (language === preferences.language) Object.assign(shown, { byKey: known[language], language });
}

async function take(language, load) {
  const texts = await load(language);
  known[language] = { ...known[language], ...texts };
}

async function loadOwn(language) {
  const response = await fetch(new URL(`language/${language}.json`, ASSETS));
  if (!response.ok) throw new Error(`no texts: ${response.status}`);
  return response.json();
}

function pluralOf(count) {
  return count === undefined ? "other" : intlFormat("PluralRules").select(Number(String(count).replace(/\D/g, "")));
}
