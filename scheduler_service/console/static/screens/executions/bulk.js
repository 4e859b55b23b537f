// Replay and cancel of the chosen executions, or of all that the filters find.

import { ActionButton, BulkBar, Dialog, html, may, ref, t } from "../../core.js";

/**
 * The bar while something is chosen: `selection`, `bulk` (of useBulk), `filter` (that of the list, for all that it finds), `total` (how many that
 * are).
 */
export const ExecutionsBulk = {
  props: { selection: Object, bulk: Object, filter: Object, total: Object },
  setup(props) {
    const isAll = ref(false);
    const isAsking = ref(false);
    const clear = () => {
      isAll.value = false;
      props.selection.clear();
    };

    async function run(action, rest = {}) {
      const select = isAll.value ? { filter: selectOf(props.filter) } : { executionIds: [...props.selection.chosen] };
      const asked = { title: (count) => t(`bulk.${action}.title`, { count }), text: t(`bulk.${action}.text`), action: t(`action.${action}`) };
      if (await props.bulk.start({ action, select, ...rest }, asked)) clear();
    }

    return () => html`
      <${BulkBar} chosen=${props.selection.chosen.size} total=${props.total} isAll=${isAll.value} onAll=${(value) => (isAll.value = value)} onClear=${clear}>
        ${may("operator", "tenant") && html`<${ActionButton} icon="retry" text=${t("action.replay")} run=${() => run("replay")}/>`}
        ${may("operator", "tenant") && html`<${ActionButton} icon="stop" text=${t("action.cancelThem")} run=${() => (isAsking.value = true)}/>`}
      <//>
      ${isAsking.value && html`<${ReasonDialog} onClose=${() => (isAsking.value = false)} onDone=${(reason) => run("cancel", reason === "" ? {} : { reason })}/>`}
    `;
  },
};

/** Asks for the reason of a cancellation: `onDone(reason)`, "" where none was given. */
const ReasonDialog = {
  props: { onClose: Function, onDone: Function },
  setup(props) {
    const reason = ref("");
    function submit(event) {
      event.preventDefault();
      props.onClose();
      props.onDone(reason.value.trim());
    }
    return () => html`
      <${Dialog} title=${t("executions.cancelTitle")} onClose=${props.onClose}>
        <form onSubmit=${submit}>
          <div class="field">
            <label for="bulk-reason">${t("executions.reason")}</label>
            <input id="bulk-reason" maxlength="500" value=${reason.value} onInput=${(event) => (reason.value = event.target.value)}/>
          </div>
          <button class="button primary">${t("action.goOn")}</button>
        </form>
      <//>
    `;
  },
};

/** The filter of a bulk action for the query of a list: the same words, labels as a list. */
function selectOf(query) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return Object.fromEntries(given.map(([name, value]) => [name, name === "label" ? [value].flat() : value]));
}
