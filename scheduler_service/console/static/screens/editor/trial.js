// "Try once": runs the draft without saving it, and follows the execution step by step.

import {
  ActionButton,
  Dialog,
  Duration,
  Icon,
  JsonView,
  StateBadge,
  attempt,
  call,
  faultOfJson,
  html,
  linkTo,
  pathOf,
  ref,
  shallowReactive,
  showUnseen,
  t,
  useResource,
  watch,
} from "../../core.js";

const ENDED = ["succeeded", "terminated", "cancelled", "skipped"];

/**
 * Trials of `draft`: `state` (`executionId` of the last one, `isAsked`: parameters are asked for), `start(params)` with parameters as JSON, `end()`.
 * The service makes a job for a trial, and destroys it by itself. For `setup`.
 */
export function useTrial(draft) {
  const state = shallowReactive({ executionId: null, isAsked: false });

  async function start(params) {
    state.isAsked = false;
    state.executionId = null;
    const bodyText = `{"definition":${draft.text},"params":${params}}`;
    await attempt(async () => {
      state.executionId = (await call("POST", "definitions/try", { bodyText })).data.executionId;
    });
  }

  const end = () => (state.executionId = null);
  return { state, start, end };
}

/** The execution that is tried, as it goes; `onEnd(execution)` when it has ended. */
export const TrialPanel = {
  props: { executionId: String, onEnd: Function, onClose: Function },
  setup(props) {
    const isLive = ref(true);
    const execution = useResource(() => ({ path: pathOf("executions", props.executionId) }), { live: true, keeps: true });
    watch(() => execution.data?.state, (value) => {
      isLive.value = !ENDED.includes(value);
      if (!isLive.value && value !== undefined) props.onEnd(execution.data);
    });
    return () => html`
      <section class="panel trial" aria-label=${t("editor.trial")}>
        <div class="panel-head">
          <h2>${t("editor.trial")}</h2>
          <span class="actions">
            ${execution.data && html`<${StateBadge} state=${execution.data.state}/>`}
            <a href=${linkTo("executions", props.executionId)} target="_blank">${t("editor.openExecution")}</a>
            <button type="button" class="button bare" aria-label=${t("action.close")} onClick=${props.onClose}><${Icon} name="close" size=${14}/></button>
          </span>
        </div>
        <div class="panel-body" aria-live="polite">${execution.data === null ? t("loading") : trialOf(execution.data)}</div>
      </section>
    `;
  },
};

function trialOf(execution) {
  const steps = execution.attempts.flatMap((one) => one.steps.map((step) => ({ ...step, attempt: one.requestCounts })));
  return html`
    <ol class="trial-steps">
      ${steps.map((step) => html`
        <li key=${`${step.attempt}/${step.index}`}>
          <details>
            <summary>
              <code>${step.method}</code><code class="grow cut">${showUnseen(step.url ?? "")}</code>
              <span class=${["badge", step.status >= 200 && step.status < 300 ? "good" : "bad"]}>${step.status ?? "–"}</span><${Duration} ms=${step.durationMs}/>
            </summary>
            ${step.response && html`<${JsonView} value=${readBody(step.response.body)} label=${t("editor.responseOf", { number: step.index + 1 })}/>`}
          </details>
        </li>
      `)}
    </ol>
    ${execution.error && html`<p class="error">${execution.error}${execution.message ? `: ${showUnseen(execution.message)}` : ""}</p>`}
  `;
}

function readBody(body) {
  try {
    return JSON.parse(body);
  } catch {
    return body ?? null;
  }
}

/** Asks for the parameters of the trigger, which the templates of the first step see. */
export const TrialDialog = {
  props: { onStart: Function, onClose: Function },
  setup(props) {
    const text = ref("{}");
    const fault = ref(null);
    async function start() {
      fault.value = faultOfJson(text.value);
      if (fault.value === null) await props.onStart(text.value.trim() || "{}");
    }
    return () => html`
      <${Dialog} title=${t("editor.tryOnce")} onClose=${props.onClose}>${{
        default: () => html`
          <p>${t("editor.tryText")}</p>
          <label class="field">${t("editor.params")}
            <textarea class="mono" rows="4" value=${text.value} onInput=${(event) => (text.value = event.target.value)} aria-invalid=${fault.value ? "true" : undefined}></textarea>
          </label>
          ${fault.value && html`<p class="error" role="alert">${fault.value}</p>`}
        `,
        actions: () => html`
          <button type="button" class="button" onClick=${props.onClose}>${t("action.cancel")}</button>
          <${ActionButton} kind="primary" icon="play" text=${t("editor.tryOnce")} run=${start}/>
        `,
      }}<//>
    `;
  },
};
