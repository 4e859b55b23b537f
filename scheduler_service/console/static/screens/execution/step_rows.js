// The steps of an attempt as rows: each with its parts, and for a queue with who held what of it. Pure.

import { msOf, rowOf } from "./times.js";

/** The rows of the steps of `attempt` in order of the chain; `span` is `{from, to}` of the attempt. */
export function stepRows(attempt, span) {
  const { steps, leases, queue } = attempt;
  const indexes = [...steps.map((one) => one.index), ...leases.map((one) => one.step), ...(queue === null ? [] : [queue.step])];
  return [...new Set(indexes)].sort((one, two) => one - two).flatMap((index) => [
    ...steps.filter((one) => one.index === index && one.part === null).map((one) => exchangeRow(attempt, one, span)),
    ...(queue?.step === index ? [queueRow(attempt, span)] : []),
    ...steps.filter((one) => one.index === index && one.part !== null && claimOf(attempt, one) === undefined).map((one) => exchangeRow(attempt, one, span)),
    ...leases.flatMap((one, number) => (one.step === index && one.what === "claimed" ? [leaseRow(attempt, one, number, span)] : [])),
  ]);
}

function exchangeRow(attempt, step, span) {
  const from = msOf(step.sentAt) || span.from;
  const to = Math.max(msOf(step.endedAt), from);
  const tone = step.error === null ? "good" : "bad";
  const isPart = step.part !== null;
  const key = `a${attempt.requestCounts}.s${step.index}${isPart ? `.p${step.part}` : ""}`;
  return rowOf(key, isPart ? "part" : "step", isPart ? 2 : 1, tone, from, to, [{ kind: "work", from, to, tone }], { attempt, step });
}

/** What waits in a queue now. */
function queueRow(attempt, span) {
  const { queue } = attempt;
  const from = Math.max(span.from, ...attempt.steps.filter((one) => one.part === null).map((one) => msOf(one.endedAt)));
  const bars = [{ kind: queue.claimed > 0 ? "work" : "wait", from, to: null, tone: "busy", words: "execution.wait.claim" }];
  return rowOf(`a${attempt.requestCounts}.q`, "queue", 1, "busy", from, null, bars, { attempt, queue });
}

/** The last claim of a part by the instance that ended it; its row tells of the part as well. */
function claimOf(attempt, step) {
  return attempt.leases.findLast((one) => one.what === "claimed" && isOf(one, step) && one.instance === step.instance);
}

/** Who held a part from when until when: until it was lost or withdrawn, until the part ended, or still. */
function leaseRow(attempt, claim, number, span) {
  const from = msOf(claim.at);
  const later = attempt.leases.slice(number + 1);
  const ending = later.find((one) => isOf(one, claim) && one.instance === claim.instance && one.what !== "claimed");
  const step = ending === undefined ? attempt.steps.find((one) => isOf({ step: one.index, part: one.part }, claim) && one.instance === claim.instance) : undefined;
  const to = msOf(ending?.at) ?? msOf(step?.endedAt) ?? span.to;
  const isBad = ending !== undefined || (step !== undefined && step.error !== null);
  const tone = isBad ? "bad" : to === null ? "busy" : "good";
  const bars = [
    { kind: "wait", from: span.from, to: from, words: "execution.wait.claim" },
    { kind: "work", from, to, tone },
  ];
  return rowOf(`a${attempt.requestCounts}.l${number}`, "lease", 2, tone, from, to, bars, { attempt, lease: claim, ending, step });
}

function isOf(lease, { step, index = step, part }) {
  return lease.step === index && lease.part === part;
}
