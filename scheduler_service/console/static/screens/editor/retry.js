// The section Retry: policies in order, and the plan that follows from them as a time line.

import { Icon, html, t } from "../../core.js";
import { Member } from "./member.js";
import { Plan } from "./plan.js";
import { Section } from "./section.js";

const JITTERS = ["none", "full"];
const FIRST_POLICY = { errorEquals: "5xx", intervalSeconds: 10, maxAttempts: 3 };

/** Policies and their cap. */
export function RetrySection({ form }) {
  const { draft } = form;
  const policies = draft.get(["retry"]);
  const list = Array.isArray(policies) ? policies : [];
  return html`
    <${Section} form=${form} name="retry" title=${t("editor.retry")} summary=${list.length === 0 ? t("editor.retryNone") : list.map((one) => [one?.errorEquals ?? []].flat().join(", ")).join(" · ")}>
      <div id="member/retry" tabindex="-1">
        <p class="hint">${t("editor.retryHint")}</p>
        ${form.errorAt(["retry"]) && html`<p class="error">${form.errorAt(["retry"])}</p>`}
        <ol class="steps">${list.map((_, index) => html`<${Policy} key=${index} form=${form} index=${index} count=${list.length}/>`)}</ol>
        <button type="button" class="button" onClick=${() => draft.insert(["retry"], list.length, FIRST_POLICY)}><${Icon} name="plus" size=${14}/>${t("editor.addPolicy")}</button>
      </div>
      ${list.length > 0 && html`
        <div class="columns after"><${Member} form=${form} path=${["maxRetries"]} kind="number" label=${t("editor.maxRetries")} hint=${t("editor.maxRetriesHint")}/></div>
        <${Plan} retry=${list} maxRetries=${draft.get(["maxRetries"])}/>
      `}
    <//>
  `;
}

RetrySection.props = ["form"];

function Policy({ form, index, count }) {
  const path = ["retry", index];
  const number = index + 1;
  const at = (name) => [...path, name];
  const swap = (to) => () => form.draft.swap(["retry"], index, to);
  return html`
    <li class="step">
      <div class="step-head">
        <span class="step-number">${number}</span>
        <h3>${t("editor.policy", { number })}</h3>
        <span class="grow"></span>
        <button type="button" class="button bare" disabled=${index === 0} aria-label=${t("editor.policyUp", { number })} onClick=${swap(index - 1)}>↑</button>
        <button type="button" class="button bare" disabled=${index === count - 1} aria-label=${t("editor.policyDown", { number })} onClick=${swap(index + 1)}>↓</button>
        <button type="button" class="button bare" aria-label=${t("editor.removePolicy", { number })} onClick=${() => form.draft.remove(path)}><${Icon} name="trash" size=${14}/></button>
      </div>
      <div class="columns three">
        <${Member} form=${form} path=${at("errorEquals")} kind="codes" mono label=${t("editor.errorEquals")} hint=${t("editor.errorEqualsHint")}/>
        <${Member} form=${form} path=${at("maxAttempts")} kind="number" label=${t("editor.maxAttempts")}/>
        <${Member} form=${form} path=${at("intervalSeconds")} kind="number" label=${t("editor.intervalSeconds")}/>
        <${Member} form=${form} path=${at("backoffRate")} kind="number" label=${t("editor.backoffRate")}/>
        <${Member} form=${form} path=${at("maxIntervalSeconds")} kind="number" label=${t("editor.maxIntervalSeconds")}/>
        <${Member} form=${form} path=${at("jitter")} kind="choice" known=${JITTERS} label=${t("editor.jitter")}/>
      </div>
    </li>
  `;
}

Policy.props = ["form", "index", "count"];
