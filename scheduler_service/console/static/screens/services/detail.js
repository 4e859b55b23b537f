// One service: instances with their load, declared jobs, and what differs from the declaration.

import {
  ActionButton,
  DataTable,
  EmptyState,
  Facts,
  Loaded,
  Moment,
  PageHead,
  Panel,
  PauseButton,
  PausedMark,
  StateBadge,
  attempt,
  confirm,
  formatDuration,
  formatNumber,
  html,
  linkTo,
  may,
  pathOf,
  put,
  remove,
  t,
  useResource,
} from "../../core.js";
import { Drift } from "./drift.js";

/** One service, live. */
export const ServiceDetail = {
  props: { name: String },
  setup(props) {
    const service = useResource(() => ({ path: pathOf("services", props.name) }), { live: true });
    const drift = useResource(() => ({ path: `${pathOf("services", props.name)}/drift`, query: { limit: 100 } }), { live: true });
    return () => html`
      <${PageHead} title=${props.name} back=${{ href: "#/services", text: t("services.title") }}>${{
        marks: () => html`<${PausedMark} of=${service.data}/>`,
        default: () => html`
          <${PauseButton} of=${service.data} path=${pathOf("services", props.name)} onDone=${service.reload}/>
          ${may("editor", "tenant") && service.data !== null && html`
            <${ActionButton} text=${t("services.force")} run=${() => force(props.name, service.data, drift)} disabled=${(drift.data?.items ?? []).length === 0}/>
          `}
        `,
      }}<//>
      <${Loaded} resource=${service}>${{ default: (data) => body(data, drift, service) }}<//>
    `;
  },
};

function body(service, drift, resource) {
  return html`
    <${Panel} title=${t("services.facts")}>
      <${Facts} items=${[
        [t("services.route"), service.route ?? "random"],
        [t("services.address"), service.address],
        [t("services.rate"), service.rateLimit && t("services.rateText", service.rateLimit)],
        [t("services.signing"), service.signing],
        [t("services.onChange"), service.onChange],
        [t("services.grace"), service.graceSeconds && formatDuration(service.graceSeconds * 1_000)],
        [t("services.updated"), html`<${Moment} at=${service.updatedAt}/>`],
      ]}/>
    <//>
    <${Panel} title=${t("services.instances")} flush>
      ${service.instances.length === 0
        ? html`<${EmptyState} icon="service" title=${t("services.noInstance")} text=${t("services.noInstanceText")}/>`
        : html`<${DataTable} columns=${columns(service, resource)} rows=${service.instances} keyOf=${(one) => one.instanceId} label=${t("services.instances")}/>`}
    <//>
    <${Drift} resource=${drift}/>
    ${service.timers.length > 0 && html`<${Panel} title=${t("services.timers", { count: service.timers.length })} flush>
      <${DataTable} columns=${timerColumns()} rows=${service.timers} keyOf=${(one) => one.jobId} label=${t("services.timersLabel")}/>
    <//>`}
  `;
}

const columns = (service, resource) => [
  { key: "id", text: t("services.instance"), cell: (one) => html`<span class="name">${one.instanceId}</span> <span class="dim">${one.description}</span>` },
  { key: "state", text: t("services.state"), cell: (one) => html`<${StateBadge} state=${one.state}/>` },
  { key: "load", text: t("services.load"), cell: load },
  { key: "address", text: t("services.address"), cell: (one) => html`<span class="mono">${one.address ?? "–"}</span>` },
  { key: "tags", text: t("services.tags"), cell: (one) => one.tags.map((tag) => html`<span class="label" key=${tag}>${tag}</span>`) },
  { key: "beat", text: t("services.heartbeat"), cell: (one) => html`<${Moment} at=${one.lastHeartbeat}/>` },
  { key: "actions", kind: "narrow", text: "", cell: (one) => may("editor") && removal(service, one, resource) },
];

const timerColumns = () => [
  { key: "id", text: t("jobs.name"), cell: (one) => html`<a class="name" href=${linkTo("jobs", one.jobId)}>${one.jobName ?? one.jobId}</a> <span class="dim mono">${one.jobId}</span>` },
  { key: "timer", text: t("jobs.timer"), cell: (one) => html`<span class="mono">${timerText(one.timer)}</span>` },
];

function load(one) {
  if (one.capacity === null || one.load === null) return formatNumber(one.load);
  return html`
    <span class="load">
      <meter min="0" max=${one.capacity} high=${one.capacity * 0.9} value=${one.load} aria-label=${t("services.load")}></meter>
      <span class="number">${formatNumber(one.load)} / ${formatNumber(one.capacity)}</span>
    </span>
  `;
}

function removal(service, instance, resource) {
  const run = async () => {
    const text = t("services.removeText");
    const title = t("services.removeTitle", { instance: instance.instanceId });
    if (!(await confirm({ title, text, action: t("services.remove"), isDangerous: true }))) return;
    await attempt(() => remove(pathOf("services", service.name, "instances", instance.instanceId)), t("services.removed", { instance: instance.instanceId }));
    resource.reload();
  };
  return html`<${ActionButton} bare icon="cross" text=${t("services.remove")} run=${run}/>`;
}

async function force(name, service, drift) {
  const wanted = await confirm({ title: t("services.force"), text: t("services.forceText"), action: t("services.force") });
  if (!wanted) return;
  const declaration = { address: service.address, route: service.route, tags: service.tags, timers: service.timers, onChange: service.onChange, graceSeconds: service.graceSeconds, rateLimit: service.rateLimit, signing: service.signing };
  const given = Object.fromEntries(Object.entries(declaration).filter(([, value]) => value !== null && value !== undefined));
  await attempt(() => put(`${pathOf("services", name)}?force=true`, given), t("services.forced"));
  drift.reload();
}

function timerText(timer) {
  if (timer === null || timer === undefined) return "–";
  if (typeof timer === "string") return timer;
  return [timer.dueTime, timer.period, timer.timezone].filter(Boolean).join(" · ");
}
