// "Run now": with parameters, in fields as the job's own schema names them and as JSON beside it, at once or later.

import {
  CodeBlock,
  Dialog,
  JsonArea,
  call,
  explain,
  fieldMoment,
  formatRelative,
  html,
  isBelow,
  linkTo,
  makeDraft,
  makeKey,
  navigate,
  nextTick,
  now,
  pathOf,
  placeOfPointer,
  pointerOf,
  reactive,
  ref,
  sayDone,
  shallowRef,
  t,
  useSubmit,
} from "../../core.js";
import { flatten, isMissing, readFields, skeletonOf } from "./params_schema.js";
import { ParamFields } from "./run_fields.js";

const WRONG = "[aria-invalid=true], .param-group.wrong";

/** The dialog; `onDone` is called when an execution was started. */
export const RunDialog = {
  props: { job: Object, onClose: Function, onDone: Function },
  setup(props) {
    const schema = props.job.definition.paramsSchema ?? true;
    const { fields, rest } = readFields(schema);
    const form = makeRunForm(fields, JSON.stringify(skeletonOf(schema), null, 2));
    const moment = reactive({ isLater: false, at: fieldMoment(Date.now() + 3_600_000).slice(0, 16) });
    const element = ref(null);
    const { isBusy, submit } = useSubmit(async () => {
      form.judge();
      await nextTick();
      const wrong = element.value.querySelector(WRONG);
      if (wrong !== null || form.problem.value !== null) return void wrong?.focus();
      try {
        const query = moment.isLater ? { at: new Date(moment.at).toISOString() } : {};
        const { data } = await call("POST", `${pathOf("jobs", props.job.jobId)}/trigger`, { query, bodyText: form.sent(), headers: { "Idempotency-Key": form.key() } });
        sayDone(t(moment.isLater ? "job.triggeredLater" : "jobs.triggered", { jobId: props.job.jobId }));
        props.onDone();
        navigate(linkTo("executions", data.executionId));
      } catch (error) {
        form.refuse(error);
        await nextTick();
        element.value?.querySelector(WRONG)?.focus();
      }
    });
    return () => html`
      <${Dialog} title=${t("job.runTitle", { jobId: props.job.jobId })} onClose=${props.onClose} wide=${fields.length > 0}>
        <form ref=${element} onSubmit=${submit}>
          <div class=${["run", { both: fields.length > 0 }]}>
            ${fields.length > 0 && html`
              <fieldset class="run-fields" disabled=${form.draft.fault !== null}>
                <legend class="unseen">${t("job.paramsForm")}</legend>
                <${ParamFields} form=${form} fields=${fields}/>
                ${rest > 0 && html`<p class="hint">${t("job.paramsRest", { count: rest })}</p>`}
              </fieldset>
            `}
            ${jsonPart(form)}
          </div>
          ${schema !== true && html`<details class="chart-table"><summary>${t("job.paramsSchema")}</summary><${CodeBlock} text=${JSON.stringify(schema, null, 2)} label=${t("job.paramsSchema")}/></details>`}
          ${whenPart(moment)}
          ${form.problem.value !== null && html`<p class="run-problem lines" role="alert">${form.problem.value}</p>`}
          <div class="job-form-actions">
            <button type="button" class="button" onClick=${props.onClose}>${t("action.cancel")}</button>
            <button type="submit" class="button primary" disabled=${isBusy.value}>${t(moment.isLater ? "job.runLater" : "action.run")}</button>
          </div>
        </form>
      <//>
    `;
  },
};

function jsonPart({ draft, marks }) {
  return html`
    <div class="run-json">
      <h3 id="run-json-head">${t("job.params")}</h3>
      <${JsonArea} value=${draft.text} label=${t("job.params")} describedBy="run-hint" marks=${marks()} onWrite=${(text) => draft.write(text)}/>
      <p class="hint" id="run-hint">${t("job.paramsHint")}</p>
      ${draft.fault !== null && draft.text.trim() !== "" && html`<p class="run-problem">${t("editor.notJson", { line: draft.fault.line + 1, reason: t(`editor.json.${draft.fault.code}`) })}</p>`}
    </div>
  `;
}

function whenPart(moment) {
  const choice = (isLater, text) => html`
    <label class="check"><input type="radio" name="run-when" checked=${moment.isLater === isLater} onChange=${() => (moment.isLater = isLater)}/>${text}</label>
  `;
  const at = new Date(moment.at).getTime();
  return html`
    <fieldset class="run-when">
      <legend class="unseen">${t("job.runWhen")}</legend>
      ${choice(false, t("job.runAtOnce"))}
      ${choice(true, t("job.runLaterAt"))}
      <input class="run-at" type="datetime-local" required aria-label=${t("job.runMoment")} disabled=${!moment.isLater} value=${moment.at} onInput=${(event) => (moment.at = event.target.value)}/>
      <span class="hint">${moment.isLater && !Number.isNaN(at) && html`${formatRelative(at, now.value)}, `}${moment.isLater && t("job.runZone")}</span>
    </fieldset>
  `;
}

/**
 * The parameters that are written: `draft`, `errorAt(path)`, `optional(path)`, `marks()` of lines, `problem` (a ref: what belongs to no field),
 * `judge()`: is all there that is required, `refuse(error)` of the API, `sent()`, and `key()`, one for each text.
 */
function makeRunForm(fields, text) {
  const draft = makeDraft(text);
  const all = flatten(fields);
  const errors = shallowRef([]);
  const problem = ref(null);
  const keys = new Map();
  const partAt = (path) => (draft.fault === null ? draft.part(path) : null);
  const isSent = () => draft.text.trim() === "" || draft.fault === null;
  const standing = () => errors.value.filter((one) => partAt(one.path) === one.part);
  const add = (list) => (errors.value = list.map((one) => ({ ...one, part: partAt(one.path) })));

  function judge() {
    problem.value = null;
    if (!isSent()) return void (problem.value = t("job.needsJson"));
    const isThere = (path) => path.length === 0 || partAt(path) !== null;
    add(all.filter((one) => isThere(one.path.slice(0, -1)) && isMissing(one, draft.get(one.path))).map((one) => ({ path: one.path, pointer: pointerOf(one.path), message: t("job.isRequired") })));
  }

  function refuse(error) {
    const [own, others] = [[], []];
    for (const one of error.errors ?? []) {
      const owner = all.findLast((field) => isBelow(one.pointer, pointerOf(field.path)));
      if (owner === undefined) others.push(one);
      else own.push({ path: owner.path, pointer: one.pointer, message: one.message });
    }
    add(own);
    const isTold = own.length > 0 && others.length === 0;
    problem.value = isTold ? null : explain({ ...error, status: error.status, message: error.message, errors: others }, { places: true });
  }

  return {
    draft,
    problem,
    judge,
    refuse,
    optional: (path) => all.some((one) => !one.isRequired && pointerOf(one.path) === pointerOf(path)),
    errorAt: (path) => standing().filter((one) => pointerOf(one.path) === pointerOf(path)).map((one) => one.message).join("\n") || null,
    marks: () => new Map(draft.fault !== null ? [] : standing().map((one) => [placeOfPointer(draft, one.pointer).line, { kind: "bad", text: one.message }])),
    sent: () => (draft.text.trim() === "" ? "{}" : draft.text),
    key: () => keys.get(draft.text) ?? keys.set(draft.text, makeKey()).get(draft.text),
  };
}
