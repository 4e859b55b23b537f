// Dialogs of the editor: the difference before saving, and copies of the definition as texts that run.

import { ActionButton, CodeBlock, Dialog, DiffView, Tabs, html, ref, t } from "../../core.js";
import { idOfDraft } from "./form.js";
import { clientOf, curlOf, declarationOf } from "./snippets.js";

const FORMS = { curl: curlOf, client: clientOf, declaration: declarationOf };

/** What saving would change; saves. */
export function DifferenceDialog({ editor, onClose }) {
  const { draft, isNew } = editor;
  const save = async () => {
    onClose();
    await editor.save();
  };
  return html`
    <${Dialog} wide title=${t("editor.difference")} onClose=${onClose}>${{
      default: () => html`<${DiffView} before=${draft.saved} after=${draft.text} names=${[t("editor.stored"), t("editor.mine")]} label=${t("editor.difference")}/>`,
      actions: () => html`
        <button type="button" class="button" onClick=${onClose}>${t("action.close")}</button>
        <${ActionButton} kind="primary" text=${t(isNew ? "editor.create" : "editor.save")} run=${save}/>
      `,
    }}<//>
  `;
}

DifferenceDialog.props = ["editor", "onClose"];

/** The definition as curl, as a program, as a declaration in code. */
export const CopyDialog = {
  props: { editor: Object, onClose: Function },
  setup(props) {
    const form = ref("curl");
    return () => {
      const { draft, isNew } = props.editor;
      const jobId = props.editor.jobId ?? (idOfDraft(draft) || "my-job");
      const text = FORMS[form.value]({ text: draft.text, value: draft.value, jobId, isNew });
      const items = Object.keys(FORMS).map((key) => ({ key, text: t(`editor.copy.${key}`) }));
      return html`
        <${Dialog} wide title=${t("editor.copyAs")} onClose=${props.onClose}>
          <${Tabs} items=${items} chosen=${form.value} label=${t("editor.copyAs")} onChoose=${(key) => (form.value = key)}/>
          <p class="hint">${t(`editor.copyHint.${form.value}`)}</p>
          <${CodeBlock} text=${text} wrap=${false} label=${t(`editor.copy.${form.value}`)}/>
        <//>
      `;
    };
  },
};
