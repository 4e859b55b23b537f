// The section Notify: who is told of which events, and whether the end of an execution is among them.

import { Icon, JsonMember, html, t } from "../../core.js";
import { Member, Pairs } from "./member.js";
import { More, Section } from "./section.js";

const FIRST_ENTRY = { url: "", stateEquals: ["finalSucceed", "finalFailed"] };

/** Entries of `notification`. */
export function NotifySection({ form }) {
  const { draft } = form;
  const entries = draft.get(["notification"]);
  const list = Array.isArray(entries) ? entries : [];
  const warnings = form.warnings().filter((one) => one.pointer.startsWith("/notification"));
  return html`
    <${Section} form=${form} name="notify" title=${t("editor.notify")} summary=${list.length === 0 ? t("editor.notifyNone") : list.map((one) => one?.name || one?.url).join(" · ")}>
      <div id="member/notification" tabindex="-1">
        ${warnings.map((one) => html`<p class="warning" key=${one.code}><${Icon} name="alert" size=${13}/>${one.message}</p>`)}
        ${form.errorAt(["notification"]) && html`<p class="error">${form.errorAt(["notification"])}</p>`}
        <ol class="steps">${list.map((_, index) => html`<${Entry} key=${index} form=${form} index=${index}/>`)}</ol>
        <button type="button" class="button" onClick=${() => draft.insert(["notification"], list.length, FIRST_ENTRY)}><${Icon} name="plus" size=${14}/>${t("editor.addEntry")}</button>
      </div>
    <//>
  `;
}

NotifySection.props = ["form"];

function Entry({ form, index }) {
  const number = index + 1;
  const at = (name) => ["notification", index, name];
  const folded = ["method", "dedupe", "guarantee", "sign", "headers", "body"].map(at);
  return html`
    <li class="step">
      <div class="step-head">
        <${Icon} name="bell" size=${14}/>
        <h3>${form.draft.get(at("name")) || t("editor.entry", { number })}</h3>
        <span class="grow"></span>
        <button type="button" class="button bare" aria-label=${t("editor.removeEntry", { number })} onClick=${() => form.draft.remove(["notification", index])}><${Icon} name="trash" size=${14}/></button>
      </div>
      <div class="columns">
        <${Member} form=${form} path=${at("url")} kind="required" mono label=${t("editor.url")} placeholder="https://chat.example.com/hook"/>
        <${Member} form=${form} path=${at("stateEquals")} kind="codes" mono label=${t("editor.stateEquals")} hint=${t("editor.stateEqualsHint")}/>
      </div>
      <${More} form=${form} paths=${folded} text=${t("editor.moreNotify")}>
        <${Member} form=${form} path=${at("name")} label=${t("editor.entryName")}/>
        <${Member} form=${form} path=${at("method")} kind="choice" known=${["POST", "PUT", "GET"]} label=${t("editor.method")}/>
        <${Member} form=${form} path=${at("dedupe")} kind="choice" known=${["none", "onChange"]} label=${t("editor.dedupe")}/>
        <${Member} form=${form} path=${at("guarantee")} kind="choice" known=${["none", "outbox"]} label=${t("editor.guarantee")}/>
        <${Member} form=${form} path=${at("sign")} label=${t("editor.sign")} hint=${t("editor.signHint")}/>
        <div class="whole">
          <${Pairs} form=${form} path=${at("headers")} label=${t("editor.headers")} add=${t("editor.addHeader")}/>
          <${JsonMember} form=${form} path=${at("body")} label=${t("editor.body")} hint=${t("editor.notifyBodyHint")}/>
        </div>
      <//>
    </li>
  `;
}

Entry.props = ["form", "index"];
