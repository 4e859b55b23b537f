// A calendar that is made or changed: its week and days beside the year that comes of them, and what it changes for which jobs.

import {
  ActionButton,
  EmptyState,
  Field,
  PageHead,
  Panel,
  ProblemPanel,
  TextField,
  Waiting,
  attempt,
  call,
  computed,
  confirm,
  get,
  guardLeaving,
  html,
  linkTo,
  navigate,
  onUnmounted,
  pathOf,
  reactive,
  route,
  sayDone,
  sayFailed,
  session,
  stepsOf,
  t,
  useSoft,
  weekdayNames,
} from "../../core.js";
import { Changes, sumOf, useChanges } from "./changes.js";
import { daySet, linesOf, withDay } from "./days_text.js";
import { DaysDialog } from "./import_dialog.js";
import { YearOfDays } from "./year.js";

const WORKING_WEEK = [1, 2, 3, 4, 5];
const ZONES = "calendar-zones";

/** What was not saved when the screen went, as where the session ended: by tenant, reader and calendar, until the page goes. */
const unsaved = new Map();

/** `name`: the calendar that is changed; without one a new one is made. */
export const CalendarEditor = {
  props: { name: String },
  setup(props) {
    const isNew = props.name === undefined;
    const form = reactive({ name: props.name ?? "", week: WORKING_WEEK, timezone: "", country: "", free: "", work: "" });
    const state = reactive({ isReady: isNew, error: null, etag: null, saved: "", taken: [], isTried: false, isRestored: false, year: Number(route.query.year) || new Date().getFullYear(), isImporting: false });
    const body = () => bodyOf(form);
    const asked = () => (state.isReady ? { path: pathOf("calendars", form.name.trim() || "new-calendar", "preview"), query: { year: state.year }, body: body() } : null);
    const preview = useSoft(asked);
    const changes = useChanges(preview, asked);
    const isChanged = () => state.isReady && JSON.stringify([isNew && form.name, body()]) !== state.saved;
    const keepSaved = () => (state.saved = JSON.stringify([isNew && form.name, body()]));
    const key = JSON.stringify([session.tenant, session.name, props.name]);
    useUnsaved(key, () => isChanged() && { form: { ...form }, etag: state.etag });

    async function load() {
      try {
        if (isNew) state.taken = (await get("calendars")).items.map((one) => one.name);
        else {
          const { data, etag } = await call("GET", pathOf("calendars", props.name));
          Object.assign(form, formOf(data));
          Object.assign(state, { etag, isReady: true, error: null });
        }
        keepSaved();
        const kept = unsaved.get(key);
        if (kept === undefined) return;
        Object.assign(form, kept.form);
        Object.assign(state, { etag: kept.etag, isRestored: true });
      } catch (error) {
        state.error = error;
      }
    }

    async function save() {
      state.isTried = true;
      const name = form.name.trim();
      if (name === "" || state.taken.includes(name)) return void document.getElementById("calendar-name").focus();
      const hasChanges = changes.state.jobs.length > 0 || changes.state.cursor !== null;
      if (hasChanges && !(await confirm({ title: t("calendars.saveTitle", { name }), text: sumOf(changes.state), action: t("calendars.save") }))) return;
      try {
        done(await put(name, state.etag));
      } catch (error) {
        if (error.status === 412) return void (await replaceTheirs(name));
        sayFailed(error, { places: true });
      }
    }

    const put = (name, etag) => call("PUT", pathOf("calendars", name), { body: body(), headers: etag === null ? {} : { "If-Match": etag } });

    /** Somebody else has saved it meanwhile: theirs is replaced by who says so. */
    async function replaceTheirs(name) {
      const wanted = await confirm({ title: t("calendars.meanwhile", { name }), text: t("calendars.meanwhileText"), action: t("calendars.replace"), isDangerous: true });
      if (wanted) await attempt(async () => done(await put(name, null)));
    }

    function done({ data, warnings }) {
      keepSaved();
      sayDone([t("calendars.saved", { name: data.name }), ...warnings.map((one) => one.message)].join("\n"));
      navigate(linkTo("calendars", data.name));
    }

    function startAgain() {
      unsaved.delete(key);
      Object.assign(form, { name: props.name ?? "", week: WORKING_WEEK, timezone: "", country: "", free: "", work: "" });
      state.isRestored = false;
      load();
    }

    load();
    const errors = computed(() => errorsOf(preview.problem?.errors ?? []));
    const nameError = () => (state.taken.includes(form.name.trim()) ? t("calendars.taken") : state.isTried && form.name.trim() === "" ? t("calendars.needsName") : form.name.trim() && errors.value.calendarName);
    const add = (calendar) => {
      Object.assign(form, { free: calendar.free.join("\n"), work: calendar.work.join("\n") });
      state.isImporting = false;
    };
    return () => html`
      <${PageHead} title=${isNew ? t("calendars.new") : props.name} back=${{ href: isNew ? "#/calendars" : linkTo("calendars", props.name), text: isNew ? t("calendars.title") : t("calendars.back") }}>
        <button type="button" class="button" disabled=${!state.isReady} onClick=${() => (state.isImporting = true)}>${t("calendars.import")}</button>
        <${ActionButton} kind="primary" text=${t("calendars.save")} disabled=${!state.isReady || preview.problem !== null || !(isNew || isChanged())} run=${save}/>
      <//>
      ${state.error !== null
        ? html`<${ProblemPanel} error=${state.error} retry=${load}/>`
        : !state.isReady
          ? html`<${Waiting}/>`
          : html`
              ${state.isRestored && html`<p class="calendar-restored" role="status">${t("calendars.restored")} <button type="button" class="button" onClick=${startAgain}>${t("calendars.startAgain")}</button></p>`}
              <div class="calendar-editor">
                <${Panel}>${fields(form, errors.value, isNew && nameError)}<//>
                <div>
                  <${Panel} title=${t("calendars.year")}>${yearPart(form, preview, state)}<//>
                  ${preview.data !== null && !isNew && html`<${Changes} ...${changes}/>`}
                </div>
              </div>
            `}
      ${state.isImporting && html`<${DaysDialog} calendar=${body} onAdd=${add} onClose=${() => (state.isImporting = false)}/>`}
    `;
  },
};

