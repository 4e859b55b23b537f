// What needs attention: each line is a fault, how often, and a link to where it is mended.

import { EmptyState, Icon, Moment, Panel, Waiting, formatNumber, html, linkTo, may, showUnseen, t, useResource } from "../../core.js";

const LISTED = 5;

/** Open alerts, failing jobs, undeliverable notifications, services without instances, parts that wait in queues, jobs that are paused. */
export const Attention = {
  props: { jobs: Object, services: Object },
  setup(props) {
    const alerts = useResource(() => (may("viewer", "platform") ? { path: "alerts" } : null), { live: true });
    const failing = useResource(() => ({ path: "jobs", query: { lastOutcome: "terminated", sort: "-updatedAt", limit: LISTED, timers: true } }), { live: true });
    const deliveries = useResource(() => ({ path: "counts/deliveries" }), { live: true });
    const queues = useResource(() => (may("viewer", "service") ? { path: "counts/queues" } : null), { live: true });
    return () => {
      const lines = [
        ...alertLines(alerts.data),
        ...jobLines(failing.data, props.jobs, new Set(alerts.data?.open.map((one) => one.jobId))),
        ...deliveryLines(deliveries.data, "outbox", t("overview.outbox")),
        ...deliveryLines(deliveries.data, "failed", t("overview.undelivered")),
        ...serviceLines(props.services),
        ...queueLines(queues.data),
        ...blockedLines(props.jobs),
        ...pausedLines(props.jobs),
      ];
      const isAwaited = [alerts, failing, deliveries, queues].some((one) => one.isLoading);
      return html`<${Panel} title=${t("overview.attention")}>${lines.length === 0 ? nothing(isAwaited) : html`<ul class="attention">${lines}</ul>`}<//>`;
    };
  },
};

/** Nothing is calm before it is known. */
function nothing(isAwaited) {
  return isAwaited ? html`<${Waiting} lines=${LISTED}/>` : html`<${EmptyState} icon="check" title=${t("overview.calm")}/>`;
}

function alertLines(data) {
  const bySubject = new Map();
  for (const one of data?.open ?? []) {
    const subject = one.jobId ? `job ${one.jobId}` : `${one.kind} ${one.subject}`;
    bySubject.set(subject, [...(bySubject.get(subject) ?? []), one]);
  }
  return [...bySubject].slice(0, LISTED).map(([subject, alerts]) => {
    const [one] = alerts;
    const href = alerts.length === 1 && one.executionId ? linkTo("executions", one.executionId) : one.jobId ? linkTo("jobs", one.jobId) : "#/alerts";
    const texts = [...new Set(alerts.map(({ text }) => showUnseen(text)))];
    return line(`alert ${subject}`, "bad", "bell", href, one.subject, texts.join(" · "), one.since);
  });
}

/** Those that no alert is open for, as a job is listed once, and that are not disabled. */
function jobLines(data, counts, alerted) {
  const failing = data?.items ?? [];
  const items = failing.filter((job) => !alerted.has(job.jobId) && !job.disabled).map((job) =>
    line(`job ${job.jobId}`, "bad", "cross", linkTo("jobs", job.jobId), job.jobName, job.latestExecution?.error && t("overview.failedWith", { error: job.latestExecution.error }), job.latestExecution?.endedAt ?? job.updatedAt),
  );
  const all = counts?.byLastOutcome?.terminated ?? 0;
  if (all > failing.length) items.push(more("failing", "#/jobs?lastOutcome=terminated", t("overview.moreFailing", { count: formatNumber(all - failing.length) })));
  return items;
}

function deliveryLines(data, state, text) {
  const count = data?.byState[state] ?? 0;
  return count === 0 ? [] : [line(`deliveries ${state}`, "warn", "send", `#/deliveries?state=${state}`, text, t("overview.deliveries", { count: formatNumber(count) }))];
}

function queueLines(data) {
  const count = data?.waiting ?? 0;
  return count === 0 ? [] : [line("queues", "quiet", "queue", "#/queues", t("overview.queues"), t("overview.queued", { count: formatNumber(count) }), data.oldestAt)];
}

function serviceLines(services) {
  return (services?.items ?? [])
    .filter((one) => one.paused || (one.onlineCount === 0 && one.address === null))
    .slice(0, LISTED)
    .map((one) => one.paused ? line(`service ${one.name}`, "quiet", "pause", linkTo("services", one.name), one.name, t("state.paused"), one.pausedAt) : line(`service ${one.name}`, "warn", "service", linkTo("services", one.name), one.name, t("overview.noInstance"), one.updatedAt));
}

function blockedLines(counts) {
  return (counts?.cannotRunJobs ?? []).map((one) => line(`blocked ${one.jobId}`, "bad", "cross", linkTo("jobs", one.jobId), one.jobId, showUnseen(one.problem)));
}

function pausedLines(counts) {
  const count = counts?.byState?.paused ?? 0;
  return count === 0 ? [] : [line("paused", "quiet", "pause", "#/jobs?state=paused&sort=updatedAt", t("overview.paused"), t("overview.pausedCount", { count: formatNumber(count) }))];
}

function line(key, tone, icon, href, title, text, at) {
  return html`
    <li key=${key}>
      <a class=${["line", tone]} href=${href}>
        <${Icon} name=${icon}/><span class="name">${title}</span><span class="dim grow">${text}</span>${at && html`<${Moment} at=${at}/>`}
      </a>
    </li>
  `;
}

function more(key, href, text) {
  return html`<li key=${key}><a class="more" href=${href}>${text}</a></li>`;
}
