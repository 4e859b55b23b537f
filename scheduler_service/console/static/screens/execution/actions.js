// What one may do with an execution: cancel it, release it, run it again.

import { ActionButton, Dialog, Field, attempt, explain, html, linkTo, may, navigate, pathOf, post, ref, sayDone, sayFailed, t, useSubmit } from "../../core.js";
import { isLive } from "./rows.js";

/** The buttons: `execution`, `isJobGone` (then nothing can be replayed), `stepCount` (of its chain), `replayFrom` (a step for the dialog, or null), `onReplayFrom(step)`, `onDone()`. */
export const ExecutionActions = {
  props: { execution: Object, isJobGone: Boolean, stepCount: Number, replayFrom: Number, onReplayFrom: Function, onDone: Function },
  setup(props) {
    const isCancelling = ref(false);
    const path = () => pathOf("executions", props.execution.executionId);
    const release = async () => {
      await attempt(() => post(`${path()}/release`, {}), t("execution.released"));
      props.onDone();
    };
    return () => {
      if (!may("operator")) return null;
      const { state } = props.execution;
      return html`
        ${state === "enqueued" && html`<${ActionButton} icon="play" text=${t("execution.release")} run=${release}/>`}
        ${isLive(props.execution) && html`<${ActionButton} icon="stop" text=${t("execution.cancel")} run=${() => (isCancelling.value = true)}/>`}
        ${props.isJobGone && html`<span class="dim" id="replay-not">${t("execution.replayNot")}</span>`}
        <${ActionButton} icon="retry" disabled=${props.isJobGone} aria-describedby=${props.isJobGone ? "replay-not" : undefined} kind=${isLive(props.execution) ? "" : "primary"} text=${t("execution.replay")} run=${() => props.onReplayFrom(0)}/>
        ${isCancelling.value && html`<${CancelDialog} path=${path()} onClose=${() => (isCancelling.value = false)} onDone=${props.onDone}/>`}
        ${props.replayFrom !== null && html`
          <${ReplayDialog} execution=${props.execution} stepCount=${props.stepCount} from=${props.replayFrom} path=${path()} onClose=${() => props.onReplayFrom(null)}/>
        `}
      `;
    };
  },
};

const CancelDialog = {
  props: { path: String, onClose: Function, onDone: Function },
  setup(props) {
    const reason = ref("");
    const { isBusy, submit } = useSubmit(async () => {
      const given = reason.value.trim();
      try {
        await post(`${props.path}/cancel`, given === "" ? {} : { reason: given });
        sayDone(t("execution.cancelDone"));
        props.onClose();
      } catch (error) {
        sayFailed(error);
        // It has ended meanwhile, or is not there any more: nothing is left to cancel.
        if (error.status === 409 || error.status === 404) props.onClose();
      }
      props.onDone();
    });
    return () => html`
      <${Dialog} title=${t("execution.cancelTitle")} onClose=${props.onClose}>
        <form onSubmit=${submit}>
          <p class="dim dialog-text">${t("execution.cancelText")}</p>
          <div class="field">
            <label for="cancel-reason">${t("execution.cancelReason")}</label>
            <input id="cancel-reason" maxlength="500" value=${reason.value} onInput=${(event) => (reason.value = event.target.value)}/>
          </div>
          <button class="button danger" disabled=${isBusy.value}>${t("execution.cancel")}</button>
        </form>
      <//>
    `;
  },
};

const ReplayDialog = {
  props: { execution: Object, stepCount: Number, from: Number, path: String, onClose: Function },
  setup(props) {
    const { params, paramsComplete } = props.execution;
    const original = paramsComplete ? JSON.stringify(params ?? {}, null, 2) : "";
    const text = ref(original);
    const step = ref(props.from);
    const error = ref(null);

    const { isBusy, submit } = useSubmit(async () => {
      const edited = editedParams(text.value, original);
      error.value = edited.error;
      if (edited.error !== null) return;
      const body = { fromStep: step.value, ...(edited.params === undefined ? {} : { params: edited.params }) };
      try {
        const started = await post(`${props.path}/replay`, body);
        sayDone(t("execution.replayDone"));
        props.onClose();
        navigate(linkTo("executions", started.executionId));
      } catch (refused) {
        error.value = explain(refused, { places: true });
      }
    });

    return () => html`
      <${Dialog} wide title=${t("execution.replayTitle", { name: `${props.execution.jobId} #${props.execution.executeNumber}` })} onClose=${props.onClose}>
        <form onSubmit=${submit}>
          <p class="dim dialog-text">${t("execution.replayText")}</p>
          <div class="field">
            <label for="replay-step">${t("execution.replayFrom")}</label>
            <select id="replay-step" value=${step.value} onChange=${(event) => (step.value = Number(event.target.value))}>
              ${stepsOf(props).map((one) => html`<option key=${one.value} value=${one.value}>${one.text}</option>`)}
            </select>
          </div>
          <${Field} id="replay-params" label=${t("execution.params")} hint=${t(paramsComplete ? "execution.paramsHint" : "execution.paramsCut")} error=${error.value}>${{
            default: (described) => html`<textarea ...${described} class="mono" rows="8" spellcheck="false" value=${text.value} onInput=${(event) => (text.value = event.target.value)}></textarea>`,
          }}<//>
          <button class="button primary" disabled=${isBusy.value}>${t("execution.replay")}</button>
        </form>
      <//>
    `;
  },
};

/** The steps from which one may replay, by their number and address. */
function stepsOf({ execution, stepCount }) {
  const known = execution.attempts.at(-1)?.steps ?? [];
  return Array.from({ length: Math.max(stepCount, 1) }, (_, index) => {
    const step = known.find((one) => one.index === index && one.part === null);
    const name = t("execution.row.step", { number: index + 1 });
    return { value: index, text: step === undefined ? name : `${name}: ${step.method} ${step.url.slice(0, 80)}` };
  });
}

/** `{params, error}`: undefined parameters where the text is as it was, so that the service takes those of the execution. */
function editedParams(text, original) {
  if (text.trim() === original.trim()) return { params: undefined, error: null };
  try {
    const params = JSON.parse(text);
    if (params === null || typeof params !== "object" || Array.isArray(params)) return { error: t("execution.paramsObject") };
    return { params, error: null };
  } catch (wrong) {
    return { error: wrong.message };
  }
}
