// Which screen shows which place; screens are loaded when they are first wanted.

import { counted } from "./api.js";
import { ASSETS } from "./assets.js";
import { addTexts } from "./language.js";
import { may } from "./session.js";

/**
 * Places and their screens, the first that fits counts; `:name` is any segment, and becomes a property of the screen. `needs`: whom they are for, as
 * `may` takes it; else everybody.
 */
export const PLACES = [
  { path: "/", screen: "overview", text: "overview.title" },
  { path: "/jobs", screen: "jobs", text: "jobs.title" },
  { path: "/new", screen: "editor", text: "editor.new", needs: ["editor"] },
  { path: "/jobs/:jobId", screen: "job", text: "jobs.title" },
  { path: "/jobs/:jobId/edit", screen: "editor", text: "editor.edit", needs: ["editor"] },
  { path: "/executions", screen: "executions", text: "executions.title" },
  { path: "/executions/:executionId", screen: "execution", text: "executions.title" },
  { path: "/calendars", screen: "calendars", text: "calendars.title", needs: ["viewer", "tenant"] },
  { path: "/calendars/:name", screen: "calendars", text: "calendars.title", needs: ["viewer", "tenant"] },
  { path: "/new-calendar", screen: "calendars", text: "calendars.new", needs: ["editor", "tenant"] },
  { path: "/upcoming", screen: "upcoming", text: "upcoming.title" },
  { path: "/deliveries", screen: "deliveries", text: "deliveries.title" },
  { path: "/services", screen: "services", text: "services.title", needs: ["viewer", "service"] },
  { path: "/services/:name", screen: "services", text: "services.title", needs: ["viewer", "service"] },
  { path: "/queues", screen: "queues", text: "queues.title", needs: ["viewer", "service"] },
  { path: "/queues/:name", screen: "queues", text: "queues.title", needs: ["viewer", "service"] },
  { path: "/nodes", screen: "nodes", text: "nodes.title", needs: ["viewer", "platform"] },
  { path: "/alerts", screen: "alerts", text: "alerts.title", needs: ["viewer", "platform"] },
  { path: "/keys", screen: "access", text: "access.title", needs: ["admin", "tenant"] },
  { path: "/secrets", screen: "secrets", text: "secrets.title", needs: ["editor", "tenant"] },
  { path: "/audit", screen: "audit", text: "audit.title", needs: ["admin", "tenant"] },
  { path: "/settings", screen: "settings", text: "settings.title", needs: ["admin", "platform"] },
];

/** The place with these segments: `{screen, properties, path}`, or null where there is none. */
export function findPlace(segments) {
  for (const place of PLACES) {
    const properties = match(place.path.split("/").filter(Boolean), segments);
    if (properties !== null) return { ...place, properties };
  }
  return null;
}

/** Whether a place is for the reader. */
export function mayOpen({ needs }) {
  return needs === undefined || may(...needs);
}

const components = new Map();

/** The component of a screen that was loaded before, or null. */
export function loadedScreen(name) {
  return components.get(name) ?? null;
}

/** The component of a screen, when its texts and styles are there too. Throws where its file cannot be loaded. */
export async function loadScreen(name) {
  if (!components.has(name)) await counted(addTexts(name, (language) => load(name, language)));
  return components.get(name);
}

/** The texts of a screen from its file of a language; the first such file gives its component and styles. */
async function load(name, language) {
  const { Screen, default: carried } = await import(new URL(`screens/${name}.${language}.js`, ASSETS).href);
  if (!components.has(name)) {
    components.set(name, Screen);
    addStyles(carried.styles);
  }
  return carried.texts;
}

/** The policy of the page refuses style elements, and lets a script adopt a style sheet. */
function addStyles(text) {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(text);
  document.adoptedStyleSheets.push(sheet);
}

function match(pattern, segments) {
  if (pattern.length !== segments.length) return null;
  const properties = {};
  for (const [index, part] of pattern.entries()) {
    if (part.startsWith(":")) properties[part.slice(1)] = segments[index];
    else if (part !== segments[index]) return null;
  }
  return properties;
}
