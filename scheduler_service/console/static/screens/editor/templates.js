// What a template becomes with the values of the sample, below its field; the service evaluates it.

import { Icon, LARGE_PART, html, linkTo, showUnseen, t, useSoft } from "../../core.js";
import { rootFor } from "./sample.js";

const LONGEST = 400;

/** The members that judge an answer by its body. */
export const RULES = ["successWhen", "errorFrom", "messageFrom"];

/**
 * The value of the member at `path` (`place`: url, header, body) in step `index`; nothing where it has no `${…}`. What judges an answer (`place`
 * successWhen, errorFrom, messageFrom) is tried on the last one to this step; nothing where there is none.
 */
export const Tried = {
  props: { form: Object, sample: Object, index: Number, path: Array, place: String },
  setup(props) {
    const template = () => {
      const value = props.form.draft.get(props.path);
      const text = JSON.stringify(value ?? "");
      if (RULES.includes(props.place)) return typeof value === "string" && value !== "" && props.sample.responses.length > props.index ? value : undefined;
      return text.length <= LARGE_PART && text.includes("${") ? value : undefined;
    };
    const root = () => RULES.includes(props.place) ? props.sample.responses[props.index] : rootFor(props.sample, props.form.draft.get(["request"]) ?? [], props.index);
    const preview = useSoft(() => {
      if (template() === undefined) return null;
      return { path: "templates/preview", body: { template: template(), root: root(), place: placeOfTemplate(props.place) } };
    });
    return () => {
      if (template() === undefined || preview.isAbsent || (preview.data === null && preview.problem === null)) return null;
      const { execution } = props.sample;
      return html`
        <div class=${["tried", { wrong: preview.problem !== null && execution !== null }]}>
          <${Icon} name=${preview.problem === null ? "arrow" : "alert"} size=${13}/>
          <code class="grow">${preview.problem === null ? [shown(preview.data.value), ...said(props.place, preview)].join("\n") : reasonOf(preview.problem)}</code>
          ${execution
            ? html`<a class="dim" href=${linkTo("executions", execution.executionId)} target="_blank">${t("editor.withExecution", { number: execution.executeNumber })}</a>`
            : html`<span class="dim">${t("editor.withNothing")}</span>`}
        </div>
      `;
    };
  },
};

/** Headers are tried together, as members of a body: each value is a template of its own. */
function placeOfTemplate(place) {
  return place === "header" ? "body" : place;
}

/** Why a condition cannot hold of this answer; of templates the warnings stand elsewhere. */
function said(place, preview) {
  return RULES.includes(place) ? preview.warnings.map((one) => one.message) : [];
}

function shown(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return showUnseen(text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);
}

function reasonOf(problem) {
  return (problem.errors ?? []).map((one) => one.message).join("\n") || problem.detail;
}
