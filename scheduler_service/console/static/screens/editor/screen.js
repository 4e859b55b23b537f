// The screen Editor: form and JSON of one definition, in step; what the service says about it stands beside the fields.

import {
  ActionButton,
  Icon,
  JsonArea,
  Loaded,
  PageHead,
  Tabs,
  arranged,
  html,
  linkTo,
  may,
  pathAround,
  pointerOf,
  reactive,
  replaceQuery,
  route,
  t,
  useKeys,
} from "../../core.js";
import { ConflictBanner, DraftBanner, GoneBanner, OtherDraftBanner } from "./banners.js";
import { ChainSection } from "./chain.js";
import { CopyDialog, DifferenceDialog } from "./dialogs.js";
import { useEditor } from "./editor.js";
import { EXAMPLES, textOfExample } from "./examples.js";
import { useKeeping } from "./keeping.js";
import { NotifySection } from "./notify.js";
import { Problems, marksOf } from "./problems.js";
import { RetrySection } from "./retry.js";
import { AsyncSection, OptionsSection, OverlapSection } from "./rules.js";
import { TrialDialog, TrialPanel, useTrial } from "./trial.js";
import { WhatSection } from "./what.js";
import { WhenSection } from "./when.js";

const WIDE = 1_180;

/** `#/new` (`?from=JOB` copies one, `?example=` begins with one) and `#/jobs/:jobId/edit`. */
export const Screen = {
  props: { jobId: { type: String, default: null } },
  setup(props) {
    const editor = useEditor(props.jobId);
    const trial = useTrial(editor.draft);
    const page = reactive({ dialog: null, place: { offset: 0, times: 0 }, pointer: "" });
    const view = () => route.query.view ?? (innerWidth >= WIDE ? "both" : "form");
    useKeeping(editor);
    useEditorKeys(editor, trial);

    async function toLine(offset) {
      if (view() === "form") replaceQuery({ view: "json" });
      Object.assign(page.place, { offset, times: page.place.times + 1 });
    }

    return () => html`
      ${headOf(editor, trial, page, view())}
      <${Loaded} resource=${{ data: editor.state.isReady ? editor : null, error: editor.state.error, reload: editor.load }} lines=${12}>${{
        default: () => html`
          <${GoneBanner} editor=${editor}/>
          <${DraftBanner} editor=${editor}/>
          <${OtherDraftBanner} editor=${editor}/>
          <${ConflictBanner} editor=${editor}/>
          <div class=${["editor", view()]}>
            ${view() !== "json" && sections(editor)}
            ${side(editor, trial, page, view(), toLine)}
          </div>
        `,
      }}<//>
      ${dialogOf(editor, trial, page)}
    `;
  },
};

function headOf({ draft, jobId, isNew, save, state }, trial, page, view) {
  const views = ["form", "both", "json"].map((key) => ({ key, text: t(`editor.view.${key}`) }));
  const canTry = may("editor", "tenant") && draft.fault === null;
  const origin = jobId ?? route.query.from;
  const back = origin === undefined ? { href: "#/jobs", text: t("jobs.title") } : { href: linkTo("jobs", origin), text: origin };
  return html`
    <${PageHead} class="editor-head" back=${back} title=${isNew ? t("editor.new") : t("editor.edit", { jobId })}>${{
      marks: () => draft.isChanged && html`<span class="badge warn"><${Icon} name="dot" size=${10}/>${t("editor.unsaved")}</span>`,
      // Of a job that could not be read nothing can be edited, tried or saved.
      default: () => state.error !== null ? html`<a class="button" href="#/jobs">${t("jobs.title")}</a>` : html`
        <${Tabs} items=${views} chosen=${view} label=${t("editor.views")} onChoose=${(key) => replaceQuery({ view: key })}/>
        <${ActionButton} bare icon="undo" text=${t("editor.undo")} disabled=${!draft.canUndo} run=${draft.undo}/>
        <${ActionButton} bare icon="redo" text=${t("editor.redo")} disabled=${!draft.canRedo} run=${draft.redo}/>
        <${ActionButton} icon="copy" text=${t("editor.copyAs")} run=${() => (page.dialog = "copy")}/>
        ${!isNew && html`<${ActionButton} text=${t("editor.difference")} disabled=${!draft.isChanged} run=${() => (page.dialog = "difference")}/>`}
        ${canTry && html`<${ActionButton} icon="play" text=${t("editor.tryOnce")} run=${() => (trial.state.isAsked = true)}/>`}
        <a class="button" href=${back.href}>${t("action.cancel")}</a>
        <${ActionButton} kind="primary" text=${t(isNew ? "editor.create" : "editor.save")} disabled=${!state.isReady || state.isGone || (!isNew && !draft.isChanged)} run=${save}/>
      `,
    }}<//>
  `;
}

