// What a job will do: its coming firings, and the outlook of its timer.

import { EmptyState, Loaded, Moment, Outlook, Panel, html, t } from "../../core.js";

/** Coming firings beside the year's outlook. */
export const ScheduleTab = {
  props: { job: Object, preview: Object, etag: String, onDone: Function },
  setup(props) {
    return () => {
      const { timer, ...rest } = props.job.definition;
      if (props.job.kind === "external") return html`<${EmptyState} icon="play" title=${t("job.external")} text=${t("job.externalText")}/>`;
      return html`
        <${Panel} title=${t("job.schedule")}>
          <${Loaded} resource=${props.preview} lines=${3}>${{ default: (data) => words(data, timer) }}<//>
        <//>
        ${!props.job.disabled && html`<${Panel} title=${t("job.outlook")}><${Outlook} timer=${timer ?? {}} jobId=${rest.jobId ?? props.job.jobId}/><//>`}
      `;
    };
  },
};

/** Why nothing is planned to run. */
export function whyNone(job) {
  return t(job.state === "paused" ? "job.nextPaused" : job.disabled ? "job.nextDisabled" : "job.nextNone");
}

/** The coming firings as a list; a text where there is none. */
export function comingList(preview, job) {
  const firings = preview?.firings ?? [];
  if (firings.length === 0) return html`<p class="dim">${whyNone(job)}</p>`;
  return html`
    <ol class="job-coming">
      ${firings.map((one) => html`
        <li key=${one.utc}><${Moment} at=${one.utc} absolute/><span class="dim"><${Moment} at=${one.utc}/></span>${one.note && html`<span class="badge warn">${one.note}</span>`}</li>
      `)}
    </ol>
  `;
}

function words(preview, timer) {
  return html`
    <p class="job-timer">${preview.description}</p>
    <p class="dim">${preview.normalForm && html`<code>${preview.normalForm}</code> `}${timer?.timezone ?? ""}</p>
  `;
}
