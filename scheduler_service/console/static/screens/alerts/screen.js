// Alerts: what is open, and whom the settings tell of what.

import { DataTable, EmptyState, Loaded, Moment, PageHead, Panel, formatNumber, html, linkTo, showUnseen, t, useResource } from "../../core.js";

/** `#/alerts`. */
export const Screen = {
  setup() {
    const alerts = useResource(() => ({ path: "alerts" }), { live: true });
    return () => html`
      <${PageHead} title=${t("alerts.title")} count=${alerts.data && t("alerts.openCount", { count: formatNumber(alerts.data.openCount) })}/>
      <${Loaded} resource=${alerts}>${{ default: body }}<//>
    `;
  },
};

function body(data) {
  return html`
    <${Panel} title=${t("alerts.open")} flush>
      ${data.open.length === 0
        ? html`<${EmptyState} icon="check" title=${t("alerts.quiet")}/>`
        : html`<${DataTable} columns=${openColumns()} rows=${data.open} keyOf=${(one) => `${one.alert} ${one.kind} ${one.subject}`} label=${t("alerts.open")}/>`}
    <//>
    <${Panel} title=${t("alerts.configured")} flush>
      ${data.configured.length === 0
        ? html`<${EmptyState} icon="bell" title=${t("alerts.none")} text=${t("alerts.noneText")}/>`
        : html`<${DataTable} columns=${configuredColumns()} rows=${data.configured} keyOf=${(one) => one.name} label=${t("alerts.configured")}/>`}
    <//>
  `;
}

const openColumns = () => [
  { key: "kind", text: t("alerts.kind"), cell: (one) => html`<span class="badge bad">${one.kind}</span>` },
  { key: "subject", text: t("alerts.subject"), cell: subject },
  { key: "text", text: t("alerts.text"), cell: (one) => showUnseen(one.text) },
  { key: "since", text: t("alerts.since"), cell: (one) => html`<${Moment} at=${one.since}/>` },
  { key: "said", text: t("alerts.said"), cell: (one) => html`${one.alert} <${Moment} at=${one.saidAt}/>` },
];

const configuredColumns = () => [
  { key: "name", text: t("alerts.name"), cell: (one) => html`<span class="name">${one.name}</span>` },
  { key: "on", text: t("alerts.on"), cell: (one) => one.on.map((kind) => html`<span class="label" key=${kind}>${kind}</span>`) },
  { key: "url", text: t("alerts.url"), cell: (one) => html`<span class="mono">${one.url}</span>${one.format !== "json" && html` <span class="label">${one.format}</span>`}${one.trouble && html` <span class="badge warn">${showUnseen(one.trouble)}</span>`}` },
  { key: "deliveries", text: t("alerts.deliveries"), cell: (one) => html`<a href=${`#/deliveries?jobId=${encodeURIComponent(one.deliveriesOf)}`}>${t("deliveries.title")}</a>` },
];

function subject(one) {
  if (one.executionId) return html`<a href=${linkTo("executions", one.executionId)}>${one.subject}</a>`;
  return one.jobId ? html`<a href=${linkTo("jobs", one.jobId)}>${one.subject}</a>` : one.subject;
}
