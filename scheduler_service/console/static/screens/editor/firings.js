// What a timer will do: in words, with its next firings in its own zone and in the reader's; days of a clock change are marked.

import { Icon, ScrollArea, formatRelative, html, localeOf, now, preferences, t, useSoft } from "../../core.js";

const SHOWN = 6;

/** `timer` is that of the definition (undefined: none). */
export const Firings = {
  props: { timer: null },
  setup(props) {
    const preview = useSoft(() => ({ path: "timers/preview", body: { timer: props.timer ?? {}, count: SHOWN } }));
    return () => {
      if (preview.isAbsent || (preview.data === null && preview.problem === null)) return null;
      if (preview.problem !== null) return html`<p class="firings-none"><${Icon} name="alert" size=${14}/>${t("editor.noFirings")}</p>`;
      return html`
        <div class=${["firings", { busy: preview.isBusy }]} aria-live="polite">
          <p class="sentence"><${Icon} name="clock" size=${15}/><strong>${preview.data.description}</strong>${formOf(preview.data)}</p>
          ${preview.data.firings.length > 0 && html`<${ScrollArea} label=${t("editor.firing")}>${table(preview.data.firings, props.timer?.timezone)}<//>`}
          ${preview.warnings.map((one) => html`<p class="warning" key=${one.code}><${Icon} name="alert" size=${13}/>${one.message}</p>`)}
        </div>
      `;
    };
  },
};

function formOf({ dialect, normalForm }) {
  return dialect && html`<span class="dim"> ${dialect} <code>${normalForm}</code></span>`;
}

function table(firings, zone) {
  const own = preferences.zone === "utc" ? "UTC" : Intl.DateTimeFormat().resolvedOptions().timeZone;
  const isOwn = zone === own;
  return html`
    <table class="table small">
      <thead>
        <tr>
          <th>${t("editor.firing")}</th><th>${zone ?? t("editor.zoneOfService")}</th>
          ${!isOwn && html`<th>${own}</th>`}<th><span class="unseen">${t("editor.note")}</span></th>
        </tr>
      </thead>
      <tbody>
        ${firings.map((one) => html`
          <tr key=${one.utc}>
            <td class="dim number">${formatRelative(new Date(one.utc).getTime(), now.value)}</td>
            <td class="number" title=${one.local}>${dayAndTime(one.local.replace(/(Z|[+-]\d\d:\d\d)$/, "Z"), "UTC")}</td>
            ${!isOwn && html`<td class="number dim" title=${one.utc}>${dayAndTime(one.utc, own)}</td>`}
            <td>${one.note && html`<span class="badge warn"><${Icon} name="alert" size=${12}/>${one.note}</span>`}</td>
          </tr>
        `)}
      </tbody>
    </table>
  `;
}

const DAY_AND_TIME = { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };

/** Day and time as a clock in `timeZone` shows them; with the year where it is not the present one. */
function dayAndTime(moment, timeZone) {
  const date = new Date(moment);
  const year = date.getUTCFullYear() === new Date(now.value).getUTCFullYear() ? undefined : "numeric";
  return new Intl.DateTimeFormat(localeOf(), { ...DAY_AND_TIME, year, timeZone }).format(date);
}
