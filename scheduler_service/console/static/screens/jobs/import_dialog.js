// Jobs from a file: an array of definitions, each created on its own, with what became of it.

import { DataTable, Dialog, explain, formatNumber, html, linkTo, post, ref, t, useSubmit } from "../../core.js";

const MOST_AT_ONCE = 500;
const TONES_OF_ITEMS = { created: "good", updated: "good", unchanged: "quiet", refused: "bad" };

/** `onDone()`: something was created. */
export const ImportDialog = {
  props: { onClose: Function, onDone: Function },
  setup(props) {
    const definitions = ref(null);
    const problem = ref(null);
    const updates = ref(false);
    const results = ref(null);
    async function choose(event) {
      const [file] = event.target.files;
      problem.value = null;
      results.value = null;
      try {
        definitions.value = definitionsOf(JSON.parse(await file.text()));
        if (definitions.value === null) problem.value = t("import.notJobs");
      } catch (error) {
        definitions.value = null;
        problem.value = t("job.notJson", { message: error.message });
      }
    }
    const { isBusy, submit } = useSubmit(async () => {
      problem.value = null;
      try {
        await send(definitions.value, updates.value, (items) => (results.value = [...(results.value ?? []), ...items]));
      } catch (error) {
        problem.value = explain(error);
      } finally {
        props.onDone();
      }
    });
    const count = () => definitions.value?.length ?? 0;
    return () => html`
      <${Dialog} title=${t("import.title")} wide=${results.value !== null} onClose=${props.onClose}>
        <form onSubmit=${submit}>
          <div class=${["field", { wrong: problem.value !== null }]}>
            <label for="import-file">${t("import.file")}</label>
            <input id="import-file" type="file" accept=".json,application/json" aria-describedby="import-hint" onChange=${choose}/>
            <p class="hint" id="import-hint">${t("import.hint")}</p>
            ${problem.value !== null && html`<p class="error" role="alert">${problem.value}</p>`}
          </div>
          <label class="import-option"><input type="checkbox" checked=${updates.value} onChange=${() => (updates.value = !updates.value)}/>${t("import.update")}</label>
          ${results.value === null
            ? html`<button class="button primary" disabled=${count() === 0 || isBusy.value}>${t("import.go", { count: formatNumber(count()) })}</button>`
            : html`<${ImportReport} items=${results.value}/>`}
        </form>
      <//>
    `;
  },
};

/** The definitions of a file: an array, alone or as `items`, or a single one; null where it is none of these. */
function definitionsOf(value) {
  const list = value?.items ?? value;
  if (Array.isArray(list)) return list;
  return value !== null && typeof value === "object" && !("items" in value) ? [value] : null;
}

async function send(definitions, updates, take) {
  for (let start = 0; start < definitions.length; start += MOST_AT_ONCE) {
    const body = definitions.slice(start, start + MOST_AT_ONCE);
    const { items } = await post("jobs", body, { query: updates ? { onExisting: "update" } : {} });
    take(items);
  }
}

/** What became of each definition, those that were refused first. */
function ImportReport({ items }) {
  const byStatus = Object.groupBy(items, (one) => one.status);
  const sums = Object.entries(byStatus).map(([status, list]) => `${formatNumber(list.length)} ${t(`import.${status}`)}`);
  const rows = [...(byStatus.refused ?? []), ...items.filter((one) => one.status !== "refused")].slice(0, MOST_AT_ONCE);
  const columns = [
    { key: "job", text: t("import.job"), cell: (one) => (!one.jobId ? html`<span class="dim">${t("import.item", { number: formatNumber(items.indexOf(one) + 1) })}</span>` : one.status === "refused" ? html`<span class="mono">${one.jobId}</span>` : html`<a class="mono" href=${linkTo("jobs", one.jobId)}>${one.jobId}</a>`) },
    { key: "status", text: t("import.status"), cell: (one) => html`<span class=${["badge", TONES_OF_ITEMS[one.status]]}>${t(`import.${one.status}`)}</span>` },
    { key: "problem", text: t("import.problem"), cell: (one) => one.problem && html`<span class="lines">${wordsOfItem(one.problem)}</span>` },
  ];
  return html`
    <p role="status" class="import-sum"><strong>${sums.join(", ")}</strong></p>
    <div class="import-report"><${DataTable} columns=${columns} rows=${rows} keyOf=${(one) => items.indexOf(one)} label=${t("import.title")}/></div>
  `;
}

ImportReport.props = ["items"];

function wordsOfItem(problem) {
  const places = (problem.errors ?? []).map((one) => `${one.pointer}: ${one.message}`);
  return places.length > 0 ? places.join("\n") : (problem.detail ?? problem.title);
}
