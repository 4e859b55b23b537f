// The section What: id, name, labels, creator.

import { html, t } from "../../core.js";
import { idFor } from "./form.js";
import { Member, Pairs } from "./member.js";
import { More, Section } from "./section.js";

/** Names the job; its id follows the name until somebody gives it another one. */
export function WhatSection({ form }) {
  const { draft } = form;
  const name = String(draft.get(["jobName"]) ?? "");
  const follow = (id) => (text) => {
    if (form.isNew && (id === "" || id === undefined || id === idFor(name))) draft.set(["jobId"], idFor(String(text ?? "")) || undefined);
  };
  return html`
    <${Section} form=${form} name="what" title=${t("editor.what")} summary=${name}>
      <div class="columns">
        <${Member} form=${form} path=${["jobName"]} kind="required" label=${t("editor.jobName")} placeholder=${t("editor.jobNameExample")} onTyped=${follow(draft.get(["jobId"]))}/>
        ${form.isNew && html`<${Member} form=${form} path=${["jobId"]} mono label=${t("editor.jobId")} hint=${t("editor.jobIdHint")}/>`}
      </div>
      <${More} form=${form} paths=${[["jobDescription"], ["labels"], ["objectId"]]} text=${t("editor.moreWhat")}>
        <div class="whole"><${Member} form=${form} path=${["jobDescription"]} kind="area" label=${t("editor.jobDescription")}/></div>
        <div class="whole"><${Pairs} form=${form} path=${["labels"]} label=${t("editor.labels")} add=${t("editor.addLabel")}/></div>
        <${Member} form=${form} path=${["creator"]} label=${t("editor.creator")} hint=${t("editor.creatorHint")}/>
        <${Member} form=${form} path=${["creatorName"]} label=${t("editor.creatorName")}/>
        <${Member} form=${form} path=${["objectId"]} label=${t("editor.objectId")} hint=${t("editor.objectIdHint")}/>
      <//>
    <//>
  `;
}

WhatSection.props = ["form"];
