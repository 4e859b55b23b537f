// What stands above the form: drafts of this tab and of others, that the job is destroyed, and another's version of it.

import { ActionButton, DiffView, Icon, Moment, html, t } from "../../core.js";

/** The draft that was found in this browser. */
export function DraftBanner({ editor }) {
  const { state, draft } = editor;
  if (state.restoredAt === 0 || !draft.isChanged) return null;
  return html`
    <div class="banner" role="status">
      <${Icon} name="edit"/>
      <span class="grow">${t("editor.draftBack")} <${Moment} at=${state.restoredAt}/></span>
      <button type="button" class="button" onClick=${editor.startAgain}>${t(editor.isNew ? "editor.startNew" : "editor.startAgain")}</button>
    </div>
  `;
}

DraftBanner.props = ["editor"];

/** The draft of another tab. */
export function OtherDraftBanner({ editor }) {
  const { other } = editor.state;
  if (other === null) return null;
  return html`
    <div class="banner" role="status">
      <${Icon} name="edit"/>
      <span class="grow">${t("editor.otherDraft")} <${Moment} at=${other.at}/></span>
      <button type="button" class="button" onClick=${editor.takeOther}>${t("editor.takeOther")}</button>
      <button type="button" class="button" onClick=${editor.dropOther}>${t("editor.dropOther")}</button>
    </div>
  `;
}

OtherDraftBanner.props = ["editor"];

/** The job is destroyed meanwhile; the text is still here. */
export function GoneBanner({ editor }) {
  if (!editor.state.isGone) return null;
  return html`
    <div class="banner" role="alert">
      <${Icon} name="alert"/>
      <span class="grow">${t("editor.gone")}</span>
      <${ActionButton} kind="primary" text=${t("editor.createAgain")} run=${editor.createAgain}/>
    </div>
  `;
}

GoneBanner.props = ["editor"];

/** Another's version beside one's own, and what to do: nothing of either is lost before somebody chooses. */
export function ConflictBanner({ editor }) {
  const { state, draft } = editor;
  if (state.theirs === null) return null;
  const revision = state.theirs.etag.replace(/"/g, "");
  return html`
    <section class="panel conflict" aria-label=${t("editor.conflict")}>
      <div class="panel-head">
        <h2><${Icon} name="alert"/> ${t("editor.conflict")}</h2>
        <div class="actions">
          ${editor.canCombine() && html`<button type="button" class="button primary" onClick=${editor.combine}>${t("editor.combine")}</button>`}
          <button type="button" class="button" onClick=${editor.keepMine}>${t("editor.keepMine")}</button>
          <button type="button" class="button" onClick=${editor.takeTheirs}>${t("editor.takeTheirs")}</button>
        </div>
      </div>
      <div class="panel-body">
        <p class="dim">${t("editor.conflictText", { revision })}</p>
        <${DiffView} before=${state.theirs.text} after=${draft.text} names=${[t("editor.theirs", { revision }), t("editor.mine")]} label=${t("editor.conflict")}/>
      </div>
    </section>
  `;
}

ConflictBanner.props = ["editor"];
