// Nodes: the scheduler processes, how they are, and whether each part of the service is ready.

import {
  DataTable,
  Facts,
  Loaded,
  Moment,
  PageHead,
  Panel,
  ScrollArea,
  StateBadge,
  formatDuration,
  formatNumber,
  html,
  t,
  useResource,
} from "../../core.js";

/** `#/nodes`. */
export const Screen = {
  setup() {
    const nodes = useResource(() => ({ path: "nodes" }), { live: true });
    const health = useResource(() => ({ path: "health/ready" }), { live: true });
    return () => html`
      <${PageHead} title=${t("nodes.title")} count=${nodes.data?.items.length}/>
      <${Loaded} resource=${nodes}>${{ default: (data) => data.items.map((node) => html`<${NodePanel} key=${node.nodeId} node=${node}/>`) }}<//>
      ${health.data && html`
        <${Panel} title=${t("nodes.parts")} flush>
          <${DataTable} columns=${partColumns()} rows=${health.data.parts} keyOf=${(one) => one.name} label=${t("nodes.parts")}/>
        <//>
      `}
    `;
  },
};

function NodePanel({ node }) {
  return html`
    <${Panel} title=${node.nodeId}>${{
      actions: () => html`<${StateBadge} state=${node.state}/>`,
      default: () => html`
        <${Facts} items=${[
          [t("nodes.address"), html`<span class="mono">${node.address}</span>`],
          [t("nodes.jobs"), formatNumber(node.jobsHeld)],
          [t("nodes.running"), formatNumber(node.running)],
          [t("nodes.started"), html`<${Moment} at=${node.startedAt}/>`],
          [t("nodes.heartbeat"), html`<${Moment} at=${node.lastHeartbeat}/>`],
          ...Object.entries(node.versions ?? { punctual: node.version }).map(([name, version]) => [name, html`<span class="mono">${version}</span>`]),
          [t("nodes.formats"), formatsOf(node)],
        ]}/>
        ${(node.processes ?? []).length > 0 && html`
          <h3 class="inner">${t("nodes.processes")}</h3>
          <${ScrollArea} label=${t("nodes.processes")}><${DataTable} columns=${processColumns()} rows=${node.processes} keyOf=${(one) => one.shard} label=${t("nodes.processes")}/><//>
        `}
      `,
    }}<//>
  `;
}

NodePanel.props = ["node"];

/** Of a node before 0.2.0 none is known. */
function formatsOf({ formats }) {
  const text = Object.entries(formats ?? {}).map((one) => one.join(" ")).join(", ");
  return text === "" ? null : html`<span class="mono">${text}</span>`;
}

const processColumns = () => [
  { key: "shard", text: t("nodes.shard"), cell: (one) => one.shard },
  { key: "pid", text: t("nodes.pid"), cell: (one) => html`<span class="number">${one.pid}</span>` },
  { key: "state", text: t("nodes.state"), cell: (one) => html`<${StateBadge} state=${one.state}/>` },
  { key: "jobs", kind: "right", text: t("nodes.jobs"), cell: (one) => formatNumber(one.jobsHeld) },
  { key: "running", kind: "right", text: t("nodes.running"), cell: (one) => formatNumber(one.running) },
  { key: "held", kind: "right", text: t("nodes.loop"), cell: (one) => formatDuration(one.loopHeldMs) },
  { key: "started", text: t("nodes.started"), cell: (one) => html`<${Moment} at=${one.startedAt}/>` },
];

const partColumns = () => [
  { key: "name", text: t("nodes.part"), cell: (one) => html`<span class="name">${one.name}</span>` },
  { key: "state", text: t("nodes.state"), cell: (one) => html`<${StateBadge} state=${one.state}/>` },
  { key: "since", text: t("nodes.since"), cell: (one) => html`<${Moment} at=${one.since}/>` },
  { key: "missing", text: t("nodes.missing"), cell: (one) => one.missing.join(", ") },
];
