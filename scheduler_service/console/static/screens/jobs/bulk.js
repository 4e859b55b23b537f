// Actions on the jobs that are chosen, or on all that the filters find: counted before, reported after.

import { ActionButton, BulkBar, html, may, ref, sayFailed, t } from "../../core.js";
import { exportJobs } from "./export.js";
import { LabelDialog } from "./label_dialog.js";

const ACTIONS = [
  ["pause", "pause", { drain: true }],
  ["resume", "resume", {}],
  ["disable", "stop", {}],
  ["enable", "check", {}],
  ["trigger", "play", {}],
];

/** The bar while something is chosen: `selection`, `bulk` (of useBulk), `filter` (that of the list), `total` (how many that finds). */
export const JobsBulk = {
  props: { selection: Object, bulk: Object, filter: Object, total: Object },
  setup(props) {
    const isAll = ref(false);
    const isLabelling = ref(false);
    const exported = ref(null);
    const clear = () => {
      isAll.value = false;
      props.selection.clear();
    };
    const chosen = () => [...props.selection.chosen];

    async function run(action, rest) {
      const select = isAll.value ? { filter: selectOf(props.filter) } : { jobIds: chosen() };
      const asked = { title: (count) => t(`bulk.${action}.title`, { count }), text: t(`bulk.${action}.text`), action: t(`action.${action}`), isDangerous: action === "destroy" };
      if (await props.bulk.start({ action, select, ...rest }, asked)) clear();
    }

    async function save() {
      try {
        await exportJobs(isAll.value ? { filter: props.filter } : { jobIds: chosen() }, (count) => (exported.value = count));
      } catch (error) {
        sayFailed(error);
      } finally {
        exported.value = null;
      }
    }

    return () => html`
      <${BulkBar} chosen=${props.selection.chosen.size} total=${props.total} isAll=${isAll.value} onAll=${(value) => (isAll.value = value)} onClear=${clear}>
        ${may("operator", "tenant") && ACTIONS.map(([action, icon, rest]) => html`<${ActionButton} key=${action} icon=${icon} text=${t(`action.${action}`)} run=${() => run(action, rest)}/>`)}
        ${may("editor", "tenant") && html`<${ActionButton} icon="edit" text=${t("action.label")} run=${() => (isLabelling.value = true)}/>`}
        <${ActionButton} icon="down" text=${exported.value === null ? t("jobs.export") : t("jobs.exporting", { count: exported.value })} run=${save}/>
        ${may("editor", "tenant") && html`<${ActionButton} icon="trash" kind="danger" text=${t("action.destroy")} run=${() => run("destroy", {})}/>`}
      <//>
      ${isLabelling.value && html`<${LabelDialog} onClose=${() => (isLabelling.value = false)} onDone=${(labels) => run("label", { labels })}/>`}
    `;
  },
};

/** The filter of a bulk action for the query of a list: the same words, labels as a list. */
function selectOf(query) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return Object.fromEntries(given.map(([name, value]) => [name, name === "label" ? [value].flat() : name === "system" ? value === "true" : value]));
}
