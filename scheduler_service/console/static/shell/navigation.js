// The column at the left: the parts of the console, and what is the reader's own: search, colours, zone, language, session.

import { connection } from "../core/api.js";
import { html } from "../core/html.js";
import { t } from "../core/language.js";
import { attempt } from "../core/notices.js";
import { preferences } from "../core/preferences.js";
import { route } from "../core/router.js";
import { PLACES, mayOpen } from "../core/screens.js";
import { draftKeys, session, signOut } from "../core/session.js";
import { now } from "../core/times.js";
import { showUnseen } from "../core/unseen.js";
import { formatDuration } from "../core/formats.js";
import { onMounted, onUnmounted, ref, watch } from "../core/vue.js";
import { confirm } from "../components/dialogs.js";
import { Icon } from "../components/icons.js";

const PARTS = [
  ["/", "home", "overview.title"],
  ["/jobs", "jobs", "jobs.title"],
  ["/executions", "executions", "executions.title"],
  ["/upcoming", "calendar", "upcoming.title"],
  ["/calendars", "days", "calendars.title"],
  ["/deliveries", "send", "deliveries.title"],
  ["/services", "service", "services.title"],
  ["/queues", "queue", "queues.title"],
  ["/nodes", "node", "nodes.title"],
  ["/alerts", "bell", "alerts.title"],
  ["/keys", "key", "access.title"],
  ["/secrets", "lock", "secrets.title"],
  ["/audit", "list", "audit.title"],
  ["/settings", "gear", "settings.title"],
];

/** The parts of the console that are for the reader, in order: place, pictogram, name. */
export function ownParts() {
  return PARTS.filter(([path]) => mayOpen(PLACES.find((place) => place.path === path)));
}

const THEMES = { auto: "light", light: "dark", dark: "auto" };
const ZONES = ["browser", "job", "utc"];

/** The column; `onSearch` opens the command palette. On a phone it is a line, which brings the present part into sight. */
export const Navigation = {
  props: { onSearch: Function },
  setup(props) {
    const present = () => document.querySelector(".navigation [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
    const column = ref(null);
    // When the column has a size: before that the browser would have to lay the page out once more.
    const observer = new ResizeObserver(present);
    onMounted(() => observer.observe(column.value));
    onUnmounted(() => observer.disconnect());
    watch(() => route.path, present, { flush: "post" });
    return () => content(column, props.onSearch);
  },
};

function content(column, onSearch) {
  return html`
    <aside class="navigation" ref=${column}>
      <a class="brand" href="#/"><${Icon} name="clock" size=${20}/><span>Punctual</span></a>
      <nav aria-label=${t("navigation.parts")}>
        ${ownParts().map(
          ([path, icon, text]) => html`
            <a key=${path} href=${`#${path}`} aria-current=${isAt(path) ? "page" : undefined}>
              <${Icon} name=${icon}/><span>${t(text)}</span>
            </a>
          `,
        )}
      </nav>
      <${ConnectionState}/>
      <div class="own">
        <button type="button" class="button bare" aria-label=${t("palette.title")} title=${t("palette.title")} onClick=${onSearch}>
          <${Icon} name="search"/><kbd aria-hidden="true">Ctrl K</kbd>
        </button>
        <button type="button" class="button bare" aria-label=${t(`theme.${preferences.theme}`)} title=${t(`theme.${preferences.theme}`)} onClick=${nextTheme}>
          <${Icon} name=${preferences.theme === "dark" ? "moon" : preferences.theme === "light" ? "sun" : "contrast"}/>
        </button>
        <button type="button" class="button bare" lang=${preferences.language === "en" ? "zh-CN" : "en"} onClick=${nextLanguage}>
          ${preferences.language === "en" ? "中文" : "EN"}
        </button>
        <label class="zone">
          <span class="unseen">${t("zone.label")}</span>
          <select value=${preferences.zone} onChange=${(event) => (preferences.zone = event.target.value)}>
            ${ZONES.map((zone) => html`<option key=${zone} value=${zone}>${t(`zone.${zone}`)}</option>`)}
          </select>
        </label>
        ${session.needsKey && signOutButton()}
      </div>
    </aside>
  `;
}

/** Who is signed in: name and role, and tenant and part where these are not all there is. */
function ownerOf({ needsKey, name, role, tenant, service, labels }) {
  return [needsKey && name !== role && showUnseen(name), t(`role.${role}`), tenant !== "default" && tenant, service, ...labels].filter(Boolean).join(" · ");
}

/** Whom a proxy has signed in, it signs in again at once: such a reader may take a key instead. */
function signOutButton() {
  if (session.isOfProxy) return html`<button type="button" class="button bare" onClick=${() => (session.isAsked = true)}>${t("session.withKey")}</button>`;
  return html`<button type="button" class="button bare" onClick=${leave}>${t("session.out")}</button>`;
}

/** Whether the service answers, and since when it does not. */
export function ConnectionState() {
  const text = connection.isReachable
    ? t("connection.on")
    : t("connection.off", { time: formatDuration(Math.max(0, now.value - connection.since)) });
  return html`
    <p class=${["connection", connection.isReachable ? "good" : "bad"]} role="status">
      <${Icon} name=${connection.isReachable ? "dot" : "alert"} size=${12}/>${text}
      <span class="dim">${session.role !== null && ownerOf(session)}</span>
    </p>
  `;
}

function isAt(path) {
  if (path === "/") return route.path === "/";
  return route.path === path || route.path.startsWith(`${path}/`) || (path === "/jobs" && route.path === "/new") || (path === "/calendars" && route.path === "/new-calendar");
}

/** Drafts go with the session: whoever has some is asked. */
async function leave() {
  const isAsked = draftKeys().length > 0;
  if (isAsked && !(await confirm({ title: t("session.out"), text: t("session.drafts"), action: t("session.out"), isDangerous: true }))) return;
  await attempt(signOut);
}

function nextTheme() {
  preferences.theme = THEMES[preferences.theme];
}

function nextLanguage() {
  preferences.language = preferences.language === "en" ? "zh" : "en";
}
