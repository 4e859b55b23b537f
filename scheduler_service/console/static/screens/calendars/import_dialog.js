// Days from a file (iCalendar) or a pasted list: read by the service, shown, and added to the calendar that is being edited.

import { Dialog, SelectField, explain, formatBytes, html, post, reactive, ref, t, useSubmit } from "../../core.js";
import { spanWords } from "./year.js";

const SHOWN = 40;
/** No file of more bytes is read: the service takes a million characters. */
const LONGEST_BYTES = 4_000_000;

/** `calendar()` is what is being edited, as it is posted; `onAdd(calendar)` gets it with the days. */
export const DaysDialog = {
  props: { calendar: Function, onAdd: Function, onClose: Function },
  setup(props) {
    const given = reactive({ text: "", as: "free" });
    const found = ref(null);
    const problem = ref(null);
    const change = (values) => {
      Object.assign(given, values);
      found.value = problem.value = null;
    };
    const choose = async (event) => {
      const [file] = event.target.files;
      if (file === undefined) return;
      change({ text: file.size > LONGEST_BYTES ? "" : await file.text() });
      if (file.size > LONGEST_BYTES) problem.value = t("calendars.tooLarge", { size: formatBytes(LONGEST_BYTES) });
    };
    const { isBusy, submit } = useSubmit(async () => {
      if (found.value !== null) return void props.onAdd(found.value.calendar);
      try {
        found.value = await post("dates/read", { ...given, calendar: props.calendar() });
      } catch (error) {
        problem.value = explain(error);
      }
    });
    const count = () => found.value.free.length + found.value.work.length;
    return () => html`
      <${Dialog} title=${t("calendars.import")} onClose=${props.onClose}>
        <form onSubmit=${submit}>
          <div class="field">
            <label for="days-file">${t("calendars.file")}</label>
            <input id="days-file" type="file" accept=".ics,text/calendar,.txt,text/plain" onChange=${choose}/>
          </div>
          <div class=${["field", { wrong: problem.value !== null }]}>
            <label for="days-text">${t("calendars.list")}</label>
            <textarea id="days-text" class="mono" rows="7" spellcheck="false" aria-describedby="days-hint" aria-invalid=${problem.value === null ? undefined : "true"} value=${given.text} onInput=${(event) => change({ text: event.target.value })}></textarea>
            <p class="hint" id="days-hint">${t("calendars.listHint")}</p>
            ${problem.value !== null && html`<p class="error" role="alert">${problem.value}</p>`}
          </div>
          <${SelectField} id="days-as" label=${t("calendars.as")} hint=${t("calendars.asHint")} value=${given.as} options=${["free", "work"].map((value) => ({ value, text: t(`calendars.as.${value}`) }))} onChange=${(as) => change({ as })}/>
          <div aria-live="polite">${found.value !== null && listOf(found.value)}</div>
          <div class="dialog-actions">
            <button type="button" class="button" onClick=${props.onClose}>${t("action.cancel")}</button>
            <button type="submit" class="button primary" disabled=${isBusy.value || given.text.trim() === "" || (found.value !== null && count() === 0)}>
              ${found.value === null ? t("calendars.read") : t("calendars.add", { count: count() })}
            </button>
          </div>
        </form>
      <//>
    `;
  },
};

function listOf({ free, work, leftOut }) {
  const rows = [...free.map((span) => [span, "free"]), ...work.map((span) => [span, "makeUp"])];
  return html`
    <ul class="found-days">
      ${rows.slice(0, SHOWN).map(([span, kind]) => html`<li key=${span}><i class=${["one-day", kind]} aria-hidden="true"></i>${spanWords(span)} <span class="dim">${t(`calendars.day.${kind}`)}</span></li>`)}
    </ul>
    ${rows.length > SHOWN && html`<p class="dim">${t("calendars.furtherDays", { count: rows.length - SHOWN })}</p>`}
    ${rows.length === 0 && html`<p class="dim">${t("calendars.noDays")}</p>`}
    ${leftOut.length > 0 && html`<p class="dim">${t("calendars.leftOut", { names: leftOut.join(", ") })}</p>`}
  `;
}
