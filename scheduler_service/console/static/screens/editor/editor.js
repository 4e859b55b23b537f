// What the editor knows and does: loads the definition, keeps the draft, finds what others changed, saves.

import {
  attempt,
  call,
  get,
  linkTo,
  makeDraft,
  navigate,
  partOf,
  pathOf,
  route,
  sayDone,
  sayFailed,
  shallowReactive,
  t,
  useResource,
  useSoft,
  watch,
  withPart,
  withValue,
  without,
} from "../../core.js";
import { draftName, dropDraft, dropKey, keptDraft, otherDraft } from "./draft_store.js";
import { textOfExample } from "./examples.js";
import { idOfDraft, makeForm } from "./form.js";
import { mergeValues } from "./merge.js";
import { makeSample } from "./sample.js";
import { saveJob } from "./saving.js";

/**
 * The editor of `jobId` (null: a new job). Members: `draft`, `form`, `checks`, `sample`, `state` (`isReady`, `error`, `name` of its kept draft, `etag`, `restoredAt`, `other`: the
 * draft of another tab or null, `isGone`: the job is destroyed, `theirs`:
 * another's version `{etag, text}` or null), `save()`, `load()`, `startAgain()`, `keepMine()`, `takeTheirs()`, `combine()`, `canCombine()`, `begin(text)`, `takeOther()`, `dropOther()`, `createAgain()`.
 */
export function useEditor(jobId) {
  const isNew = jobId === null;
  const draft = makeDraft("{}");
  const state = shallowReactive({ isReady: false, error: null, name: "", etag: null, restoredAt: 0, other: null, isGone: false, theirs: null, schema: null });
  const checks = useSoft(() => (state.isReady && draft.fault === null ? { path: "definitions/check", bodyText: draft.text } : null));
  const form = makeForm({ draft, checks, schema: () => state.schema, isNew, jobId });
  const sample = makeSample(jobId ?? route.query.from ?? null);
  const editor = { jobId, isNew, draft, state, checks, form, sample, load, save, begin: (text) => begin(draft, text, false), startAgain };

  async function load() {
    try {
      Object.assign(state, { isReady: false, error: null, restoredAt: 0, isGone: false, theirs: null });
      state.name = draftName(jobId, route.query);
      const kept = keptDraft(state.name);
      state.other = kept === null ? otherDraft(state.name) : null;
      const { text, etag } = isNew ? { text: await textOfNew(), etag: null } : await readForEdit(jobId, kept ?? state.other);
      state.isGone = !isNew && etag === null;
      open(draft, state, { text, etag, kept });
    } catch (error) {
      state.error = error;
    }
  }

  function startAgain() {
    draft.write(draft.saved, "again");
    state.restoredAt = 0;
  }

  async function save() {
    if (state.isGone) return undefined;
    form.insist();
    const name = jobId ?? idOfDraft(draft);
    if (draft.fault !== null) return sayFailed(new Error(t("editor.needsJson")));
    if (!name) return void form.show("/jobName");
    if (form.isIdTaken()) return void form.show("/jobId");
    try {
      const { warnings } = await saveJob({ text: draft.text, jobId: name, etag: state.etag });
      done(editor, name, warnings);
    } catch (error) {
      await refused(editor, error);
    }
    return undefined;
  }

  watchOthers(editor);
  // While the next screen is loaded, the query is already that of its address.
  const { path } = route;
  watch((last) => (route.path === path ? draftName(jobId, route.query) : last), load, { immediate: true });
  loadSchema(state);
  sample.load();
  return Object.assign(editor, conflictActions(editor), otherActions(editor), { createAgain: () => createAgain(editor) });
}

function open(draft, state, { text, etag, kept }) {
  begin(draft, kept?.saved ?? text, true);
  if (kept !== null && kept.text !== text) {
    draft.write(kept.text, "kept");
    Object.assign(state, { restoredAt: kept.at, etag: kept.etag });
    if (kept.etag !== etag && !state.isGone) state.theirs = { etag, text };
  } else {
    begin(draft, text, true);
    state.etag = etag;
  }
  state.isReady = true;
}

function begin(draft, text, isSaved) {
  if (isSaved) draft.begin(text);
  else draft.write(text, "example");
}

async function readStored(jobId) {
  const answer = await call("GET", pathOf("jobs", jobId));
  return { text: partOf(answer.text, ["data", "definition"]), etag: answer.etag };
}

/** The same; where there is no such job any more and a draft of it is kept: what that was made from, without a revision. */
async function readForEdit(jobId, kept) {
  try {
    return await readStored(jobId);
  } catch (error) {
    if (error.status !== 404 || kept === null) throw error;
    return { text: kept.saved, etag: null };
  }
}

