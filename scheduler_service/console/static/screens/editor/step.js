// One step of the chain: its address and method, and folded below them headers, body and what becomes of the answer.

import { Icon, JsonMember, html, t } from "../../core.js";
import { Member, Pairs } from "./member.js";
import { More } from "./section.js";
import { RULES, Tried } from "./templates.js";

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
const ROUTES = ["random", "round_robin", "least_busy", "hash", "failover", "broadcast", "shard"];
const QUEUE = ["parallelism", "priority", "leaseSeconds", "renewSeconds", "queueTimeoutSeconds", "maxUnexpectedRetries", "unexpectedRetryDelaySeconds"];

/** Step `index` of `count`. */
export function Step({ form, sample, index, count }) {
  const path = ["request", index];
  const at = (name) => [...path, name];
  const url = String(form.draft.get(at("url")) ?? "");
  const isQueue = url.startsWith("queue:");
  return html`
    <li class="step">
      ${head(form, index, count)}
      <div class="address">
        <${Member} form=${form} path=${at("method")} kind="choice" known=${METHODS} label=${t("editor.method")}/>
        <${Member} form=${form} path=${at("url")} kind="required" mono label=${t("editor.url")} placeholder="https://api.example.com/work"/>
      </div>
      <${Tried} form=${form} sample=${sample} index=${index} path=${at("url")} place="url"/>
      <${More} form=${form} paths=${[at("headers"), at("body")]} text=${t("editor.headersAndBody")}>
        <div class="whole">
          <${Pairs} form=${form} path=${at("headers")} label=${t("editor.headers")} add=${t("editor.addHeader")}/>
          <${Tried} form=${form} sample=${sample} index=${index} path=${at("headers")} place="header"/>
          <${JsonMember} form=${form} path=${at("body")} label=${t("editor.body")} hint=${t("editor.bodyHint")}/>
          <${Tried} form=${form} sample=${sample} index=${index} path=${at("body")} place="body"/>
        </div>
      <//>
      ${answer(form, sample, index, isQueue)}
      ${url.startsWith("service:") && service(form, at)}
      ${isQueue && queue(form, at)}
    </li>
  `;
}

Step.props = ["form", "sample", "index", "count"];

function head({ draft }, index, count) {
  const swap = (to) => () => draft.swap(["request"], index, to);
  const number = index + 1;
  return html`
    <div class="step-head">
      <span class="step-number">${number}</span>
      <h3>${t("editor.step", { number })}</h3>
      <span class="grow"></span>
      <button type="button" class="button bare" disabled=${index === 0} aria-label=${t("editor.moveUp", { number })} title=${t("editor.moveUp", { number })} onClick=${swap(index - 1)}>↑</button>
      <button type="button" class="button bare" disabled=${index === count - 1} aria-label=${t("editor.moveDown", { number })} title=${t("editor.moveDown", { number })} onClick=${swap(index + 1)}>↓</button>
      <button type="button" class="button bare" aria-label=${t("editor.removeStep", { number })} title=${t("editor.removeStep", { number })} onClick=${() => draft.remove(["request", index])}><${Icon} name="trash" size=${14}/></button>
    </div>
  `;
}

function answer(form, sample, index, isQueue) {
  const at = (name) => ["request", index, name];
  const paths = ["respEnvName", "successCodes", "retryFrom", "timeoutSeconds", "followRedirects", "sign", ...RULES].map(at);
  const [respEnvName, successCodes, retryFrom, timeoutSeconds, followRedirects, sign] = paths;
  return html`
    <${More} form=${form} paths=${paths} text=${t("editor.answer")}>
      <${Member} form=${form} path=${respEnvName} mono label=${t("editor.respEnvName")} hint=${t("editor.respEnvNameHint")}/>
      ${!isQueue && html`<${Member} form=${form} path=${successCodes} kind="statuses" mono label=${t("editor.successCodes")} hint=${t("editor.successCodesHint")}/>`}
      ${!isQueue && RULES.map((name) => html`
        <div>
          <${Member} form=${form} path=${at(name)} mono label=${t(`editor.${name}`)} hint=${t(`editor.${name}Hint`)}/>
          <${Tried} form=${form} sample=${sample} index=${index} path=${at(name)} place=${name}/>
        </div>
      `)}
      <${Member} form=${form} path=${retryFrom} kind="choice" known=${["chain", "step"]} label=${t("editor.retryFrom")} hint=${t("editor.retryFromHint")}/>
      ${!isQueue && html`
        <${Member} form=${form} path=${timeoutSeconds} kind="number" label=${t("editor.stepTimeout")} hint=${t("editor.stepTimeoutHint")}/>
        <${Member} form=${form} path=${followRedirects} kind="number" label=${t("editor.followRedirects")}/>
      `}
      <${Member} form=${form} path=${sign} label=${t("editor.sign")} hint=${t("editor.signHint")}/>
    <//>
  `;
}

function service(form, at) {
  return html`
    <${More} form=${form} paths=${["route", "tags"].map(at)} text=${t("editor.service")}>
      <${Member} form=${form} path=${at("route")} kind="choice" known=${ROUTES} label=${t("editor.route")}/>
      <${Member} form=${form} path=${at("tags")} kind="list" label=${t("editor.tags")} hint=${t("editor.tagsHint")}/>
    <//>
  `;
}

function queue(form, at) {
  return html`
    <${More} form=${form} paths=${["specificInstances", ...QUEUE].map(at)} text=${t("editor.queue")}>
      <${Member} form=${form} path=${at("specificInstances")} kind="list" mono label=${t("editor.specificInstances")} hint=${t("editor.specificInstancesHint")}/>
      ${QUEUE.map((name) => html`<${Member} key=${name} form=${form} path=${at(name)} kind="number" label=${t(`editor.queue.${name}`)}/>`)}
    <//>
  `;
}
