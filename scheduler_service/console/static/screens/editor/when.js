// The section When: the kind of timer, its period, cron or moment, zone and bounds, and what comes of it.

import { Outlook, Tabs, html, ref, t } from "../../core.js";
import { CalendarFields } from "./calendar_fields.js";
import { Firings } from "./firings.js";
import { Member } from "./member.js";
import { More, Section } from "./section.js";

const KINDS = ["once", "moment", "period", "cron", "external"];
const CRONS = [
  ["editor.cron.hour", "0 0 * * * ?"],
  ["editor.cron.day", "0 0 9 * * ?"],
  ["editor.cron.weekdays", "0 0 9 ? * MON-FRI"],
  ["editor.cron.week", "0 0 9 ? * MON"],
  ["editor.cron.month", "0 0 9 1 * ?"],
  ["editor.cron.last", "0 0 18 L * ?"],
];
const PERIODS = ["10s", "1m", "5m", "15m", "1h", "1d"];
const ZONES = "editor-zones";

/** Which fields suit a timer as it is written; what it means, the service says. */
export function fieldsFor(timer) {
  const period = typeof timer?.period === "string" ? timer.period.trim() : "";
  if (period === "") return "once";
  if (period === "external") return "external";
  if (/^0(s|m|h|ms)?$/.test(period)) return "moment";
  return period.startsWith("@") || period.includes(" ") ? "cron" : "period";
}

/** The timer: what is not shown for a kind stays as it is. */
export function WhenSection({ form }) {
  const timer = form.draft.get(["timer"]);
  const isText = typeof timer === "string" && timer.trim() !== "";
  return html`
    <${Section} form=${form} name="when" title=${t("editor.when")} summary=${form.checks.data?.timer?.description ?? t(`editor.kind.${fieldsFor(timer)}`)}>
      ${isText ? asText(form, timer) : fields(form, timer)}
      <${Firings} timer=${timer}/>
      ${!isText && timer !== undefined && html`<${Year} timer=${timer} jobId=${form.jobId}/>`}
    <//>
  `;
}

WhenSection.props = ["form"];

/** The next year of the timer, asked for when somebody wants to see it. */
const Year = {
  props: { timer: Object, jobId: String },
  setup(props) {
    const isOpen = ref(false);
    return () => html`
      <details class="more year" onToggle=${(event) => (isOpen.value = event.target.open)}>
        <summary>${t("editor.year")}</summary>
        ${isOpen.value && html`<${Outlook} timer=${props.timer} jobId=${props.jobId ?? undefined}/>`}
      </details>
    `;
  },
};

function fields(form, timer) {
  const kind = fieldsFor(timer);
  const items = KINDS.map((key) => ({ key, text: t(`editor.kind.${key}`) }));
  return html`
    <${Tabs} items=${items} chosen=${kind} label=${t("editor.kinds")} onChoose=${(next) => next !== kind && choose(form, timer, next)}/>
    <div class="timer" id="member/timer" tabindex="-1">
      ${kind === "cron" && cron(form)}
      ${kind === "period" && period(form)}
      ${kind === "moment" && html`<${Member} form=${form} path=${["timer", "dueTime"]} mono label=${t("editor.dueTime")} hint=${t("editor.dueTimeHint")}/>`}
      ${kind !== "external" && kind !== "once" && bounds(form, kind)}
      ${form.errorAt(["timer"]) && html`<p class="error">${form.errorAt(["timer"])}</p>`}
    </div>
  `;
}

function cron(form) {
  return html`
    <${Member} form=${form} path=${["timer", "period"]} mono label=${t("editor.cron")} hint=${t("editor.cronHint")}/>
    <div class="chips" role="group" aria-label=${t("editor.examples")}>
      ${CRONS.map(([key, text]) => html`<button type="button" class="chip" key=${key} onClick=${() => form.draft.set(["timer", "period"], text)}>${t(key)}</button>`)}
    </div>
  `;
}

function period(form) {
  return html`
    <div class="columns">
      <${Member} form=${form} path=${["timer", "period"]} mono label=${t("editor.period")} hint=${t("editor.periodHint")}/>
      <${Member} form=${form} path=${["timer", "dueTime"]} mono label=${t("editor.firstTime")} hint=${t("editor.dueTimeHint")} placeholder="0s"/>
      <${Member} form=${form} path=${["timer", "periodFrom"]} kind="choice" label=${t("editor.periodFrom")} hint=${t("editor.periodFromHint")}/>
    </div>
    <div class="chips" role="group" aria-label=${t("editor.examples")}>
      ${PERIODS.map((text) => html`<button type="button" class="chip mono" key=${text} onClick=${() => form.draft.set(["timer", "period"], text)}>${text}</button>`)}
    </div>
  `;
}

function bounds(form, kind) {
  const paths = ["startAt", "endAt", "ttl", "jitterSeconds"].map((name) => ["timer", name]);
  const [startAt, endAt, ttl, jitterSeconds] = paths;
  return html`
    <div class="columns">
      <${Member} form=${form} path=${["timer", "timezone"]} label=${t("editor.timezone")} hint=${t("editor.timezoneHint")} list=${ZONES} placeholder="UTC"/>
    </div>
    <datalist id=${ZONES}>${Intl.supportedValuesOf("timeZone").map((zone) => html`<option key=${zone} value=${zone}/>`)}</datalist>
    ${(kind !== "moment" || form.draft.get(["timer", "calendar"]) !== undefined) && html`<${CalendarFields} form=${form}/>`}
    ${kind !== "moment" && html`
      <${More} form=${form} paths=${paths} text=${t("editor.moreWhen")}>
        <${Member} form=${form} path=${startAt} mono label=${t("editor.startAt")} hint=${t("editor.momentHint")}/>
        <${Member} form=${form} path=${endAt} mono label=${t("editor.endAt")} hint=${t("editor.momentHint")}/>
        <${Member} form=${form} path=${ttl} mono label=${t("editor.ttl")} hint=${t("editor.ttlHint")}/>
        <${Member} form=${form} path=${jitterSeconds} kind="number" label=${t("editor.jitterSeconds")} hint=${t("editor.jitterHint")}/>
      <//>
    `}
  `;
}

/** Another kind: period and first time change, zone and bounds stay. */
function choose(form, timer, kind) {
  const { dueTime: _due, period: _period, periodFrom: _from, ...kept } = Object(timer) === timer ? timer : {};
  const own = {
    once: {},
    moment: { dueTime: "10m", period: "0s" },
    period: { dueTime: "0s", period: "5m" },
    cron: { period: "0 0 9 * * ?" },
    external: { period: "external" },
  }[kind];
  const next = { ...own, ...kept };
  form.draft.set(["timer"], Object.keys(next).length === 0 ? undefined : next);
}

/** A timer may also be a string that holds an object. */
function asText(form, timer) {
  const unfold = () => form.draft.set(["timer"], JSON.parse(timer));
  return html`
    <p class="note">${t("editor.timerText")}</p>
    <button type="button" class="button" disabled=${!holdsObject(timer)} onClick=${unfold}>${t("editor.timerUnfold")}</button>
  `;
}

function holdsObject(text) {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === "object" && !Array.isArray(value);
  } catch {
    return false;
  }
}
