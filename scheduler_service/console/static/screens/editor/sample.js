// The values on which templates are tried: the responses of the job's last execution, or what somebody writes instead.

import { get, pathOf, shallowReactive } from "../../core.js";

/**
 * The sample of a job (null: a new one). Members: `execution` (the one whose responses it has, or null), `trigger` (parameters), `responses` (values, by
 * step); `load()` reads the last execution that went well, else the last one; `take(execution)` uses that one. Throws nothing: without one it is empty.
 */
export function makeSample(jobId) {
  const state = shallowReactive({ execution: null, trigger: {}, responses: [], load, take });

  async function load() {
    if (jobId === null) return;
    try {
      const { items } = await get(`${pathOf("jobs", jobId)}/executions`, { limit: 1, outcome: "succeeded" });
      const line = items[0] ?? (await get(`${pathOf("jobs", jobId)}/executions`, { limit: 1 })).items[0];
      if (line !== undefined) take(await get(pathOf("executions", line.executionId)));
    } catch {
      // Templates are then tried without responses.
    }
  }

  function take(execution) {
    const steps = execution.attempts.at(-1)?.steps ?? [];
    const last = new Map(steps.map((step) => [step.index, step]));
    Object.assign(state, {
      execution,
      trigger: execution.params ?? {},
      responses: [...last.values()].map((step) => valueOf(step.response?.body)),
    });
  }

  return state;
}

/**
 * The root of step `index` (SPEC section 4): members of the latest response (for the first step the trigger's parameters), named responses, `responses`, `trigger`.
 * `steps` are those of the draft, whose names count.
 */
export function rootFor(sample, steps, index) {
  const responses = sample.responses.slice(0, index);
  const latest = index === 0 ? sample.trigger : responses.at(-1);
  const named = responses.flatMap((value, at) => (steps[at]?.respEnvName ? [[steps[at].respEnvName, value]] : []));
  const members = isObject(latest) ? latest : {};
  return { ...members, ...Object.fromEntries(named), responses, trigger: sample.trigger };
}

function valueOf(body) {
  if (typeof body !== "string") return body ?? null;
  try {
    return JSON.parse(body);
  } catch {
    return body;
  }
}

function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
