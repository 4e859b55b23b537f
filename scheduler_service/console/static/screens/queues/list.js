// The list of queues.

import { DataTable, EmptyState, Loaded, Moment, PageHead, Pager, Panel, PausedMark, formatNumber, html, linkTo, t, useListing } from "../../core.js";

const listColumns = () => [
  { key: "name", text: t("queues.name"), cell: (one) => html`<a class="name" href=${linkTo("queues", one.name)}>${one.name}</a> <${PausedMark} of=${one}/>` },
  { key: "depth", kind: "right", text: t("queues.depth"), cell: (one) => html`<span class="number">${formatNumber(one.depth)}</span>` },
  { key: "oldest", text: t("queues.oldest"), cell: (one) => html`<${Moment} at=${one.oldestAt}/>` },
  { key: "held", kind: "right", text: t("queues.held"), cell: (one) => html`<span class="number">${formatNumber(one.held)}</span>` },
];

/** All queues in which anything waits or is held, and those that are paused. */
export const QueueList = {
  setup() {
    const listing = useListing("queues", () => ({}));
    return () => html`
      <${PageHead} title=${t("queues.title")}/>
      <${Loaded} resource=${listing.resource}>${{
        default: () =>
          listing.items.value.length === 0
            ? html`<${EmptyState} icon="queue" title=${t("queues.none")} text=${t("queues.noneText")}/>`
            : html`<${Panel} flush><${DataTable} columns=${listColumns()} rows=${listing.items.value} keyOf=${(one) => one.name} label=${t("queues.title")}/><//>`,
      }}<//>
      <${Pager} page=${listing.page.value} hasNext=${listing.hasNext.value} onBack=${listing.back} onNext=${listing.next}/>
    `;
  },
};
