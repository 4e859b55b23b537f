// The parts that each screen is made of: its head, panels, empty states, problems, tabs, buttons.

import { html } from "../core/html.js";
import { t } from "../core/language.js";
import { explain } from "../core/notices.js";
import { h, ref } from "../core/vue.js";
import { Icon } from "./icons.js";
import { ScrollArea } from "./scrolling.js";

/** The head of a screen: `title`, `count`, slot `default` for buttons and fields on the right, slot `below` for a line of facts. */
export function PageHead({ title, count, back }, { slots }) {
  return html`
    <header class="page-head">
      ${back && html`<a class="back" href=${back.href}>${back.text}</a>`}
      <div class="row">
        <h1>${title}${count !== undefined && html`<span class="count">${count}</span>`}${slots.marks?.()}</h1>
        <div class="actions">${slots.default?.()}</div>
      </div>
      ${slots.below && html`<div class="facts">${slots.below()}</div>`}
    </header>
  `;
}

PageHead.props = ["title", "count", "back"];

/** A framed part of a screen: `title`, slot `actions` beside it. */
export function Panel({ title, flush = false }, { slots }) {
  return html`
    <section class=${["panel", { flush }]}>
      ${(title || slots.actions) && html`<div class="panel-head"><h2>${title}</h2><div class="actions">${slots.actions?.()}</div></div>`}
      ${flush
        ? html`<${ScrollArea} class="panel-body" label=${title ?? t("table.scrolls")}>${slots.default?.()}<//>`
        : html`<div class="panel-body">${slots.default?.()}</div>`}
    </section>
  `;
}

Panel.props = { title: String, flush: Boolean };

/** What stands where there is nothing: `title`, `text`, slot with what to do; `level` h1 where it is the whole page. */
export function EmptyState({ title, text, icon = "clock", level = "h2" }, { slots }) {
  return html`
    <div class="empty">
      <${Icon} name=${icon} size=${28}/>
      ${h(level, title)}
      ${text && html`<p>${text}</p>`}
      <div class="actions">${slots.default?.()}</div>
    </div>
  `;
}

EmptyState.props = ["title", "text", "icon", "level"];

/** Why something cannot be shown, and what to do about it; `retry` is called by its button. */
export function ProblemPanel({ error, retry }) {
  const kind = { 0: "offline", 401: "unauthorized", 403: "forbidden", 404: "absent", 503: "starting" }[error.status] ?? "other";
  return html`
    <div class="empty problem" role="alert">
      <${Icon} name="alert" size=${28}/>
      <h2>${t(`problem.${kind}.title`)}</h2>
      <p>${t(`problem.${kind}.text`)}</p>
      <pre class="detail">${explain(error)}</pre>
      ${retry && html`<div class="actions"><button type="button" class="button" onClick=${retry}>${t("action.again")}</button></div>`}
    </div>
  `;
}

ProblemPanel.props = ["error", "retry"];

/**
 * Shows a resource: its problem where there is nothing to show, lines that wait while it loads, else the slot with its data. A problem beside
 * older data is a line above it.
 */
export function Loaded({ resource, lines = 6 }, { slots }) {
  if (resource.data === null && resource.error !== null) return html`<${ProblemPanel} error=${resource.error} retry=${resource.reload}/>`;
  if (resource.data === null) return html`<${Waiting} lines=${lines}/>`;
  const stale = resource.error !== null && html`<p class="stale" role="status"><${Icon} name="alert" size=${14}/>${explain(resource.error)}</p>`;
  return html`<div class=${{ loaded: true, busy: resource.isBusy }}>${stale}${slots.default(resource.data)}</div>`;
}

Loaded.props = ["resource", "lines"];

/** Lines where rows will stand. */
export function Waiting({ lines = 6 }) {
  return html`
    <div class="waiting" role="status" aria-label=${t("loading")}>
      ${Array.from({ length: lines }, (_, index) => html`<div class="line" key=${index}></div>`)}
    </div>
  `;
}

Waiting.props = ["lines"];

/** Tabs as links or buttons: `items` are `{key, text, count}`; emits `choose`. */
export function Tabs({ items, chosen, label, onChoose }) {
  return html`
    <div class="tabs" role="group" aria-label=${label}>
      ${items.map(
        (one) => html`
          <button type="button" key=${one.key} aria-pressed=${one.key === chosen ? "true" : "false"} onClick=${() => onChoose(one.key)}>
            ${one.text}${one.count !== undefined && html` <span class="count">${one.count}</span>`}
          </button>
        `,
      )}
    </div>
  `;
}

Tabs.props = ["items", "chosen", "label", "onChoose"];

/** A button that runs `run` (it may be slow) and cannot be pressed meanwhile: `kind` primary, danger or plain. */
export const ActionButton = {
  props: { run: Function, icon: String, text: String, kind: { default: "" }, disabled: Boolean, bare: Boolean },
  setup(props) {
    const isBusy = ref(false);
    async function press() {
      if (isBusy.value) return;
      isBusy.value = true;
      try {
        await props.run();
      } finally {
        isBusy.value = false;
      }
    }
    return () => html`
      <button
        type="button"
        class=${["button", props.kind, { bare: props.bare }]}
        disabled=${props.disabled || isBusy.value}
        title=${props.bare ? props.text : undefined}
        aria-label=${props.bare ? props.text : undefined}
        onClick=${press}
      >
        ${props.icon && html`<${Icon} name=${props.icon} size=${14}/>`}${!props.bare && props.text}
      </button>
    `;
  },
};

/** Facts as pairs: `items` are `[name, value]`, a value may be a node. */
export function Facts({ items }) {
  return html`
    <dl class="pairs">
      ${items.filter(([, value]) => value !== null && value !== undefined && value !== false).map(
        ([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`,
      )}
    </dl>
  `;
}

Facts.props = ["items"];