async function textOfNew() {
  const { from, example } = route.query;
  if (from === undefined) return textOfExample(example, Intl.DateTimeFormat().resolvedOptions().timeZone);
  const { text } = await readStored(from);
  const named = withValue(text, ["jobName"], t("editor.copyOf", { name: JSON.parse(text).jobName }));
  return withValue(named, ["jobId"], await freeId(`${from}-copy`));
}

/** `wanted`, or with the first number that no job has behind it. */
async function freeId(wanted) {
  const { items } = await get("jobs", { text: wanted, limit: 100 });
  const taken = new Set(items.map((one) => one.jobId));
  for (let number = 2, id = wanted; ; number += 1) {
    if (!taken.has(id)) return id;
    id = `${wanted}-${number}`;
  }
}

async function loadSchema(state) {
  try {
    state.schema = await get("schemas/job");
  } catch {
    // Without it fields show no defaults and bounds; the checks still tell what is wrong.
  }
}

/** Asks now and then for the revision of the job: who edits should learn before saving that somebody else has saved, or destroyed it. */
function watchOthers({ jobId, isNew, draft, state }) {
  if (isNew) return;
  const present = useResource(() => (state.isReady && !state.isGone ? { path: pathOf("jobs", jobId) } : null), { live: true });
  watch(
    () => present.error?.status === 404,
    (isGone) => isGone && state.isReady && (state.isGone = true),
  );
  watch(
    () => present.etag,
    async (etag) => {
      if (etag === null || etag === state.etag || etag === state.theirs?.etag) return;
      const theirs = await attempt(() => readStored(jobId));
      if (theirs === undefined) return;
      if (draft.isChanged) return void (state.theirs = theirs);
      draft.begin(theirs.text);
      state.etag = theirs.etag;
    },
  );
}

function done({ draft, state, isNew }, name, warnings) {
  draft.markSaved(draft.text);
  dropDraft(state.name);
  const words = [t(isNew ? "editor.created" : "editor.saved", { jobId: name }), ...warnings.map((one) => one.message)];
  sayDone(words.join("\n"));
  navigate(linkTo("jobs", name));
}

async function refused({ jobId, form, state }, error) {
  if (error.status === 412) {
    state.theirs = (await attempt(() => readStored(jobId))) ?? null;
    return;
  }
  if (error.status === 409 && form.isNew) {
    form.refuseId(idOfDraft(form.draft));
    return void form.show("/jobId");
  }
  if (error.status === 404 && !form.isNew) return void (state.isGone = true);
  sayFailed(error, { places: true });
  if (error.errors?.length > 0) form.show(error.errors[0].pointer);
}

/** What is seen of the job that was destroyed: it is created with the draft, unless somebody else has done so. */
async function createAgain(editor) {
  const { draft, state, jobId } = editor;
  if (draft.fault !== null) return sayFailed(new Error(t("editor.needsJson")));
  try {
    const { warnings } = await saveJob({ text: draft.text, jobId, etag: null });
    done(editor, jobId, warnings);
  } catch (error) {
    if (error.status !== 409) return sayFailed(error, { places: true });
    Object.assign(state, { isGone: false, theirs: (await attempt(() => readStored(jobId))) ?? null });
  }
  return undefined;
}

/** The draft of another tab becomes this one's, or is thrown away. */
function otherActions({ draft, state }) {
  const dropOther = () => {
    dropKey(state.other.key);
    state.other = null;
  };
  const takeOther = () => {
    const { text, saved, etag } = state.other;
    const now = { text: draft.saved, etag: state.etag };
    draft.markSaved(saved);
    draft.write(text, "other");
    state.etag = etag;
    if (etag !== now.etag && now.etag !== null) state.theirs = now;
    dropOther();
  };
  return { takeOther, dropOther };
}

function conflictActions({ draft, state }) {
  const merged = () => mergeValues(JSON.parse(draft.saved), draft.value, JSON.parse(state.theirs.text));
  const follow = (text) => {
    const { theirs } = state;
    draft.markSaved(theirs.text);
    draft.write(text, "theirs");
    Object.assign(state, { etag: theirs.etag, theirs: null });
  };
  return {
    keepMine: () => follow(draft.text),
    takeTheirs: () => follow(state.theirs.text),
    canCombine: () => draft.fault === null && merged().conflicts.length === 0,
    combine: () => follow(merged().taken.reduce((text, path) => taking(text, path, state.theirs.text), draft.text)),
  };
}

/** `text` with what `theirs` has at `path`. */
function taking(text, path, theirs) {
  const part = partOf(theirs, path);
  return part === null ? without(text, path) : withPart(text, path, part);
}