/** Keeps what `changed()` gives (false: nothing is) when the screen goes; whoever leaves by a link or closes the page is asked. For `setup`. */
function useUnsaved(key, changed) {
  const warn = (event) => changed() && event.preventDefault();
  addEventListener("beforeunload", warn);
  let isGivenUp = false;
  const stopGuarding = guardLeaving(async () => {
    isGivenUp = !changed() || (await confirm({ title: t("calendars.leave"), text: t("calendars.leaveText"), action: t("calendars.leaveAction"), isDangerous: true }));
    return isGivenUp;
  });
  onUnmounted(() => {
    stopGuarding();
    removeEventListener("beforeunload", warn);
    const kept = !isGivenUp && changed();
    if (kept) unsaved.set(key, kept);
    else unsaved.delete(key);
  });
}

function fields(form, errors, nameError) {
  const set = (name) => (text) => (form[name] = text);
  return html`
    ${nameError && html`<${TextField} id="calendar-name" label=${t("calendars.name")} hint=${t("calendars.nameHint")} value=${form.name} onChange=${set("name")} error=${nameError() || undefined} autocomplete="off"/>`}
    <fieldset class="week-days">
      <legend>${t("calendars.weekOf")}</legend>
      ${weekdayNames().map((name, index) => html`<label class="week-day" key=${index}><input type="checkbox" checked=${form.week.includes(index + 1)} onChange=${() => toggleWeekday(form, index + 1)}/>${name}</label>`)}
    </fieldset>
    ${daysField(form, errors, "free")}
    ${daysField(form, errors, "work")}
    <${TextField} id="calendar-country" label=${t("calendars.country")} hint=${t("calendars.countryHint")} value=${form.country} onChange=${(text) => (form.country = text.toUpperCase())} error=${errors.country} placeholder="CN, DE-BY" autocomplete="off"/>
    <${TextField} id="calendar-zone" label=${t("calendars.zone")} hint=${t("calendars.zoneHint")} value=${form.timezone} onChange=${set("timezone")} error=${errors.timezone} list=${ZONES} placeholder=${t("calendars.zoneOfTimer")} autocomplete="off"/>
    <datalist id=${ZONES}>${Intl.supportedValuesOf("timeZone").map((zone) => html`<option key=${zone} value=${zone}/>`)}</datalist>
  `;
}

function daysField(form, errors, kind) {
  return html`
    <${Field} id=${`calendar-${kind}`} label=${t(`calendars.${kind}`)} hint=${t(`calendars.${kind}Hint`)} error=${errors[kind]}>${{
      default: (described) => html`
        <textarea ...${described} class="mono" rows=${Math.min(14, Math.max(4, form[kind].split("\n").length + 1))} spellcheck="false" value=${form[kind]} onInput=${(event) => (form[kind] = event.target.value)}></textarea>
      `,
    }}<//>
  `;
}

function yearPart(form, preview, state) {
  if (preview.data === null) return preview.problem === null ? html`<${Waiting} lines=${8}/>` : html`<${EmptyState} icon="days" title=${t("calendars.noYear")} text=${preview.problem.detail}/>`;
  const toggle = (date, kind) => toggleDay(form, date, kind);
  return html`
    <div class=${{ "year-part": true, busy: preview.isBusy || preview.problem !== null }}>
      <${YearOfDays} days=${preview.data} week=${form.week} year=${state.year} onYear=${(year) => (state.year = year)} onToggle=${toggle}/>
    </div>
    ${preview.warnings.map((one) => html`<p class="calendar-warning" key=${one.code}>${one.message}</p>`)}
  `;
}

/** A day that is listed goes from its list; another one is listed as what it is not. */
function toggleDay(form, date, kind) {
  const listed = ["work", "free"].find((name) => daySet(linesOf(form[name])).has(date));
  if (listed !== undefined) form[listed] = withDay(form[listed], date, false);
  else {
    const name = ["work", "makeUp"].includes(kind) ? "free" : "work";
    form[name] = withDay(form[name], date, true);
  }
}

function toggleWeekday(form, day) {
  form.week = form.week.includes(day) ? form.week.filter((one) => one !== day) : [...form.week, day].sort();
}

function bodyOf({ week, timezone, country, free, work }) {
  const body = { week, free: linesOf(free), work: linesOf(work) };
  if (timezone.trim() !== "") body.timezone = timezone.trim();
  if (country.trim() !== "") body.country = country.trim();
  return body;
}

function formOf({ week, timezone, country, free, work }) {
  return { week, timezone: timezone ?? "", country: country ?? "", free: free.join("\n"), work: work.join("\n") };
}

/** The words of each member's errors; those of a list name their lines. */
function errorsOf(errors) {
  const words = {};
  for (const { pointer, message } of errors) {
    const [name, index] = stepsOf(pointer);
    const text = index === undefined || name === "week" ? message : t("calendars.line", { number: Number(index) + 1, message });
    words[name] = words[name] === undefined ? text : `${words[name]}\n${text}`;
  }
  return words;
}
