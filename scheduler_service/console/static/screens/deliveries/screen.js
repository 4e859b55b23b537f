// Notifications on their way, in the outbox, delivered and given up.

import {
  ActionButton,
  ArrivalsButton,
  EmptyState,
  JobFilter,
  Loaded,
  PageHead,
  Pager,
  Panel,
  Tabs,
  TextFilter,
  behind,
  formatNumber,
  html,
  linkTo,
  may,
  navigate,
  pushQuery,
  reloadWith,
  route,
  t,
  useArrivals,
  useListing,
  useResource,
  useSelection,
} from "../../core.js";
import { useDeliveryActions } from "./many.js";
import { DeliveryRow, isOpen } from "./row.js";

// The states that want something done.
const COUNTED = ["pending", "outbox", "failed"];
const COUNTED_EVERY_MS = 10_000;
const STATES = ["pending", "outbox", "failed", "delivered", "superseded", "dismissed"];

/** `#/deliveries`. */
export const Screen = {
  setup() {
    const filters = () => ({ state: route.query.state, jobId: route.query.jobId, event: route.query.event });
    const listing = useListing("deliveries", filters, { limit: 50 });
    const latest = () => (listing.resource.data === null ? null : listing.items.value);
    const arrivals = useArrivals(latest, keyOf, () => JSON.stringify([filters(), listing.page.value]));
    const counts = useCounts(listing);
    const selection = useSelection(
      () => arrivals.rows.value.map(keyOf),
      (id) => navigate(linkTo("executions", arrivals.rows.value.find((row) => keyOf(row) === id).executionId)),
    );
    const many = useDeliveryActions();
    async function act(action, deliveries) {
      if ((await many.run(action, deliveries)) === 0) return;
      selection.clear();
      await listing.resource.reload();
    }
    return () => html`
      <${PageHead} title=${t("deliveries.title")}/>
      ${filterRow(counts)}
      ${selection.chosen.size > 0 && may("operator") && chosenBar(arrivals.rows.value, selection, many, act)}
      <${ArrivalsButton} arrivals=${arrivals}/>
      <${Loaded} resource=${listing.resource} lines=${10}>${{
        default: () => (arrivals.rows.value.length === 0 ? nothing() : table(arrivals, selection, act)),
      }}<//>
      <${Pager} page=${listing.page.value} hasNext=${listing.hasNext.value} onBack=${listing.back} onNext=${listing.next}/>
    `;
  },
};

/** How many are in each of the states that want something done, for the tabs: a text, or undefined while it is not known. Asked for more rarely than the list. */
function useCounts(listing) {
  const counts = useResource(() => behind(listing, { path: "counts/deliveries", query: { jobId: route.query.jobId, event: route.query.event } }), { keeps: true });
  reloadWith(() => listing.resource.loadedAt, counts, COUNTED_EVERY_MS);
  return (state) => (counts.data !== null && COUNTED.includes(state) ? formatNumber(counts.data.byState[state]) : undefined);
}

function filterRow(countOf) {
  const tabs = ["", ...STATES].map((key) => ({ key, text: key === "" ? t("deliveries.all") : t(`state.${key === "failed" ? "undelivered" : key}`), count: countOf(key) }));
  return html`
    <div class="filters">
      <${Tabs} items=${tabs} chosen=${route.query.state ?? ""} label=${t("deliveries.state")} onChoose=${(state) => pushQuery({ state })}/>
      <${JobFilter} value=${route.query.jobId} label=${t("deliveries.jobId")} onChoose=${(jobId) => pushQuery({ jobId })}/>
      <${TextFilter} value=${route.query.event} label=${t("deliveries.event")} onChoose=${(event) => pushQuery({ event })}/>
    </div>
  `;
}

function chosenBar(rows, selection, many, act) {
  const open = rows.filter((row) => selection.chosen.has(keyOf(row)) && isOpen(row));
  return html`
    <div class="bulk" role="region" aria-label=${t("bulk.title")}>
      <strong>${t("bulk.chosen", { count: formatNumber(selection.chosen.size) })}</strong>
      <span class="dim grow">${t("deliveries.open", { count: formatNumber(open.length) })}</span>
      ${many.total > 0 && html`<progress max=${many.total} value=${many.done} aria-label=${t("deliveries.working")}></progress>`}
      <${ActionButton} icon="send" text=${t("deliveries.resend")} disabled=${open.length === 0} run=${() => act("resend", open)}/>
      <${ActionButton} icon="close" text=${t("deliveries.dismiss")} disabled=${open.length === 0} run=${() => act("dismiss", open)}/>
      <button type="button" class="button bare" onClick=${selection.clear}>${t("bulk.clear")}</button>
    </div>
  `;
}

function table(arrivals, selection, act) {
  const rows = arrivals.rows.value;
  return html`
    <${Panel} flush class="deliveries lines">
      <table class="table cards">
        <thead>
          <tr>
            <th class="narrow" data-label=${t("deliveries.chooseAll")}><input type="checkbox" aria-label=${t("deliveries.chooseAll")} checked=${rows.every((row) => selection.chosen.has(keyOf(row)))} onChange=${selection.toggleAll}/></th>
            <th>${t("deliveries.state")}</th>
            <th>${t("deliveries.what")}</th>
            <th>${t("deliveries.job")}</th>
            <th>${t("deliveries.answer")}</th>
            <th class="right">${t("deliveries.tries")}</th>
            <th>${t("deliveries.created")}</th>
            <th>${t("deliveries.next")}</th>
            <th><span class="unseen">${t("deliveries.actions")}</span></th>
          </tr>
        </thead>
        <tbody>
          ${rows.map(
            (row, index) => html`
              <${DeliveryRow}
                key=${keyOf(row)}
                delivery=${row}
                isChosen=${selection.chosen.has(keyOf(row))}
                isAt=${selection.at === index}
                isGone=${arrivals.gone.value.has(keyOf(row))}
                onChoose=${() => selection.toggle(keyOf(row))}
                onAct=${(action, delivery) => act(action, [delivery])}
              />
            `,
          )}
        </tbody>
      </table>
    <//>
  `;
}

function nothing() {
  const isFiltered = ["state", "jobId", "event"].some((name) => route.query[name] !== undefined);
  if (!isFiltered) return html`<${EmptyState} icon="send" title=${t("deliveries.first")} text=${t("deliveries.firstText")}/>`;
  return html`<${EmptyState} icon="search" title=${t("deliveries.none")} text=${t("deliveries.noneText")}><a class="button" href="#/deliveries">${t("deliveries.all")}</a><//>`;
}

function keyOf(delivery) {
  return delivery.deliveryId;
}
