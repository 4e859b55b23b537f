// What this browser remembers of its reader: colours, language, time zone; nothing of it is a secret.

import { reactive, watch } from "./vue.js";

const KEY = "punctual.preferences";
const DEFAULTS = { theme: "auto", language: navigator.language.startsWith("zh") ? "zh" : "en", zone: "browser" };

/** `theme`: auto, light or dark. `language`: en or zh. `zone`: browser, utc or job (the zone of each job's timer). */
export const preferences = reactive({ ...DEFAULTS, ...stored() });

/** Applies the preferences to the page and keeps them from now on. */
export function startPreferences() {
  watch(preferences, apply, { immediate: true });
}

function apply() {
  document.documentElement.dataset.theme = preferences.theme;
  document.documentElement.lang = preferences.language === "zh" ? "zh-CN" : "en";
  try {
    localStorage.setItem(KEY, JSON.stringify(preferences));
  } catch {
    // A browser that keeps nothing shows the defaults next time.
  }
}

function stored() {
  try {
    return JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch {
    return {};
  }
}
