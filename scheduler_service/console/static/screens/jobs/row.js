// One job in the list.

import {
  ActionButton,
  Labels,
  Moment,
  OutcomeBars,
  StateBadge,
  attempt,
  html,
  linkTo,
  may,
  pathOf,
  put,
  showUnseen,
  t,
  triggerJob,
} from "../../core.js";

/** A row: `job` and `outcomes` as the API has them, `selection` of the list. A choice in it draws this row alone again: it reads no other row's. */
export const JobRow = {
  props: { job: Object, outcomes: Array, selection: Object, isAt: Boolean, onDone: Function },
  setup(props) {
    return () => {
      const { job, selection } = props;
      return html`
        <tr aria-current=${props.isAt ? "true" : undefined}>
          <td class="narrow">
            <input type="checkbox" aria-label=${t("jobs.choose", { jobId: job.jobId })} checked=${selection.chosen.has(job.jobId)} onChange=${() => selection.toggle(job.jobId)}/>
          </td>
          <td class="job-name">
            <a class="name" href=${linkTo("jobs", job.jobId)}>${showUnseen(job.jobName)}</a>
            ${job.jobName !== job.jobId && html`<span class="dim mono id">${job.jobId}</span>`}
            <${Labels} labels=${job.labels} linked/>
          </td>
          <td><${StateBadge} state=${job.state}/>${job.disabled && html` <${StateBadge} state="disabled"/>`}${job.cannotRun && html` <${StateBadge} state="cannotRun"/>`}</td>
          <td><${OutcomeBars} items=${props.outcomes ?? []}/></td>
          <td class="timer">${timerOf(job)}</td>
          <td data-label=${t("jobs.next")}><${Moment} at=${job.nextFireTime}/></td>
          <td class="dim" data-label=${t("jobs.creator")}>${showUnseen(job.creator)}</td>
          <td class="narrow right">${may("operator") && actions(job, props.onDone)}</td>
        </tr>
      `;
    };
  },
};

function actions(job, onDone) {
  const isPaused = job.state === "paused";
  return html`
    <${ActionButton} bare icon="play" text=${t("action.run")} disabled=${job.disabled} run=${() => triggerJob(job.jobId)}/>
    <${ActionButton} bare icon=${isPaused ? "resume" : "pause"} text=${t(isPaused ? "action.resume" : "action.pause")} disabled=${job.state === "finished"} run=${() => switchJob(job, isPaused ? 1 : 0, onDone)}/>
  `;
}

async function switchJob(job, active, onDone) {
  await attempt(() => put(pathOf("jobs", job.jobId), { active }), t(active === 1 ? "jobs.resumed" : "jobs.paused", { jobId: job.jobId }));
  onDone();
}

function timerOf(job) {
  return job.timer?.description ?? t(`kind.${job.kind}`);
}
