// One calendar as everybody may see it: what was stored, its year, and the jobs that use it.

import { ActionButton, Dialog, Facts, Loaded, Moment, PageHead, Panel, attempt, confirm, html, linkTo, may, navigate, pathOf, placeOf, pushQuery, ref, remove, route, t, useResource } from "../../core.js";
import { weekWords } from "./days_text.js";
import { YearOfDays } from "./year.js";

/** A year (`?year=2027`; default: the present one). */
export const CalendarDetail = {
  props: { name: String },
  setup(props) {
    const isAsked = ref(false);
    const resource = useResource(() => ({ path: pathOf("calendars", props.name), query: { year: route.query.year } }), { live: true, keeps: true });
    const drop = () => (resource.data.usedBy.jobs.length > 0 ? (isAsked.value = true) : removeCalendar(props.name));
    return () => html`
      <${PageHead} title=${props.name} back=${{ href: "#/calendars", text: t("calendars.title") }}>
        ${may("editor", "tenant") && resource.data !== null && html`
          <a class="button" href=${placeOf(route.path, { edit: "true", year: route.query.year })}>${t("calendars.edit")}</a>
          <${ActionButton} kind="danger" text=${t("calendars.delete")} run=${drop}/>
        `}
      <//>
      <${Loaded} resource=${resource}>${{ default: (data) => body(data, resource.warnings) }}<//>
      ${isAsked.value && html`<${UsedDialog} name=${props.name} use=${resource.data.usedBy} onClose=${() => (isAsked.value = false)}/>`}
    `;
  },
};

function body(data, warnings) {
  return html`
    ${warnings.map((one) => html`<p class="calendar-warning" key=${one.code}>${one.message}</p>`)}
    <${Panel} title=${t("calendars.year")}><${YearOfDays} days=${data} week=${data.week} year=${Number(route.query.year) || data.year} onYear=${(year) => pushQuery({ year })}/><//>
    <div class="panels calendar-facts">
      <${Panel} title=${t("calendars.facts")}>
        <${Facts} items=${[
          [t("calendars.week"), weekWords(data.week)],
          [t("calendars.country"), data.country],
          [t("calendars.zone"), data.timezone ?? t("calendars.zoneOfTimer")],
          [t("calendars.version"), data.version],
          [t("calendars.updated"), html`<${Moment} at=${data.updatedAt}/>`],
          [t("calendars.created"), html`<${Moment} at=${data.createdAt}/>`],
        ]}/>
      <//>
      <${Panel} title=${t("calendars.usedBy")}>${usersOf(data.usedBy)}<//>
    </div>
  `;
}

function usersOf({ jobs, isCapped }) {
  if (jobs.length === 0) return html`<p class="dim">${t("calendars.usedByNone")}</p>`;
  return html`
    <ul class="calendar-users">${jobs.map((id) => html`<li key=${id}><a class="mono" href=${linkTo("jobs", id)}>${id}</a></li>`)}</ul>
    ${isCapped && html`<p class="dim">${t("calendars.andMore")}</p>`}
  `;
}

/** Why it cannot go: the jobs that use it. */
function UsedDialog({ name, use, onClose }) {
  return html`<${Dialog} title=${t("calendars.used", { name })} onClose=${onClose}><p>${t("calendars.usedText")}</p>${usersOf(use)}<//>`;
}

UsedDialog.props = ["name", "use", "onClose"];

async function removeCalendar(name) {
  const wanted = await confirm({ title: t("calendars.deleteTitle", { name }), text: t("calendars.deleteText"), action: t("calendars.delete"), isDangerous: true });
  if (!wanted) return;
  const done = await attempt(async () => (await remove(pathOf("calendars", name)), true), t("calendars.deleted", { name }));
  if (done) navigate("#/calendars");
}
