// "Run now": with parameters, which the job's own schema checks.

import { CodeBlock, Dialog, call, explain, html, linkTo, navigate, pathOf, ref, sayDone, t, useSubmit } from "../../core.js";

/** The dialog; `onDone` is called when an execution was started. */
export const RunDialog = {
  props: { job: Object, onClose: Function, onDone: Function },
  setup(props) {
    const schema = props.job.definition.paramsSchema;
    const text = ref(JSON.stringify(exampleOf(schema), null, 2));
    const problem = ref(null);
    const { isBusy, submit } = useSubmit(async () => {
      const params = readParams(text.value, problem);
      if (params === undefined) return;
      try {
        const { data } = await call("POST", `${pathOf("jobs", props.job.jobId)}/trigger`, { body: params });
        sayDone(t("jobs.triggered", { jobId: props.job.jobId }));
        props.onDone();
        navigate(linkTo("executions", data.executionId));
      } catch (error) {
        problem.value = explain(error, { places: true });
      }
    });
    return () => html`
      <${Dialog} title=${t("job.runTitle", { jobId: props.job.jobId })} onClose=${props.onClose} wide=${Boolean(schema)}>
        <form id="run-form" onSubmit=${submit}>
          <div class=${["field", { wrong: problem.value !== null }]}>
            <label for="run-params">${t("job.params")}</label>
            <textarea
              id="run-params"
              class="mono"
              rows="8"
              spellcheck="false"
              aria-describedby="run-hint"
              aria-invalid=${problem.value === null ? undefined : "true"}
              value=${text.value}
              onInput=${(event) => (text.value = event.target.value)}
            ></textarea>
            <p class="hint" id="run-hint">${t("job.paramsHint")}</p>
            ${problem.value !== null && html`<p class="error" role="alert">${problem.value}</p>`}
          </div>
          ${schema && html`<h3 class="job-schema-head">${t("job.paramsSchema")}</h3><${CodeBlock} text=${JSON.stringify(schema, null, 2)} label=${t("job.paramsSchema")}/>`}
          <div class="job-form-actions">
            <button type="button" class="button" onClick=${props.onClose}>${t("action.cancel")}</button>
            <button type="submit" class="button primary" disabled=${isBusy.value}>${t("action.run")}</button>
          </div>
        </form>
      <//>
    `;
  },
};

function readParams(text, problem) {
  problem.value = null;
  if (text.trim() === "") return {};
  try {
    return JSON.parse(text);
  } catch (error) {
    problem.value = t("job.notJson", { message: error.message });
    return undefined;
  }
}

/** What a schema names by itself, its defaults and constants, as a beginning of the parameters. */
function exampleOf(schema) {
  const members = Object.entries(schema?.properties ?? {});
  const known = members.map(([name, one]) => [name, one?.default ?? one?.const ?? one?.enum?.[0] ?? one?.examples?.[0]]);
  return Object.fromEntries(known.filter(([, value]) => value !== undefined));
}
