// What is known of a row of the waterfall: opened beside it.

import { ActionButton, Facts, Icon, JsonView, Moment, ScrollArea, StateBadge, formatDuration, formatMoment, html, linkTo, may, ref, showUnseen, t } from "../../core.js";
import { ExchangeView } from "./exchange.js";
import { msOf } from "./times.js";
import { nameOfRow, shortUrl } from "./words.js";

const SHOWN_CHECKS = 200;

/** The panel of a row: `row`, `zone` of the job, `onReplay(step)` (null where it may not be), `onClose()`. */
export function RowDetail({ row, zone, onReplay, onClose }) {
  const { text, mono } = nameOfRow(row);
  return html`
    <aside class="panel row-detail" aria-label=${t("execution.detail")}>
      <div class="panel-head">
        <h2><span class=${["mark", row.tone]} aria-hidden="true"></span>${titleOf(row, text)} ${row.kind !== "step" && mono && html`<span class="dim mono">${mono}</span>`}</h2>
        <button type="button" class="button bare" aria-label=${t("action.close")} onClick=${onClose}><${Icon} name="close" size=${14}/></button>
      </div>
      <${ScrollArea} class="panel-body" label=${t("execution.detail")}>${VIEWS[row.kind](row, { zone, onReplay })}<//>
    </aside>
  `;
}

RowDetail.props = ["row", "zone", "onReplay", "onClose"];

const VIEWS = {
  start: (row, { zone }) => waitFacts(row, zone, t("execution.wait.startText")),
  retry: (row, { zone }) => waitFacts(row, zone, t("execution.wait.retryText")),
  queue: ({ queue }) => queueFacts(queue),
  running: (row, { zone }) => waitFacts(row, zone, t("execution.runningText")),
  attempt: ({ attempt }, { zone }) => attemptFacts(attempt, zone),
  step: stepView,
  part: stepView,
  lease: (row, { zone }) => leaseFacts(row, zone),
  checks: (row, { zone }) => html`<${ChecksView} key=${row.key} checks=${row.attempt.checks} zone=${zone}/>`,
  feedback: (row, { zone }) => html`<${FeedbackView} key=${row.key} feedback=${row.attempt.feedback} zone=${zone}/>`,
  notification: (row, { zone }) => notificationView(row.notification, zone),
};

function titleOf(row, text) {
  return row.kind === "step" || row.kind === "running" || row.kind === "queue" ? t("execution.row.step", { number: text }) : text;
}

function moment(at, zone) {
  return at === null ? null : html`<${Moment} at=${at} zone=${zone} absolute withMs/>`;
}

function waitFacts(row, zone, text) {
  const end = row.to === null ? null : formatDuration(row.to - row.from);
  return html`
    <p class="dim">${text}</p>
    <${Facts} items=${[[t("execution.from"), moment(row.from, zone)], [t("execution.to"), moment(row.to, zone)], [t("execution.took"), end]]}/>
  `;
}

function attemptFacts(attempt, zone) {
  const took = attempt.endedAt === null ? null : formatDuration(msOf(attempt.endedAt) - msOf(attempt.startedAt));
  return html`
    <${Facts}
      items=${[
        [t("execution.from"), moment(attempt.startedAt, zone)],
        [t("execution.to"), moment(attempt.endedAt, zone)],
        [t("execution.took"), took],
        [t("execution.error"), attempt.error && html`<span class="mono">${showUnseen(attempt.error)}</span>`],
        [t("execution.failureType"), attempt.failureType],
        [t("execution.reason"), attempt.reason],
        [t("execution.retryIn"), attempt.retryInMs === null ? null : formatDuration(attempt.retryInMs)],
      ]}
    />
    ${attempt.message && html`<p class="fault">${showUnseen(attempt.message)}</p>`}
  `;
}

function stepView({ step }, { zone, onReplay }) {
  return html`
    <${Facts}
      items=${[
        [t("execution.sent"), moment(step.sentAt, zone)],
        [t("execution.instance"), step.instance && html`<span class="mono">${showUnseen(step.instance)}</span>`],
        [t("execution.named"), step.respEnvName && html`<code>${step.respEnvName}</code>`],
        [t("execution.error"), step.error && html`<span class="mono">${showUnseen(step.error)}</span>`],
      ]}
    />
    <${ExchangeView} key=${`${step.index} ${step.part} ${step.sentAt}`} ...${exchangeOf(step, step.status)}>
      ${may("operator") && onReplay && step.part === null && html`<${ActionButton} icon="retry" text=${t("execution.replayHere")} run=${() => onReplay(step.index)}/>`}
    <//>
  `;
}

function exchangeOf({ method, url, fault, durationMs, request, response }, status) {
  return { method, url, status, fault, durationMs, request, response };
}

