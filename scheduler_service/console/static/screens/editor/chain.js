// The section Request: the steps of the chain, in order; each can be moved, taken away and tried.

import { Icon, JsonMember, html, t } from "../../core.js";
import { Member } from "./member.js";
import { More, Section } from "./section.js";
import { Step } from "./step.js";

/** The chain, the sample on which templates are tried, and the schema of a trigger's parameters. */
export function ChainSection({ form, sample }) {
  const { draft } = form;
  const steps = draft.get(["request"]);
  const list = Array.isArray(steps) ? steps : [];
  const add = () => draft.insert(["request"], list.length, { method: "POST", url: "" });
  return html`
    <${Section} form=${form} name="request" title=${t("editor.request")} summary=${summaryOf(list)}>
      <div id="member/request" tabindex="-1">
        ${form.errorAt(["request"]) && html`<p class="error">${form.errorAt(["request"])}</p>`}
        <ol class="steps">
          ${list.map((step, index) => html`<${Step} key=${index} form=${form} sample=${sample} index=${index} count=${list.length}/>`)}
        </ol>
        <button type="button" class="button" onClick=${add}><${Icon} name="plus" size=${14}/>${t("editor.addStep")}</button>
      </div>
      <${More} form=${form} paths=${[["paramsSchema"]]} text=${t("editor.paramsSchema")}>
        <${JsonMember} form=${form} path=${["paramsSchema"]} label=${t("editor.paramsSchema")} hint=${t("editor.paramsSchemaHint")} rows=${5}/>
      <//>
    <//>
  `;
}

ChainSection.props = ["form", "sample"];

function summaryOf(steps) {
  const first = steps[0];
  const text = first === undefined ? "" : `${first?.method ?? "POST"} ${first?.url ?? ""}`;
  return steps.length > 1 ? `${text} ${t("editor.andMore", { count: steps.length - 1 })}` : text;
}
