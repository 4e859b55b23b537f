// The definition of a job, where its options come from, and its revisions: compared and restored.

import {
  ActionButton,
  CodeBlock,
  DataTable,
  DiffView,
  Loaded,
  Moment,
  Panel,
  attempt,
  call,
  computed,
  confirm,
  html,
  may,
  pathOf,
  pushQuery,
  route,
  t,
  textOfJson,
  useResource,
} from "../../core.js";

const MOST_REVISIONS = 500;

/** The definition as it is, and as it was. */
export const DefinitionTab = {
  props: { job: Object, preview: Object, etag: String, onDone: Function },
  setup(props) {
    const path = pathOf("jobs", props.job.jobId);
    const revisions = useResource(() => ({ path: `${path}/revisions`, query: { limit: MOST_REVISIONS } }));
    const items = computed(() => (revisions.data?.items ?? []).toReversed());
    const restore = (one) => restoreRevision(one, props, revisions.reload);
    return () => html`
      <div class="job-columns even">
        <${Panel} title=${t("job.definition")}>
          <${CodeBlock} text=${textOfJson(props.job.definition)} label=${t("job.definition")}/>
        <//>
        <div>
          <${Panel} title=${t("job.revisions")} flush>
            <${Loaded} resource=${revisions} lines=${3}>${{ default: () => revisionTable(items.value, props.job, restore) }}<//>
          <//>
          <${Panel} title=${t("job.options")} flush>${optionTable(props.job.options)}<//>
        </div>
      </div>
      ${comparison(items.value, props.job)}
    `;
  },
};

function revisionTable(items, job, restore) {
  const [from, to] = chosenPair(items, job);
  const radio = (name, one, chosen) => html`<input type="radio" name=${name} aria-label=${t(`job.compare.${name}`, { revision: one.revision })} checked=${one.revision === chosen} onChange=${() => pushQuery({ [name]: one.revision })}/>`;
  const columns = [
    { key: "from", text: t("job.compareFrom"), kind: "narrow", cell: (one) => radio("before", one, from?.revision) },
    { key: "to", text: t("job.compareTo"), kind: "narrow", cell: (one) => radio("after", one, to?.revision) },
    { key: "revision", text: t("job.revisionNumber"), cell: (one) => html`<strong class="number">${one.revision}</strong>${one.revision === job.revision && html` <span class="badge good">${t("job.present")}</span>`}` },
    { key: "created", text: t("job.since2"), cell: (one) => html`<${Moment} at=${one.createdAt} absolute/>` },
    { key: "restore", text: html`<span class="unseen">${t("jobs.actions")}</span>`, kind: "right", cell: (one) => may("editor") && one.revision !== job.revision && html`<${ActionButton} text=${t("job.restore")} run=${() => restore(one)}/>` },
  ];
  return html`<${DataTable} columns=${columns} rows=${items} keyOf=${(one) => one.revision} label=${t("job.revisions")}/>`;
}

function comparison(items, job) {
  const [from, to] = chosenPair(items, job);
  if (from === undefined || to === undefined) return null;
  const names = [from, to].map((one) => t("job.revision", { revision: one.revision }));
  return html`
    <${Panel} title=${t("job.comparison")}>
      <${DiffView} before=${textOfJson(from.definition)} after=${textOfJson(to.definition)} names=${names} label=${t("job.comparison")}/>
    <//>
  `;
}

/** The two revisions that are compared: those of the address, else the present one with that before it. */
function chosenPair(items, job) {
  const find = (revision) => items.find((one) => one.revision === Number(revision));
  const after = find(route.query.after) ?? find(job.revision);
  const before = find(route.query.before) ?? items.find((one) => one.revision < (after?.revision ?? 0));
  return [before, after];
}

async function restoreRevision(one, { job, etag, onDone }, reload) {
  const isWanted = await confirm({
    title: t("job.restoreTitle", { revision: one.revision }),
    text: t("job.restoreText", { present: job.revision, next: job.revision + 1 }),
    action: t("job.restore"),
  });
  if (!isWanted) return;
  const done = await attempt(
    () => call("POST", `${pathOf("jobs", job.jobId)}/update`, { body: one.definition, headers: { "If-Match": etag ?? `"${job.revision}"` } }),
    t("job.restored", { revision: one.revision }),
  );
  if (done === undefined) return;
  onDone();
  reload();
}

function optionTable(options) {
  const rows = Object.entries(options).map(([name, { value, source }]) => ({ name, value, source }));
  const columns = [
    { key: "name", text: t("job.option"), cell: (one) => html`<code>${one.name}</code>` },
    { key: "value", text: t("job.value"), cell: (one) => html`<code>${JSON.stringify(one.value)}</code>` },
    { key: "source", text: t("job.source"), cell: (one) => html`<span class=${["badge", one.source === "job" ? "busy" : "quiet"]}>${t(`job.source.${one.source}`)}</span>` },
  ];
  return html`<${DataTable} columns=${columns} rows=${rows} keyOf=${(one) => one.name} label=${t("job.options")}/>`;
}
