// Actions on the jobs that are chosen, or on all that the filters find: counted before, reported after.

import { ActionButton, Icon, attempt, confirm, formatNumber, html, may, post, sayDone, t } from "../../core.js";

/** The bar above the list while something is chosen. */
export const BulkBar = {
  props: { selection: Object, counts: Object, onDone: Function },
  setup(props) {
    async function run(action) {
      const select = { jobIds: [...props.selection.chosen] };
      if (await carryOut(action, select)) {
        props.selection.clear();
        props.onDone();
      }
    }
    const button = (action, icon, role) =>
      may(role) && html`<${ActionButton} icon=${icon} text=${t(`action.${action}`)} kind=${action === "destroy" ? "danger" : ""} run=${() => run(action)}/>`;
    return () => html`
      <div class="bulk" role="region" aria-label=${t("bulk.title")}>
        <strong class="grow">${t("bulk.chosen", { count: formatNumber(props.selection.chosen.size) })}</strong>
        ${button("pause", "pause", "operator")}
        ${button("resume", "retry", "operator")}
        ${button("trigger", "play", "operator")}
        ${button("destroy", "trash", "editor")}
        <button type="button" class="button bare" onClick=${props.selection.clear}><${Icon} name="close" size=${14}/>${t("bulk.clear")}</button>
      </div>
    `;
  },
};

async function carryOut(action, select) {
  const found = await attempt(() => post("bulk/jobs", { action, select, dryRun: true }));
  if (found === undefined) return false;
  const count = formatNumber(found.count);
  const isDangerous = action === "destroy";
  const wanted = await confirm({
    title: t(`bulk.${action}.title`, { count }),
    text: `${t(`bulk.${action}.text`)}\n\n${found.first.slice(0, 10).join("\n")}${found.count > 10 ? "\n…" : ""}`,
    action: t(`action.${action}`),
    isDangerous,
    typed: isDangerous && found.count > 1 ? String(found.count) : null,
  });
  if (!wanted) return false;
  const answer = await attempt(() => post("bulk/jobs", { action, select }));
  if (answer !== undefined) sayDone(t("bulk.done", { succeeded: answer.operation.succeeded, failed: answer.operation.failed }));
  return answer !== undefined;
}
