// "Run past moments": what the timer has missed between two moments is shown first, and run then.

import { Dialog, Moment, StateBadge, call, explain, fieldMoment, html, navigate, pathOf, placeOf, ref, sayDone, t, useSubmit } from "../../core.js";

const WHICH = ["missing", "failed", "all"];
const WEEK = 7 * 86_400_000;
const SHOWN = 50;

/** The dialog; `onDone` is called when the executions were begun. */
export const BackfillDialog = {
  props: { job: Object, onClose: Function, onDone: Function },
  setup(props) {
    const asked = ref({ from: fieldMoment(Date.now() - WEEK), to: fieldMoment(Date.now()), which: WHICH[0] });
    const found = ref(null);
    const problem = ref(null);
    const set = (name, value) => {
      asked.value = { ...asked.value, [name]: value };
      found.value = null;
    };
    const { isBusy, submit } = useSubmit(async () => {
      const dryRun = found.value === null;
      try {
        const { data } = await call("POST", `${pathOf("jobs", props.job.jobId)}/backfill`, { body: bodyOf(asked.value, dryRun) });
        problem.value = null;
        if (dryRun) return void (found.value = data);
        sayDone(t("job.backfill.done", { count: data.items.length }));
        props.onDone();
        navigate(placeOf("/executions", { jobId: props.job.jobId, triggeredBy: "backfill" }));
      } catch (error) {
        problem.value = explain(error, { places: true });
      }
    });
    return () => html`
      <${Dialog} title=${t("job.backfill.title", { jobId: props.job.jobId })} onClose=${props.onClose}>
        <form onSubmit=${submit}>
          <p class="dim">${t("job.backfill.text")}</p>
          ${["from", "to"].map((name) => html`
            <div class="field" key=${name}>
              <label for=${`backfill-${name}`}>${t(`job.backfill.${name}`)}</label>
              <input id=${`backfill-${name}`} type="datetime-local" step="1" required value=${asked.value[name]} onChange=${(event) => set(name, event.target.value)}/>
            </div>
          `)}
          <fieldset class="job-options">
            <legend class="unseen">${t("job.backfill.which")}</legend>
            ${WHICH.map((one) => html`
              <label class="job-option" key=${one}>
                <input type="radio" name="which" checked=${asked.value.which === one} onChange=${() => set("which", one)}/>
                <span><strong>${t(`job.backfill.${one}`)}</strong><span class="dim">${t(`job.backfill.${one}Text`)}</span></span>
              </label>
            `)}
          </fieldset>
          <div aria-live="polite">${found.value !== null && listOf(found.value)}</div>
          ${problem.value !== null && html`<p class="error" role="alert">${problem.value}</p>`}
          <div class="job-form-actions">
            <button type="button" class="button" onClick=${props.onClose}>${t("action.cancel")}</button>
            <button type="submit" class="button primary" disabled=${isBusy.value || found.value?.items.length === 0}>${actionOf(found.value)}</button>
          </div>
        </form>
      <//>
    `;
  },
};

function actionOf(found) {
  return found === null ? t("job.backfill.show") : t("job.backfill.run", { count: found.items.length });
}

function bodyOf({ from, to, which }, dryRun) {
  return { from: new Date(from).toISOString(), to: new Date(to).toISOString(), which, dryRun };
}

/** The moments in order: those that will run, and the others with what became of them. */
function listOf({ items, left }) {
  const moments = [...items, ...left].sort((one, other) => one.plannedAt.localeCompare(other.plannedAt));
  if (moments.length === 0) return html`<p class="dim">${t("job.backfill.none")}</p>`;
  return html`
    <ol class="job-coming">
      ${moments.slice(0, SHOWN).map((one) => html`
        <li key=${one.plannedAt}><${Moment} at=${one.plannedAt} absolute/>${one.state === undefined ? html`<span class="dim">${t("job.backfill.will")}</span>` : html`<${StateBadge} state=${one.state}/>`}</li>
      `)}
    </ol>
    ${moments.length > SHOWN && html`<p class="dim">${t("job.backfill.more", { count: moments.length - SHOWN })}</p>`}
  `;
}
