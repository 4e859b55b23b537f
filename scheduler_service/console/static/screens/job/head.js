// The head of a job: name, state, facts, and its actions.

import {
  ActionButton,
  Icon,
  Moment,
  PageHead,
  StateBadge,
  attempt,
  confirm,
  copy,
  hasText,
  html,
  may,
  navigate,
  pathOf,
  placeOf,
  put,
  ref,
  remove,
  replaceQuery,
  route,
  showUnseen,
  t,
  watch,
} from "../../core.js";
import { BackfillDialog } from "./backfill_dialog.js";
import { copyAsCurl, exportJob } from "./copies.js";
import { PauseDialog, ResumeDialog } from "./switch_dialogs.js";
import { RunDialog } from "./run_dialog.js";

/** `job` as GET /jobs/{id} gives it, `preview` its coming firings or null; `isGone`: it is destroyed, and has no actions. */
export const JobHead = {
  props: { job: Object, preview: Object, isGone: Boolean, onDone: Function },
  setup(props) {
    const dialog = ref(null);
    // `?run=true`: somebody comes from a place that has no form of parameters.
    watch(() => route.query.run, (isRun) => isRun && may("operator") && (dialog.value = "run"), { immediate: true });
    const close = () => {
      dialog.value = null;
      if (route.query.run) replaceQuery({ run: null });
    };
    const done = () => {
      close();
      props.onDone();
    };
    return () => html`
      <${PageHead} title=${showUnseen(props.job.jobName)} back=${{ href: "#/jobs", text: t("jobs.title") }}>${{
        marks: () => (props.isGone ? html`<span class="badge bad">${t("job.goneBadge")}</span>` : html`<${StateBadge} state=${props.job.state}/>${pauseReason(props.job)}${props.job.disabled && html`<${StateBadge} state="disabled"/>`}${props.job.cannotRun && html`<${StateBadge} state="cannotRun"/>`}`),
        default: () => !props.isGone && html`${buttons(props.job, (name) => (dialog.value = name))}<${MoreActions} job=${props.job} onDone=${done} onBackfill=${() => (dialog.value = "backfill")}/>`,
        below: () => !props.isGone && facts(props.job, props.preview),
      }}<//>
      ${dialog.value === "run" && html`<${RunDialog} job=${props.job} onClose=${close} onDone=${done}/>`}
      ${dialog.value === "backfill" && html`<${BackfillDialog} job=${props.job} onClose=${close} onDone=${done}/>`}
      ${dialog.value === "pause" && html`<${PauseDialog} job=${props.job} onClose=${close} onDone=${done}/>`}
      ${dialog.value === "resume" && html`<${ResumeDialog} job=${props.job} onClose=${close} onDone=${done}/>`}
    `;
  },
};

function buttons(job, open) {
  const isPaused = job.state === "paused";
  const [word, icon] = isPaused ? ["resume", "resume"] : ["pause", "pause"];
  return html`
    ${may("operator") && html`<button type="button" class="button primary" disabled=${job.disabled} onClick=${() => open("run")}><${Icon} name="play" size=${14}/>${t("action.run")}</button>`}
    ${may("operator") && job.state !== "finished" && html`<button type="button" class="button" onClick=${() => open(word)}><${Icon} name=${icon} size=${14}/>${t(`action.${word}`)}</button>`}
    ${may("editor") && html`<a class="button" href=${`#/${pathOf("jobs", job.jobId, "edit")}`}><${Icon} name="edit" size=${14}/>${t("job.edit")}</a>`}
  `;
}

/** What is wanted seldom, behind one button. */
const MoreActions = {
  props: { job: Object, onDone: Function, onBackfill: Function },
  setup(props) {
    const menu = ref(null);
    const run = (action) => async () => {
      menu.value.open = false;
      await action(props.job, props.onDone);
    };
    const onKeydown = (event) => {
      if (event.key !== "Escape") return;
      menu.value.open = false;
      menu.value.querySelector("summary").focus();
    };
    // It is gone where a choice in it leads elsewhere.
    const onFocusout = ({ relatedTarget }) => menu.value === null || relatedTarget === null || menu.value.contains(relatedTarget) || (menu.value.open = false);
    return () => html`
      <details class="job-menu" ref=${menu} onKeydown=${onKeydown} onFocusout=${onFocusout}>
        <summary class="button" aria-label=${t("job.more")} title=${t("job.more")}><${Icon} name="more"/></summary>
        <div class="job-menu-items">
          <${ActionButton} bare=${false} icon="copy" text=${t("job.curl")} run=${run(copyAsCurl)}/>
          <${ActionButton} icon="down" text=${t("job.export")} run=${run(exportJob)}/>
          ${may("operator") && hasPlan(props.job) && html`<${ActionButton} icon="retry" text=${t("job.backfill")} run=${run(props.onBackfill)}/>`}
          ${may("operator") && html`<${ActionButton} icon=${props.job.disabled ? "check" : "stop"} text=${t(props.job.disabled ? "action.enable" : "action.disable")} run=${run(switchDisabled)}/>`}
          ${may("admin") && html`<a class="button" href=${placeOf("/audit", { jobId: props.job.jobId })}><${Icon} name="list" size=${14}/>${t("job.audit")}</a>`}
          ${may("editor") && html`<a class="button" href=${placeOf("/new", { from: props.job.jobId })}><${Icon} name="plus" size=${14}/>${t("job.duplicate")}</a>`}
          ${may("editor") && html`<${ActionButton} icon="trash" kind="danger" text=${t("action.destroy")} run=${run(destroyJob)}/>`}
        </div>
      </details>
    `;
  },
};

/** Whether its timer has moments that have passed. */
function hasPlan(job) {
  return (job.kind === "cron" || job.kind === "timing") && job.definition.timer?.periodFrom !== "end";
}

function facts(job, preview) {
  return html`
    <button type="button" class="id-copy mono" title=${t("action.copy")} onClick=${() => copy(job.jobId)}>${job.jobId}</button>
    ${job.cannotRun && html`<span>${showUnseen(job.cannotRun)}</span>`}
    <span>${preview?.description ?? t(`kind.${job.kind}`)}</span>
    ${job.nextFireTime && html`<span>${t("job.nextFiring")} <${Moment} at=${job.nextFireTime}/></span>`}
    <span>${t("job.revision", { revision: job.revision })}</span>
  `;
}

function pauseReason(job) {
  if (!job.pauseReason || job.pauseReason === "paused") return null;
  const text = hasText(`job.pauseReason.${job.pauseReason}`) ? t(`job.pauseReason.${job.pauseReason}`) : job.pauseReason;
  return html`<span class="badge warn"><${Icon} name="alert" size=${12}/>${text}</span>`;
}

async function switchDisabled(job, onDone) {
  const disabled = !job.disabled;
  const done = await attempt(() => put(pathOf("jobs", job.jobId), { disabled }), t(disabled ? "jobs.disabled" : "jobs.enabled", { jobId: job.jobId }));
  if (done !== undefined) onDone();
}

async function destroyJob(job) {
  const isWanted = await confirm({
    title: t("job.destroyTitle", { jobId: job.jobId }),
    text: t("bulk.destroy.text"),
    action: t("action.destroy"),
    isDangerous: true,
    typed: job.jobId,
  });
  if (!isWanted) return;
  const done = await attempt(() => remove(pathOf("jobs", job.jobId)), t("job.destroyed", { jobId: job.jobId }));
  if (done !== undefined) navigate("#/jobs");
}
