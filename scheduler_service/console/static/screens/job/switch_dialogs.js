// Pausing and resuming a job, with what becomes of its running and of its missed executions.

import { Dialog, attempt, html, pathOf, put, ref, t, useSubmit } from "../../core.js";

const MISFIRES = ["skip", "fire_once", "fire_all"];

/** Asks whether running executions may end. */
export const PauseDialog = {
  props: { job: Object, onClose: Function, onDone: Function },
  setup(props) {
    const drain = ref(true);
    const { isBusy, submit } = useSubmit(async () => {
      const done = await attempt(
        () => put(pathOf("jobs", props.job.jobId), undefined, { query: { active: 0, drain: drain.value } }),
        t("jobs.paused", { jobId: props.job.jobId }),
      );
      if (done !== undefined) props.onDone();
    });
    const option = (value) => html`
      <label class="job-option"><input type="radio" name="drain" checked=${drain.value === value} onChange=${() => (drain.value = value)}/><span><strong>${t(`job.drain.${value}`)}</strong><span class="dim">${t(`job.drain.${value}Text`)}</span></span></label>
    `;
    return () => html`
      <${Dialog} title=${t("job.pauseTitle", { jobId: props.job.jobId })} onClose=${props.onClose}>
        <form onSubmit=${submit}>
          <fieldset class="job-options"><legend class="unseen">${t("job.drain")}</legend>${option(true)}${option(false)}</fieldset>
          <div class="job-form-actions">
            <button type="button" class="button" onClick=${props.onClose}>${t("action.cancel")}</button>
            <button type="submit" class="button primary" disabled=${isBusy.value}>${t("action.pause")}</button>
          </div>
        </form>
      <//>
    `;
  },
};

/** Asks how the firings of the pause are treated; afterwards it is told how many were missed. */
export const ResumeDialog = {
  props: { job: Object, onClose: Function, onDone: Function },
  setup(props) {
    const misfire = ref("skip");
    const { isBusy, submit } = useSubmit(async () => {
      const done = await attempt(
        () => put(pathOf("jobs", props.job.jobId), undefined, { query: { active: 1, misfire: misfire.value } }),
        (job) => (job.missed > 0 ? t("job.resumedMissed", { jobId: job.jobId, count: job.missed }) : t("jobs.resumed", { jobId: job.jobId })),
      );
      if (done !== undefined) props.onDone();
    });
    return () => html`
      <${Dialog} title=${t("job.resumeTitle", { jobId: props.job.jobId })} onClose=${props.onClose}>
        <form onSubmit=${submit}>
          <p class="dim">${t("job.resumeText")}</p>
          <fieldset class="job-options">
            <legend class="unseen">${t("job.misfire")}</legend>
            ${MISFIRES.map((value) => html`
              <label class="job-option" key=${value}>
                <input type="radio" name="misfire" checked=${misfire.value === value} onChange=${() => (misfire.value = value)}/>
                <span><strong>${t(`job.misfire.${value}`)}</strong><span class="dim">${t(`job.misfire.${value}Text`)}</span></span>
              </label>
            `)}
          </fieldset>
          <div class="job-form-actions">
            <button type="button" class="button" onClick=${props.onClose}>${t("action.cancel")}</button>
            <button type="submit" class="button primary" disabled=${isBusy.value}>${t("action.resume")}</button>
          </div>
        </form>
      <//>
    `;
  },
};
