// The list of services.

import { DataTable, EmptyState, Loaded, Moment, PageHead, Pager, Panel, PausedMark, html, linkTo, t, useListing } from "../../core.js";

const listColumns = () => [
  { key: "name", text: t("services.name"), cell: (one) => html`<a class="name" href=${linkTo("services", one.name)}>${one.name}</a> <${PausedMark} of=${one}/>` },
  { key: "online", text: t("services.online"), cell: online },
  { key: "route", text: t("services.route"), cell: (one) => one.route ?? "random" },
  { key: "address", text: t("services.address"), cell: (one) => html`<span class="mono">${one.address ?? "–"}</span>` },
  { key: "tags", text: t("services.tags"), cell: (one) => one.tags.map((tag) => html`<span class="label" key=${tag}>${tag}</span>`) },
  { key: "updated", text: t("services.updated"), cell: (one) => html`<${Moment} at=${one.updatedAt}/>` },
];

/** All services, by name. */
export const ServiceList = {
  setup() {
    const listing = useListing("services", () => ({}));
    return () => html`
      <${PageHead} title=${t("services.title")}/>
      <${Loaded} resource=${listing.resource}>${{
        default: () =>
          listing.items.value.length === 0
            ? html`<${EmptyState} icon="service" title=${t("services.none")} text=${t("services.noneText")}/>`
            : html`<${Panel} flush><${DataTable} columns=${listColumns()} rows=${listing.items.value} keyOf=${(one) => one.name} label=${t("services.title")}/><//>`,
      }}<//>
      <${Pager} page=${listing.page.value} hasNext=${listing.hasNext.value} onBack=${listing.back} onNext=${listing.next}/>
    `;
  },
};

function online(one) {
  const tone = one.onlineCount === 0 ? "bad" : one.onlineCount < one.instanceCount ? "warn" : "good";
  return html`<span class=${["badge", tone]}>${t("services.onlineOf", { online: one.onlineCount, all: one.instanceCount })}</span>`;
}
