// The figures of a job: the next firing, how often it succeeds, how long it takes.

import { Moment, formatCompact, formatDuration, formatMoment, formatNumber, formatShare, html, now, t } from "../../core.js";
import { whyNone } from "./schedule.js";

/** Tiles; `statistics` is the API's answer of the last days, or null. */
export function JobFigures({ job, statistics }) {
  const total = statistics?.total;
  return html`
    <dl class="job-tiles">
      ${tile(t("job.next"), html`<${Countdown} job=${job}/>`, nextText(job))}
      ${tile(t("job.success"), formatShare(successOf(total)), t("job.ofDays", { count: formatNumber(total?.executions ?? 0) }), toneOfShare(successOf(total)))}
      ${tile(t("job.p50"), formatDuration(total?.duration.p50), t("job.days"))}
      ${tile(t("job.p95"), formatDuration(total?.duration.p95), t("job.days"))}
      ${tile(t("job.lateness"), formatDuration(total?.lateness.p99), t("job.days"))}
      ${tile(t("job.ran"), formatCompact(job.executeNumber), job.missedCount > 0 ? t("job.missed", { count: formatNumber(job.missedCount) }) : t("job.since", { day: formatMoment(job.createdAt).slice(0, 10) }))}
    </dl>
  `;
}

JobFigures.props = ["job", "statistics"];

/** The time until the next firing, to the second. */
function Countdown({ job }) {
  if (job.nextFireTime === null) return html`<span class="dim">–</span>`;
  const left = new Date(job.nextFireTime).getTime() - now.value;
  return left < 0 ? t("job.due") : formatDuration(Math.ceil(left / 1_000) * 1_000);
}

Countdown.props = ["job"];

function nextText(job) {
  if (job.nextFireTime === null) return whyNone(job);
  return html`<${Moment} at=${job.nextFireTime} absolute/>`;
}

function tile(name, value, text, tone = "") {
  return html`<div class="job-tile" key=${name}><dt>${name}</dt><dd class=${["job-figure", tone]}>${value}</dd><dd class="dim">${text}</dd></div>`;
}

/** Of those that succeeded or failed for good; null where there is none. */
function successOf(total) {
  const { succeeded = 0, terminated = 0 } = total?.byOutcome ?? {};
  return succeeded + terminated === 0 ? null : succeeded / (succeeded + terminated);
}

function toneOfShare(share) {
  if (share === null || share >= 0.99) return "";
  return share < 0.9 ? "bad" : "warn";
}
