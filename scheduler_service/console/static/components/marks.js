// Small marks that stand in rows: states, moments, durations, labels, outcomes.

import { formatDuration, formatRelative } from "../core/formats.js";
import { html } from "../core/html.js";
import { hasText, t } from "../core/language.js";
import { describeMoment, formatMoment, now } from "../core/times.js";
import { linkTo } from "../core/router.js";
import { Icon } from "./icons.js";

/** The tone of each state: how it is coloured, and the pictogram that says the same without colour. */
export const TONES = {
  active: ["good", "dot"],
  paused: ["quiet", "pause"],
  disabled: ["warn", "stop"],
  cannotRun: ["bad", "cross"],
  finished: ["quiet", "check"],
  destroyed: ["quiet", "cross"],
  scheduled: ["quiet", "clock"],
  enqueued: ["wait", "clock"],
  processing: ["busy", "dot"],
  failed: ["warn", "retry"],
  succeeded: ["good", "check"],
  terminated: ["bad", "cross"],
  cancelled: ["quiet", "stop"],
  skipped: ["quiet", "skip"],
  pending: ["busy", "clock"],
  delivered: ["good", "check"],
  undelivered: ["bad", "cross"],
  dropped: ["quiet", "cross"],
  dismissed: ["quiet", "check"],
  outbox: ["bad", "send"],
  superseded: ["quiet", "skip"],
  online: ["good", "dot"],
  draining: ["warn", "down"],
  offline: ["bad", "cross"],
  ready: ["good", "check"],
  running: ["good", "dot"],
  not_ready: ["bad", "alert"],
  stalled: ["bad", "alert"],
  starting: ["busy", "clock"],
  fired: ["quiet", "play"],
  late: ["warn", "clock"],
};

/** The tone of a state: good, bad, warn, busy, wait or quiet. */
export function toneOf(state) {
  return (TONES[state] ?? ["quiet", "dot"])[0];
}

/** A state as a coloured word with a pictogram: `<${StateBadge} state="succeeded"/>`. */
export function StateBadge({ state }) {
  const [tone, icon] = TONES[state] ?? ["quiet", "dot"];
  const text = hasText(`state.${state}`) ? t(`state.${state}`) : state;
  return html`<span class=${["badge", tone]}><${Icon} name=${icon} size=${12}/>${text}</span>`;
}

StateBadge.isMark = true;

/** A moment (RFC 3339 or ms), relative with the absolute one as its title; `absolute` the other way round. */
export function Moment({ at, zone, absolute = false, withMs = false }) {
  if (at === null || at === undefined) return html`<span class="dim">–</span>`;
  const time = new Date(at).getTime();
  const text = absolute ? formatMoment(at, { zone, withMs }) : formatRelative(time, now.value);
  const title = absolute ? `${formatRelative(time, now.value)} · ${describeMoment(at, zone)}` : describeMoment(at, zone);
  return html`<time class="moment" datetime=${new Date(at).toISOString()} title=${title}>${text}</time>`;
}

Moment.props = { at: [String, Number], zone: String, absolute: Boolean, withMs: Boolean };

/** A duration in ms. */
export function Duration({ ms }) {
  return html`<span class="number">${formatDuration(ms)}</span>`;
}

Duration.isMark = true;

/** Labels as small tags; each a link that filters the list of jobs, with `linked`. */
export function Labels({ labels, linked = false }) {
  return Object.entries(labels ?? {}).map(([name, value]) => {
    const text = value === "" ? name : `${name}:${value}`;
    if (!linked) return html`<span class="label" key=${name}>${text}</span>`;
    return html`<a class="label" key=${name} href=${`#/jobs?label=${encodeURIComponent(`${name}:${value}`)}`}>${text}</a>`;
  });
}

Labels.isMark = true;

/**
 * The last outcomes as bars, the newest on the right: `items` are `{executionId, state, error, durationMs, endedAt}`. Height says duration
 * (against the longest of them), colour and form the state; each is a link with its words.
 */
export function OutcomeBars({ items, slots = 20 }) {
  const longest = Math.max(1, ...items.map((one) => one.durationMs ?? 0));
  return html`<span class="outcomes" style=${{ "--slots": slots }}>${items.map((one) => outcomeBar(one, longest))}</span>`;
}

OutcomeBars.isMark = true;

function outcomeBar(one, longest) {
  const height = 30 + Math.round((70 * (one.durationMs ?? 0)) / longest);
  const words = [t(`state.${one.state}`), one.error, formatDuration(one.durationMs), formatMoment(one.endedAt ?? one.startedAt)];
  const title = words.filter((word) => word !== null && word !== undefined && word !== "–").join(" · ");
  return html`
    <a
      class=${["bar", toneOf(one.state)]}
      key=${one.executionId}
      href=${linkTo("executions", one.executionId)}
      title=${title}
      aria-label=${title}
      tabindex="-1"
      style=${{ height: `${height}%` }}
    ></a>
  `;
}
