// The list of calendars.

import { DataTable, EmptyState, Loaded, Moment, PageHead, Panel, formatNumber, html, linkTo, may, t, useResource } from "../../core.js";
import { weekWords } from "./days_text.js";

const columns = () => [
  { key: "name", text: t("calendars.name"), cell: (one) => html`<a class="name" href=${linkTo("calendars", one.name)}>${one.name}</a>` },
  { key: "week", text: t("calendars.week"), cell: (one) => weekWords(one.week) },
  { key: "country", text: t("calendars.country"), cell: (one) => one.country ?? "–" },
  { key: "free", text: t("calendars.free"), kind: "right", cell: (one) => formatNumber(one.free.length) },
  { key: "work", text: t("calendars.work"), kind: "right", cell: (one) => formatNumber(one.work.length) },
  { key: "zone", text: t("calendars.zone"), cell: (one) => one.timezone ?? html`<span class="dim">${t("calendars.zoneOfTimer")}</span>` },
  { key: "updated", text: t("calendars.updated"), cell: (one) => html`<${Moment} at=${one.updatedAt}/>` },
];

/** All calendars of the tenant, by name. */
export const CalendarTable = {
  setup() {
    const resource = useResource(() => ({ path: "calendars" }), { live: true });
    return () => html`
      <${PageHead} title=${t("calendars.title")}>${newButton("primary")}<//>
      <${Loaded} resource=${resource}>${{
        default: ({ items }) =>
          items.length === 0
            ? html`<${EmptyState} icon="days" title=${t("calendars.none")} text=${t("calendars.noneText")}>${newButton("")}<//>`
            : html`<${Panel} flush><${DataTable} columns=${columns()} rows=${items} keyOf=${(one) => one.name} label=${t("calendars.title")}/><//>`,
      }}<//>
    `;
  },
};

function newButton(kind) {
  return may("editor", "tenant") && html`<a class=${["button", kind]} href="#/new-calendar">${t("calendars.new")}</a>`;
}
