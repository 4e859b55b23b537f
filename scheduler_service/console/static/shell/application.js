// The whole page: navigation, the screen of the present place, notices, palette, help, sign-in.

import { connection } from "../core/api.js";
import { html } from "../core/html.js";
import { useKeys } from "../core/keys.js";
import { t } from "../core/language.js";
import { dropNotice, notices } from "../core/notices.js";
import { navigate, route } from "../core/router.js";
import { findPlace, loadScreen, loadedScreen, mayOpen } from "../core/screens.js";
import { may, reaches, session } from "../core/session.js";
import { showUnseen } from "../core/unseen.js";
import { nextTick, onMounted, reactive, ref, shallowRef, watch, watchEffect } from "../core/vue.js";
import { Confirmation } from "../components/dialogs.js";
import { Icon } from "../components/icons.js";
import { EmptyState, Waiting } from "../components/panels.js";
import { KeysHelp } from "./help.js";
import { Navigation } from "./navigation.js";
import { Palette } from "./palette.js";
import { SignIn } from "./sign_in.js";

const SETTLED_MS = 80;

/** The root component. */
export const Application = {
  setup() {
    const open = reactive({ palette: false, help: false });
    // The screen begins first: while its questions are on their way, the column is drawn.
    const isBegun = ref(false);
    onMounted(() => (isBegun.value = true));
    useShortcuts(open);
    useSettled();
    return () => {
      if (session.isKnown && (session.role === null || session.isAsked)) return html`<${SignIn}/>`;
      return html`
        <a class="skip" href="#content" onClick=${toContent}>${t("navigation.skip")}</a>
        ${isBegun.value && html`<${Navigation} onSearch=${() => (open.palette = true)}/>`}
        <${Content}/>
        <${Notices}/>
        <${Confirmation}/>
        ${open.palette && html`<${Palette} onClose=${() => (open.palette = false)}/>`}
        ${open.help && html`<${KeysHelp} onClose=${() => (open.help = false)}/>`}
      `;
    };
  },
};

/** The screen of the present place; its title is the page's, and the keyboard begins at its head. */
const Content = {
  setup() {
    const screen = shallowRef(null);
    const take = (place, component) => (screen.value = { component, name: place.screen, properties: place.properties });
    const failure = ref(null);
    const main = ref(null);
    let shown = "";
    async function show() {
      const { path } = route;
      const place = ownPlace();
      if (place === null) return void (screen.value = null);
      try {
        const component = await loadScreen(place.screen);
        if (path !== route.path) return;
        take(place, component);
        failure.value = null;
      } catch (error) {
        failure.value = error;
      }
      if (shown !== "" && shown !== route.path) await toHead(main);
      shown = route.path;
    }
    const place = ownPlace();
    const begun = place && loadedScreen(place.screen);
    if (begun) take(place, begun);
    watch(() => route.path, show, { immediate: true });
    watchEffect(() => (document.title = titleOf(findPlace(route.segments))));
    return () => html`<main id="content" ref=${main} tabindex="-1">${contentOf(screen.value, failure.value)}</main>`;
  },
};

/** What is done, and what is not, at the edge of the page. */
function Notices() {
  return html`
    <div class="notices" role="status" aria-live="polite">
      ${notices.map(
        (one) => html`
          <div class=${["notice", one.kind]} key=${one.id}>
            <${Icon} name=${one.kind === "done" ? "check" : "alert"}/>
            <span class="grow lines">${one.text}${one.count > 1 && html` <b class="number">× ${one.count}</b>`}</span>
            ${one.link && html`<a href=${one.link.href}>${one.link.text}</a>`}
            <button type="button" class="button bare" aria-label=${t("action.close")} onClick=${() => dropNotice(one)}><${Icon} name="close" size=${14}/></button>
          </div>
        `,
      )}
    </div>
  `;
}

function contentOf(screen, failure) {
  if (failure !== null) return html`<${EmptyState} icon="alert" level="h1" title=${t("problem.reload.title")} text=${t("problem.reload.text")}/>`;
  const place = findPlace(route.segments);
  if (place === null) return leadElsewhere("search", t("problem.place.title"), t("problem.place.text"));
  if (!mayOpen(place)) return leadElsewhere("key", t("problem.forbidden.title"), whyNot(place.needs));
  if (screen === null) return html`<${Waiting}/>`;
  const key = JSON.stringify([screen.name, screen.properties]);
  return html`<${screen.component} key=${key} ...${screen.properties}/>`;
}

/** The present place, or null where it is none, or not for the reader. */
function ownPlace() {
  const place = findPlace(route.segments);
  return place !== null && mayOpen(place) ? place : null;
}

function leadElsewhere(icon, title, text) {
  return html`<${EmptyState} icon=${icon} level="h1" title=${title} text=${text}><a class="button" href="#/">${t("overview.title")}</a><//>`;
}

/** Why a place is not for the reader, and for whom it is. */
function whyNot([role, reach]) {
  if (!reaches(reach)) return t(`problem.forbidden.${session.service || session.labels.length > 0 ? "part" : "platform"}`);
  return t("problem.forbidden.role", { role: t(`role.${role}`), own: t(`role.${session.role}`) });
}

/** What is shown, then what it is one of: of all tabs, this one. */
function titleOf(place) {
  if (place === null) return "Punctual";
  const text = t(place.text, place.properties);
  const ids = Object.values(place.properties).filter((id) => !text.includes(id));
  return showUnseen([...ids, text, "Punctual"].join(" · "));
}

async function toHead(main) {
  await nextTick();
  scrollTo(0, 0);
  main.value?.focus({ preventScroll: true });
}

function toContent(event) {
  event.preventDefault();
  document.getElementById("content").focus();
}

function useShortcuts(open) {
  const go = (path) => () => navigate(`#${path}`);
  useKeys([
    { keys: "Ctrl+k", text: "palette.title", run: () => (open.palette = true) },
    { keys: "?", text: "keys.title", run: () => (open.help = true) },
    { keys: "/", text: "keys.search", run: () => document.querySelector(".search-input")?.focus() },
    { keys: "g o", text: "overview.title", run: go("/") },
    { keys: "g j", text: "jobs.title", run: go("/jobs") },
    { keys: "g e", text: "executions.title", run: go("/executions") },
    { keys: "g u", text: "upcoming.title", run: go("/upcoming") },
    { keys: "n", text: "jobs.new", run: () => may("editor") && navigate("#/new") },
  ]);
}

/** `data-settled` on the body once nothing that the present place has asked for is awaited: for tests and screenshots. */
function useSettled() {
  let timer = 0;
  const settle = () => {
    clearTimeout(timer);
    if (connection.open === 0) timer = setTimeout(() => (document.body.dataset.settled = ""), SETTLED_MS);
  };
  const unsettle = () => {
    delete document.body.dataset.settled;
    settle();
  };
  onMounted(settle);
  watch(() => connection.open, settle);
  watch(() => route.path, unsettle);
}
