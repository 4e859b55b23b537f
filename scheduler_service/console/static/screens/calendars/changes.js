// What a changed calendar would do before it is saved: the jobs that would fire at other moments, from the first change on.

import { ActionButton, Icon, Moment, Panel, attempt, call, formatNumber, html, linkTo, pathOf, shallowReactive, t, watch } from "../../core.js";

/**
 * What the preview says of jobs, and of those that it has not looked at yet: `state` with `jobs`, `checked`, `cursor`; `more()` looks at further ones. `preview` is of
 * useSoft, `asked()` its question.
 */
export function useChanges(preview, asked) {
  const state = shallowReactive({ jobs: [], checked: 0, cursor: null });
  watch(
    () => preview.data,
    (data) => Object.assign(state, { jobs: data?.jobs ?? [], checked: data?.checked ?? 0, cursor: data?.nextCursor ?? null }),
    { immediate: true },
  );
  async function more() {
    const { path, query, body } = asked();
    const before = preview.data;
    const found = await attempt(async () => (await call("POST", path, { query: { ...query, cursor: state.cursor }, body })).data);
    if (found === undefined || before !== preview.data) return;
    Object.assign(state, { jobs: [...state.jobs, ...found.jobs], checked: state.checked + found.checked, cursor: found.nextCursor });
  }
  return { state, more };
}

/** The jobs that change, or that none does. */
export function Changes({ state, more }) {
  return html`
    <${Panel} title=${t("calendars.changes")}>
      <p class="dim" role="status">${sumOf(state)}</p>
      ${state.jobs.length > 0 && html`
        <ul class="calendar-changes">${state.jobs.map((one) => html`<${ChangedJob} key=${one.jobId} job=${one}/>`)}</ul>
      `}
      ${state.cursor !== null && html`<${ActionButton} text=${t("calendars.lookAtMore")} run=${more}/>`}
    <//>
  `;
}

Changes.props = ["state", "more"];

/** What is known of the jobs, in a sentence. */
export function sumOf({ jobs, checked, cursor }) {
  const words = { count: formatNumber(jobs.length), checked: formatNumber(checked) };
  const text = checked === 0 ? t("calendars.noUsers") : jobs.length === 0 ? t("calendars.noChanges", words) : t("calendars.changed", words);
  return cursor === null ? text : `${text} ${t("calendars.notAll")}`;
}

function ChangedJob({ job }) {
  const moments = momentsOf(job);
  return html`
    <li>
      <a class="mono" href=${linkTo("jobs", job.jobId)}>${job.jobId}</a>
      ${job.firstChange === null && html`<span class="dim">${t("calendars.laterChange")}</span>`}
      <ol>
        ${moments.map(([moment, kind]) => html`
          <li key=${moment} class=${kind}>
            <${Icon} name=${kind === "gone" ? "dash" : kind === "added" ? "plus" : "dot"} size=${12}/>
            <${Moment} at=${moment} absolute/>
            <span class="dim">${t(`calendars.moment.${kind}`)}</span>
          </li>
        `)}
      </ol>
    </li>
  `;
}

ChangedJob.props = ["job"];

/** The firings of both plans in order, each with what becomes of it, as far as both plans are known. */
export function momentsOf({ before, after }) {
  const ends = [before, after].filter((list) => list.length === 5).map((list) => list.at(-1));
  const horizon = ends.sort()[0] ?? null;
  const [was, becomes] = [new Set(before), new Set(after)];
  return [...new Set([...before, ...after])]
    .sort()
    .filter((moment) => horizon === null || moment <= horizon)
    .map((moment) => [moment, !becomes.has(moment) ? "gone" : was.has(moment) ? "stays" : "added"]);
}
