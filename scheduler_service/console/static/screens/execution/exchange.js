// A request and its response, as the history keeps them: status, headers, bodies.

import { ActionButton, CodeBlock, JsonView, Tabs, copy, formatBytes, formatDuration, html, ref, showUnseen, t } from "../../core.js";
import { curlOf } from "./curl.js";

/** One exchange: `method`, `url`, `status`, `fault` (why no answer came), `durationMs`, `request`, `response`; the slot has further buttons. */
export function ExchangeView({ method, url, status, fault, durationMs, request, response }, { slots }) {
  return html`
    <p class="exchange-line mono"><strong>${method}</strong> ${showUnseen(url)}</p>
    <div class="actions">
      ${request && /^https?:/.test(url) && html`<${ActionButton} icon="copy" text=${t("execution.curl")} run=${() => copy(curlOf(method, url, request))}/>`}
      ${slots.default?.()}
    </div>
    ${request && html`<${MessageView} key=${`request ${url}`} title=${t("execution.request")} message=${request}/>`}
    <h3 class="exchange-head">
      ${t("execution.response")}
      <span class=${["status", statusTone(status)]}>${status ?? (response ? "" : t("execution.noAnswer"))}</span>
      <span class="dim number">${formatDuration(durationMs)}</span>
    </h3>
    ${fault && html`<p class="fault">${showUnseen(fault)}</p>`}
    ${response && html`<${MessageView} key=${`response ${url}`} message=${response}/>`}
  `;
}

ExchangeView.props = ["method", "url", "status", "fault", "durationMs", "request", "response"];

/** Headers, folded, and the body: as a tree where it is JSON, and as it came. */
const MessageView = {
  props: { title: String, message: Object },
  setup(props) {
    const form = ref("tree");
    return () => {
      const { headers, body, truncated, encoding } = props.message;
      const value = parsed(body);
      const names = Object.keys(headers);
      return html`
        ${props.title && html`<h3 class="exchange-head">${props.title}</h3>`}
        ${names.length > 0 && html`
          <details class="headers">
            <summary>${t("execution.headers", { count: names.length })}</summary>
            <dl>${names.map((name) => html`<div key=${name}><dt class="mono">${showUnseen(name)}</dt><dd class="mono">${showUnseen(headers[name])}</dd></div>`)}</dl>
          </details>
        `}
        ${value !== undefined && html`
          <${Tabs} items=${["tree", "raw"].map((key) => ({ key, text: t(`execution.form.${key}`) }))} chosen=${form.value} label=${t("execution.form")} onChoose=${(key) => (form.value = key)}/>
        `}
        ${body === null && html`<p class="dim">${t(truncated ? "execution.leftOut" : "execution.noBody")}</p>`}
        ${body !== null && (value !== undefined && form.value === "tree"
          ? html`<${JsonView} value=${value} label=${t("execution.body")}/>`
          : html`<${CodeBlock} text=${body} label=${t("execution.body")}/>`)}
        ${body !== null && truncated && html`<p class="note">${t("execution.cut", { size: formatBytes(body.length) })}</p>`}
        ${encoding === "hex" && html`<p class="note">${t("execution.hex")}</p>`}
      `;
    };
  },
};

/** The JSON object or array that a body is, or undefined. */
function parsed(body) {
  try {
    const value = JSON.parse(body);
    return value !== null && typeof value === "object" ? value : undefined;
  } catch {
    return undefined;
  }
}

function statusTone(status) {
  if (status === null || status === undefined) return "ink-bad";
  return status >= 400 ? "ink-bad" : status >= 300 ? "ink-warn" : "ink-good";
}
