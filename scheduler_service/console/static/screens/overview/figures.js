// The large figures at the head of the overview; each is a link to what it counts.

import { formatCompact, formatDuration, formatNumber, formatShare, html, may, t } from "../../core.js";

/** Running, waiting, lateness, failed, success, nodes and instances, as far as the reader sees them; what is not known yet is a dash. */
export function Figures({ now, nodes, executions, services, hours }) {
  const states = executions?.byState;
  const failed = states?.terminated;
  const ended = states === undefined ? 0 : states.succeeded + states.terminated;
  const instances = sum(services, "instanceCount");
  const online = sum(services, "onlineCount");
  const seesNodes = may("viewer", "platform");
  const alive = nodes?.items.filter((node) => node.state === "running").length;
  const from = new Date(Date.now() - hours * 3_600_000).toISOString();
  return html`
    <ul class="figures">
      ${figure(t("overview.running"), formatNumber(now.running), "#/executions?state=processing", now.running > 0 ? "busy" : "")}
      ${figure(t("overview.waiting"), formatNumber(now.waiting), "#/executions?state=enqueued", "")}
      ${now.lateness && figure(t("overview.lateness"), formatDuration(now.lateness.p99), seesNodes ? "#/nodes" : "#/executions", now.lateness.p99 > 1_000 ? "warn" : "")}
      ${figure(t("overview.failed"), formatCompact(failed), `#/executions?state=terminated&from=${from}`, failed > 0 ? "bad" : "")}
      ${figure(t("overview.success"), ended === 0 ? "–" : formatShare(states.succeeded / ended), "#/executions", "")}
      ${seesNodes && figure(t("overview.nodes"), nodes === null ? "–" : `${alive} / ${nodes.items.length}`, "#/nodes", nodes !== null && alive < nodes.items.length ? "bad" : "")}
      ${may("viewer", "service") && figure(t("overview.instances"), services === null ? "–" : `${online} / ${instances}`, "#/services", online < instances ? "warn" : "")}
    </ul>
  `;
}

Figures.props = ["now", "nodes", "executions", "services", "hours"];

function figure(text, value, href, tone) {
  return html`<li key=${text}><a class=${["figure", tone]} href=${href}><span class="dim">${text}</span><strong>${value}</strong></a></li>`;
}

function sum(list, name) {
  return (list?.items ?? []).reduce((total, one) => total + one[name], 0);
}