function queueFacts(queue) {
  return html`
    <p class="dim">${t("execution.queueText")}</p>
    <${Facts}
      items=${[
        [t("execution.queue"), html`<a class="mono" href=${linkTo("queues", queue.name)}>${queue.name}</a>`],
        [t("execution.parts"), queue.parts],
        [t("execution.unclaimed"), queue.unclaimed],
        [t("execution.claimed"), queue.claimed],
        [t("execution.endedParts"), queue.ended],
      ]}
    />
  `;
}

function leaseFacts(row, zone) {
  const { lease, ending, step } = row;
  return html`
    ${ending && html`<p class="fault">${t(`execution.lease.${ending.what}Text`, { instance: showUnseen(lease.instance) })}</p>`}
    <${Facts}
      items=${[
        [t("execution.instance"), html`<span class="mono">${showUnseen(lease.instance)}</span>`],
        [t("execution.queue"), row.attempt.queue && html`<a class="mono" href=${linkTo("queues", row.attempt.queue.name)}>${row.attempt.queue.name}</a>`],
        [t("execution.claimedAt"), moment(lease.at, zone)],
        [t("execution.to"), moment(ending?.at ?? step?.endedAt ?? null, zone)],
        [t("execution.error"), step?.error && html`<span class="mono">${showUnseen(step.error)}</span>`],
      ]}
    />
    ${step && html`<${ExchangeView} key=${row.key} ...${exchangeOf(step, step.status)}/>`}
  `;
}

const ChecksView = {
  props: { checks: Array, zone: String },
  setup(props) {
    const serial = ref(null);
    return () => {
      const { checks } = props;
      const chosen = checks.find((one) => one.serial === serial.value) ?? checks.at(-1);
      if (chosen === undefined) return html`<p class="dim">${t("execution.noCheck")}</p>`;
      return html`
        <div class="picker" role="group" aria-label=${t("execution.checks")}>
          ${checks.slice(-SHOWN_CHECKS).reverse().map(
            (one) => html`
              <button type="button" key=${one.serial} aria-pressed=${String(one === chosen)} onClick=${() => (serial.value = one.serial)}>
                <span class="number">${formatMoment(one.at, { zone: props.zone, withDate: false })}</span>
                <span class="grow">${one.fault !== null ? t("execution.noAnswer") : showUnseen(one.error ?? one.progress ?? one.status ?? "–")}</span>
                <span class="number dim">${one.httpStatus ?? "–"}</span>
              </button>
            `,
          )}
        </div>
        <${ExchangeView} key=${chosen.serial} ...${exchangeOf(chosen, chosen.httpStatus)}/>
      `;
    };
  },
};

function FeedbackView({ feedback, zone }) {
  if (feedback.length === 0) return html`<p class="dim">${t("execution.noFeedback")}</p>`;
  return feedback.map(
    (one, index) => html`
      <section key=${index} class="report">
        <h3>${moment(one.at, zone)} ${one.stale && html`<span class="badge warn">${t("execution.stale")}</span>`} ${one.part !== null && t("execution.row.part", { number: one.part })}</h3>
        <${JsonView} value=${one.body} label=${t("execution.body")}/>
        ${one.truncated && html`<p class="note">${t("execution.cutShort")}</p>`}
      </section>
    `,
  );
}

FeedbackView.props = ["feedback", "zone"];

function notificationView(one, zone) {
  const last = one.attempts.at(-1);
  return html`
    <${Facts}
      items=${[
        [t("execution.status"), html`<${StateBadge} state=${one.state === "failed" ? "undelivered" : one.state}/>`],
        [t("execution.event"), showUnseen(one.event)],
        [t("execution.entry"), showUnseen(one.name)],
        [t("execution.nextTry"), moment(one.nextTryAt, zone)],
      ]}
    />
    ${one.attempts.length > 0 && html`
      <table class="table tries">
        <thead><tr><th>${t("execution.try")}</th><th>${t("execution.status")}</th><th class="right">${t("execution.took")}</th></tr></thead>
        <tbody>
          ${one.attempts.map(
            (each, index) => html`<tr key=${index}><td>${moment(each.at, zone)}</td><td>${showUnseen([each.status, each.fault].filter((said) => said !== null).join(" · ") || "–")}</td><td class="right number">${formatDuration(each.durationMs)}</td></tr>`,
          )}
        </tbody>
      </table>
    `}
    ${one.request === undefined
      ? html`<p class="exchange-line mono">${shortUrl(one.url)}</p>`
      : html`<${ExchangeView} key=${one.deliveryId} method=${methodOf(one)} url=${one.url} status=${last?.status ?? null} fault=${last?.fault} durationMs=${last?.durationMs} request=${one.request} response=${one.response}/>`}
  `;
}

/** The method of a notification; the history does not keep it where it is the default. */
function methodOf(one) {
  return one.method ?? "POST";
}
