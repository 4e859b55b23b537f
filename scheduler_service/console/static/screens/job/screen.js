// One job: how it stands, what it did and will do, and what can be done with it.

import { EmptyState, Loaded, Tabs, html, pathOf, placeOf, pushQuery, reloadWith, route, t, useResource } from "../../core.js";
import { CalendarTab } from "./calendar.js";
import { ChildrenTab } from "./children.js";
import { DefinitionTab } from "./definition.js";
import { ExecutionsTab } from "./executions.js";
import { JobHead } from "./head.js";
import { OverviewTab } from "./overview.js";
import { ScheduleTab } from "./schedule.js";

const LATEST = 8;

const TABS = {
  overview: OverviewTab,
  executions: ExecutionsTab,
  calendar: CalendarTab,
  schedule: ScheduleTab,
  definition: DefinitionTab,
  children: ChildrenTab,
};

/** `#/jobs/:jobId`; the part that is shown is `?tab=`. */
export const Screen = {
  props: { jobId: String },
  setup(props) {
    const job = useResource(() => ({ path: pathOf("jobs", props.jobId) }), { live: true });
    // Together with the job: its rows are what the page is opened for.
    const latest = useResource(() => (tabOf() === "overview" ? { path: "executions", query: { jobId: props.jobId, limit: LATEST } } : null));
    // Whether there is such a job is asked once.
    const isThere = () => job.data !== null;
    const preview = useResource(() => (isThere() ? { path: `${pathOf("jobs", props.jobId)}/next`, query: { count: 5 } } : null));
    reloadWith(() => [job.data?.nextFireTime, job.data?.state], preview, 1_000);
    return () => {
      if (job.data !== null && job.error?.status === 404) return gone(job.data);
      const chosen = tabOf();
      const own = chosen === "overview" ? { latest } : {};
      const items = Object.keys(TABS).map((key) => ({ key, text: t(`job.${key}`) }));
      const choose = (key) => pushQuery({ tab: key === "overview" ? null : key, cursor: null });
      return html`
        <${Loaded} resource=${job} lines=${10}>${{
          default: (data) => html`
            <${JobHead} job=${data} preview=${preview.data} onDone=${job.reload}/>
            <div class="filters"><${Tabs} items=${items} chosen=${chosen} label=${t("job.parts")} onChoose=${choose}/></div>
            <${TABS[chosen]} key=${chosen} job=${data} preview=${preview} etag=${job.etag} onDone=${job.reload} ...${own}/>
          `,
        }}<//>
      `;
    };
  },
};

function tabOf() {
  return route.query.tab in TABS ? route.query.tab : "overview";
}

/** The job was there and is destroyed now: nothing can be done with it, and its executions are still listed. */
function gone(job) {
  return html`
    <${JobHead} job=${job} isGone/>
    <${EmptyState} icon="trash" title=${t("job.gone")} text=${t("job.goneText")}>
      <a class="button" href=${placeOf("/executions", { jobId: job.jobId })}>${t("executions.title")}</a>
      <a class="button" href="#/jobs">${t("jobs.title")}</a>
    <//>
  `;
}
