// The sections Overlap and misfire, Asynchronous, and Options.

import { html, t } from "../../core.js";
import { Member } from "./member.js";
import { Section } from "./section.js";

const OVERLAPS = ["skip", "queue", "cancel_running", "allow"];
const MISFIRES = ["fire_once", "skip", "fire_all"];
const MISFIRE = ["timer", "misfire"];

/** What happens when a firing meets one that still runs, or is found late. */
export function OverlapSection({ form }) {
  const { draft } = form;
  const overlap = draft.get(["overlapPolicy"]) ?? form.defaultAt(["overlapPolicy"]);
  const hasTimer = Object(draft.get(["timer"])) === draft.get(["timer"]);
  const policy = draft.get([...MISFIRE, "policy"]);
  return html`
    <${Section} form=${form} name="overlap" title=${t("editor.overlap")} summary=${overlap ? t(`editor.choice.${overlap}`) : t("editor.overlapSummary")}>
      <div class="columns three">
        <${Member} form=${form} path=${["overlapPolicy"]} kind="choice" known=${OVERLAPS} label=${t("editor.overlapPolicy")} hint=${t("editor.overlapHint")}/>
        <${Member} form=${form} path=${["maxConcurrency"]} kind="number" label=${t("editor.maxConcurrency")}/>
        ${overlap === "queue" && html`<${Member} form=${form} path=${["queueLimit"]} kind="number" label=${t("editor.queueLimit")}/>`}
      </div>
      ${hasTimer && html`
        <div class="columns three">
          <${Member} form=${form} path=${[...MISFIRE, "policy"]} kind="choice" known=${MISFIRES} label=${t("editor.misfirePolicy")} hint=${t("editor.misfireHint")}/>
          <${Member} form=${form} path=${[...MISFIRE, "graceSeconds"]} kind="number" label=${t("editor.graceSeconds")} hint=${t("editor.graceHint")}/>
          ${policy === "fire_all" && html`<${Member} form=${form} path=${[...MISFIRE, "limit"]} kind="number" label=${t("editor.misfireLimit")}/>`}
        </div>
      `}
    <//>
  `;
}

OverlapSection.props = ["form"];

/** Work that goes on after the chain has been answered. */
export function AsyncSection({ form }) {
  const { draft } = form;
  const isAsync = draft.get(["async"]) === true;
  const checkPath = typeof draft.get(["checkUrl"]) === "string" ? ["checkUrl"] : ["checkUrl", "url"];
  const isSet = ["checkUrl", "checkRateSeconds", "cancelUrl"].some((name) => draft.get([name]) !== undefined);
  return html`
    <${Section} form=${form} name="asynchronous" title=${t("editor.asynchronous")} summary=${isAsync ? t("editor.asyncOn") : t("editor.asyncOff")}>
      <${Member} form=${form} path=${["async"]} kind="flag" label=${t("editor.async")} hint=${t("editor.asyncHint")}/>
      ${(isAsync || isSet) && html`
        <div class="columns">
          <${Member} form=${form} path=${checkPath} mono label=${t("editor.checkUrl")} hint=${t("editor.checkUrlHint")}/>
          <${Member} form=${form} path=${["checkRateSeconds"]} kind="number" label=${t("editor.checkRateSeconds")}/>
          <${Member} form=${form} path=${["cancelUrl", "url"]} mono label=${t("editor.cancelUrl")} hint=${t("editor.cancelUrlHint")}/>
        </div>
      `}
    <//>
  `;
}

AsyncSection.props = ["form"];

/** How safe, how long, how much is kept, and how it begins. */
export function OptionsSection({ form }) {
  const qos = form.draft.get(["qos"]) ?? 0;
  const seconds = form.draft.get(["timeoutSeconds"]) ?? form.defaultAt(["timeoutSeconds"]);
  const summary = t("editor.optionsSummary", { qos, seconds });
  return html`
    <${Section} form=${form} name="options" title=${t("editor.options")} summary=${summary}>
      <div class="columns three">
        <${Member} form=${form} path=${["qos"]} kind="choice" known=${[0, 1]} label=${t("editor.qos")} hint=${t("editor.qosHint")}/>
        <${Member} form=${form} path=${["timeoutSeconds"]} kind="number" label=${t("editor.timeoutSeconds")} hint=${t("editor.timeoutHint")}/>
        <${Member} form=${form} path=${["historyDetail"]} kind="choice" known=${["all", "failures", "none"]} label=${t("editor.historyDetail")}/>
        <${Member} form=${form} path=${["leadSeconds"]} kind="number" label=${t("editor.leadSeconds")} hint=${t("editor.leadHint")}/>
        <${Member} form=${form} path=${["startPolicy"]} kind="choice" known=${["auto", "manual"]} label=${t("editor.startPolicy")}/>
        <${Member} form=${form} path=${["pauseAfterFailures"]} kind="number" label=${t("editor.pauseAfterFailures")} hint=${t("editor.pauseAfterFailuresHint")}/>
        <${Member} form=${form} path=${["keepResult"]} kind="flag" label=${t("editor.keepResult")} hint=${t("editor.keepResultHint")}/>
        <${Member} form=${form} path=${["disabled"]} kind="flag" label=${t("editor.disabled")} hint=${t("editor.disabledHint")}/>
      </div>
    <//>
  `;
}

OptionsSection.props = ["form"];