function sections(editor) {
  const { form, draft, isNew, sample } = editor;
  return html`
    <fieldset class="sections" disabled=${draft.fault !== null}>
      <legend class="unseen">${t("editor.form")}</legend>
      ${isNew && html`<${Beginnings} editor=${editor}/>`}
      ${draft.fault !== null && html`<p class="warning">${t("editor.formWaits")}</p>`}
      <${WhatSection} form=${form}/>
      <${ChainSection} form=${form} sample=${sample}/>
      <${WhenSection} form=${form}/>
      <${RetrySection} form=${form}/>
      <${OverlapSection} form=${form}/>
      <${AsyncSection} form=${form}/>
      <${NotifySection} form=${form}/>
      <${OptionsSection} form=${form}/>
    </fieldset>
  `;
}

/** What a new job can begin with; each is one change that can be undone. */
function Beginnings({ editor }) {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return html`
    <div class="chips beginnings" role="group" aria-label=${t("editor.beginWith")}>
      <span class="dim">${t("editor.beginWith")}</span>
      ${Object.keys(EXAMPLES).map((key) => html`<button type="button" class="chip" key=${key} onClick=${() => editor.begin(textOfExample(key, zone))}>${t(`editor.example.${key}`)}</button>`)}
    </div>
  `;
}

Beginnings.props = ["editor"];

function side(editor, trial, page, view, toLine) {
  const { form, draft, sample } = editor;
  const { executionId } = trial.state;
  return html`
    <div class="editor-side">
      ${executionId !== null && html`<${TrialPanel} key=${executionId} executionId=${executionId} onEnd=${sample.take} onClose=${trial.end}/>`}
      ${view !== "form" && json(form, draft, page)}
      <${Problems} form=${form} isForm=${view !== "json"} onLine=${toLine}/>
    </div>
  `;
}

function json(form, draft, page) {
  const arrange = () => draft.write(arranged(draft.text), "arrange");
  const tell = (offset) => (page.pointer = draft.tree === null ? "" : pointerOf(pathAround(draft.tree, offset)));
  return html`
    <section class="panel json-panel" aria-label="JSON">
      <div class="panel-head">
        <h2>JSON</h2>
        <code class="grow cut dim">${page.pointer}</code>
        <button type="button" class="button bare" disabled=${draft.fault !== null} onClick=${arrange}>${t("editor.arrange")}</button>
      </div>
      <${JsonArea} value=${draft.text} label=${t("editor.jsonLabel")} describedBy="json-hint" marks=${marksOf(form)} place=${page.place} onWrite=${draft.write} onCursor=${tell}/>
      <p class="hint" id="json-hint">${t("editor.jsonHint")}</p>
    </section>
  `;
}

function dialogOf(editor, trial, page) {
  const close = () => (page.dialog = null);
  if (trial.state.isAsked) return html`<${TrialDialog} onStart=${trial.start} onClose=${() => (trial.state.isAsked = false)}/>`;
  if (page.dialog === "copy") return html`<${CopyDialog} editor=${editor} onClose=${close}/>`;
  return page.dialog === "difference" && html`<${DifferenceDialog} editor=${editor} onClose=${close}/>`;
}

function useEditorKeys(editor, trial) {
  const { draft } = editor;
  useKeys([
    { keys: "Ctrl+s", text: "editor.save", run: () => editor.state.isReady && editor.save() },
    { keys: "Ctrl+enter", text: "editor.tryOnce", run: () => may("editor", "tenant") && editor.state.isReady && draft.fault === null && trial.start("{}") },
    { keys: "Ctrl+z", text: "editor.undo", run: (event) => (event.shiftKey ? draft.redo() : draft.undo()) },
    { keys: "Ctrl+y", text: "editor.redo", run: draft.redo },
  ]);
}
