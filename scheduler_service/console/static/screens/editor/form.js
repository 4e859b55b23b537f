// What all fields of the form share: the draft, what the service says about it, the schema, and which sections are open.

import { idOf, nextTick, pointerOf, reactive, stepsOf, t } from "../../core.js";
import { defaultOf, choicesOf } from "./schema.js";

/** Sections in their order, each with the members that it shows. */
export const SECTIONS = [
  ["what", ["jobId", "jobName", "jobDescription", "labels", "creator", "creatorName", "objectId"]],
  ["request", ["request", "paramsSchema"]],
  ["when", ["timer"]],
  ["retry", ["retry", "maxRetries"]],
  ["overlap", ["overlapPolicy", "maxConcurrency", "queueLimit"]],
  ["asynchronous", ["async", "checkUrl", "checkRateSeconds", "cancelUrl"]],
  ["notify", ["notification"]],
  ["options", ["qos", "historyDetail", "timeoutSeconds", "leadSeconds", "startPolicy", "pauseAfterFailures", "keepResult", "disabled", "active", "parentJob", "parentJobExecution"]],
];

/**
 * The form of `draft`. `checks` is the answer to `definitions/check` (of useSoft), `schema()` the JSON Schema or null, `isNew` whether the job is
 * not there yet: what is still empty in it is no error before somebody has been there or wants to save.
 */
export function makeForm({ draft, checks, schema, isNew, jobId }) {
  const open = reactive(new Set(["what", "request", "when"]));
  const state = reactive({ isTried: false, refusedId: null });
  const isShown = (pointer) => !isNew || state.isTried || [...draft.touched].some((one) => pointer.startsWith(one));
  const errors = () => [...takenId(), ...(checks.problem?.errors ?? []).filter((one) => isShown(one.pointer))];
  const isIdTaken = () => isNew && isTaken(draft, checks, state.refusedId);
  const takenId = () => (isIdTaken() ? [{ pointer: "/jobId", message: t("editor.jobIdTaken") }] : []);
  const warnings = () => (checks.problem === null ? checks.warnings : []);
  const form = {
    draft,
    checks,
    open,
    isNew,
    jobId,
    errors,
    warnings,
    isTried: () => state.isTried,
    isIdTaken,
    refuseId: (id) => (state.refusedId = id),
    insist: () => (state.isTried = true),
    errorAt: (path) => wordsAt(errors(), pointerOf(path)),
    warningAt: (path) => wordsAt(warnings(), pointerOf(path)),
    countIn: (section) => errors().filter((one) => sectionOf(one.pointer) === section).length,
    defaultAt: (path) => defaultOf(schema(), path),
    choicesAt: (path, known) => choicesOf(schema(), path, known),
    show: (pointer) => show(open, pointer),
  };
  return form;
}

/** The id under which the draft would be saved. */
export function idOfDraft(draft) {
  const written = draft.get(["jobId"]);
  return typeof written === "string" && written !== "" ? written : idFor(String(draft.get(["jobName"]) ?? ""));
}

/** The id that a name suggests: small letters, digits and dashes; "" where nothing of it fits. */
export function idFor(name) {
  return name.toLowerCase().normalize("NFKD").replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 64);
}

/** Whether a job has the id of a new one: the checks say so, or saving it was refused. */
function isTaken(draft, { data }, refusedId) {
  const id = idOfDraft(draft);
  return id !== "" && (id === refusedId || (data?.existing != null && data.jobId === id));
}

function wordsAt(list, pointer) {
  const found = list.filter((one) => one.pointer === pointer).map((one) => one.message);
  return found.length === 0 ? null : found.join("\n");
}

function sectionOf(pointer) {
  const [name] = stepsOf(pointer);
  return SECTIONS.find(([, members]) => members.includes(name))?.[0] ?? null;
}

/** Opens the section of `pointer` and puts the keyboard into its field, or the nearest one around it; false where the form has none. */
async function show(open, pointer) {
  const section = sectionOf(pointer);
  if (section !== null) open.add(section);
  await nextTick();
  for (const steps = stepsOf(pointer); steps.length > 0; steps.pop()) {
    const element = document.getElementById(idOf(steps));
    if (element === null) continue;
    for (let part = element.closest("details"); part !== null; part = part.parentElement.closest("details")) part.open = true;
    element.scrollIntoView({ block: "center" });
    element.focus();
    return true;
  }
  return false;
}
