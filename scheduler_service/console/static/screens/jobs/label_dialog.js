// Labels for many jobs: which are added, and which are taken away.

import { Dialog, html, ref, t } from "../../core.js";

/** `onDone(labels)`: name → value, null takes the label away. */
export const LabelDialog = {
  props: { onClose: Function, onDone: Function },
  setup(props) {
    const added = ref("");
    const removed = ref("");
    const wrong = ref(null);
    function submit(event) {
      event.preventDefault();
      const labels = readLabels(added.value, removed.value);
      if (labels === null) return void (wrong.value = t("jobs.labelWrong"));
      props.onClose();
      props.onDone(labels);
    }
    const field = (id, text, value, hint) => html`
      <div class="field">
        <label for=${id}>${text}</label>
        <input id=${id} value=${value.value} aria-describedby=${`${id}-hint`} onInput=${(event) => (value.value = event.target.value)}/>
        <p class="hint" id=${`${id}-hint`}>${hint}</p>
      </div>
    `;
    return () => html`
      <${Dialog} title=${t("jobs.labelTitle")} onClose=${props.onClose}>
        <form onSubmit=${submit}>
          ${field("labels-added", t("jobs.labelAdd"), added, t("jobs.labelAddHint"))}
          ${field("labels-removed", t("jobs.labelRemove"), removed, t("jobs.labelRemoveHint"))}
          ${wrong.value !== null && html`<p class="error" role="alert">${wrong.value}</p>`}
          <button class="button primary">${t("action.goOn")}</button>
        </form>
      <//>
    `;
  },
};

/** Null where a label has no name, or nothing is asked for. */
function readLabels(added, removed) {
  const words = (text) => text.split(",").map((one) => one.trim()).filter((one) => one !== "");
  const labels = {};
  for (const name of words(removed)) labels[name] = null;
  for (const pair of words(added)) {
    const [, name, value] = /^([^:]+):(.*)$/s.exec(pair) ?? [];
    if (name === undefined) return null;
    labels[name.trim()] = value.trim();
  }
  return Object.keys(labels).length === 0 ? null : labels;
}
