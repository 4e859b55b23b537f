// What the rows of the waterfall are called, and how they stand.

import { formatDuration, formatNumber, showUnseen, t } from "../../core.js";

const SHOWN_URL = 80;

/** The name of a row: `{text, mono}`, `mono` what is of the target. */
export function nameOfRow(row) {
  return NAMES[row.kind](row);
}

/** How a row stands, in a word or a status: "200", "running", "lost". */
export function statusOfRow(row) {
  const { kind } = row;
  if (kind === "step" || kind === "part") return row.step.status === null ? (row.step.error ?? "–") : String(row.step.status);
  if (kind === "attempt") return row.attempt.error ?? (row.to === null ? t("state.processing") : row.attempt.endedAt === null ? "–" : t("state.succeeded"));
  if (kind === "notification") return t(`state.${row.notification.state === "failed" ? "undelivered" : row.notification.state}`);
  if (kind === "lease") return row.ending === undefined ? (row.step?.error ?? t(row.to === null ? "execution.held" : "execution.ended")) : t(`execution.lease.${row.ending.what}`);
  if (kind === "checks") return row.attempt.checks.at(-1)?.progress ?? (row.to === null ? t("execution.none") : "–");
  if (kind === "feedback") return row.attempt.feedback.at(-1)?.progress ?? "";
  if (kind === "queue") return `${row.queue.ended} / ${row.queue.parts}`;
  return row.to === null ? t("state.processing") : "";
}

/** `url` without its scheme, cut in its middle. */
export function shortUrl(url) {
  const text = showUnseen(url.replace(/^https?:\/\//, ""));
  return text.length <= SHOWN_URL ? text : `${text.slice(0, SHOWN_URL / 2)}…${text.slice(-SHOWN_URL / 2 + 1)}`;
}

const NAMES = {
  start: () => ({ text: t("execution.row.start") }),
  attempt: ({ ordinal }) => ({ text: t("execution.row.attempt", { number: ordinal }) }),
  step: ({ step }) => ({ text: String(step.index + 1), mono: `${step.method} ${shortUrl(step.url)}` }),
  part: ({ step }) => ({ text: t("execution.row.part", { number: step.part }), mono: step.instance === null ? "" : showUnseen(step.instance) }),
  running: ({ index, given }) => ({ text: String(index + 1), mono: given === null ? t("execution.row.running") : `${given.method ?? "POST"} ${shortUrl(given.url ?? "")}` }),
  lease: ({ lease }) => ({ text: lease.part === null ? "" : t("execution.row.part", { number: lease.part }), mono: showUnseen(lease.instance) }),
  queue: ({ queue }) => ({ text: String(queue.step + 1), mono: `queue://${queue.name}` }),
  checks: ({ attempt }) => ({ text: t("execution.row.checks", { count: formatNumber(attempt.checks.length) }) }),
  feedback: ({ attempt }) => ({ text: attempt.feedback.length === 0 ? t("execution.row.awaited") : t("execution.row.feedback", { count: attempt.feedback.length }) }),
  retry: ({ attempt }) => ({ text: t("execution.row.retry", { time: formatDuration(attempt.retryInMs) }) }),
  notification: ({ notification }) => ({ text: showUnseen(notification.event), mono: shortUrl(notification.url) }),
};
