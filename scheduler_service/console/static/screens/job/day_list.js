// One day of the calendar: each firing of the ledger with its outcome and why, and those still to come.

import {
  DataTable,
  EmptyState,
  Loaded,
  Moment,
  Pager,
  Panel,
  StateBadge,
  addDays,
  computed,
  formatNumber,
  html,
  linkTo,
  nameDate,
  pathOf,
  reasonText,
  startOfDate,
  t,
  useListing,
} from "../../core.js";

const SHOWN_COMING = 20;

/** `planned` are coming firings, those of other days too; `until`: the last one given where there are more, else null. */
export const DayList = {
  props: { job: Object, date: String, zone: String, planned: Array, until: String },
  setup(props) {
    const [from, to] = [startOfDate(props.date, props.zone), startOfDate(addDays(props.date, 1), props.zone)];
    const query = { from: new Date(from).toISOString(), to: new Date(to - 1).toISOString() };
    const listing = useListing(`${pathOf("jobs", props.job.jobId)}/firings`, () => query, { limit: 100 });
    const coming = computed(() => props.planned.filter(({ utc }) => isWithin(utc, from, to)).map((one) => ({ plannedAt: one.utc, outcome: "planned", note: one.note })));
    return () => {
      const rows = listing.items.value;
      const isEmpty = rows.length === 0 && listing.page.value === 1 && coming.value.length > 0;
      return html`
        ${!isEmpty && html`
          <${Panel} title=${coming.value.length > 0 ? `${nameDate(props.date)} · ${t("job.sofar")}` : nameDate(props.date)} flush>
            <${Loaded} resource=${listing.resource} lines=${4}>${{ default: () => dayTable(rows, props) }}<//>
          <//>
        `}
        ${(listing.hasNext.value || listing.page.value > 1) && html`<${Pager} page=${listing.page.value} hasNext=${listing.hasNext.value} onBack=${listing.back} onNext=${listing.next}/>`}
        ${coming.value.length > 0 && comingPanel(coming.value, props)}
      `;
    };
  },
};

function comingPanel(coming, props) {
  const rest = coming.length - SHOWN_COMING;
  const isCut = coming.at(-1).plannedAt === props.until;
  return html`
    <${Panel} title=${`${nameDate(props.date)} · ${t("job.toCome")}`} flush>
      ${dayTable(coming.slice(0, SHOWN_COMING), props)}
      ${(rest > 0 || isCut) && html`<p class="job-rest dim">${isCut ? t("job.moreOfDay") : t("job.moreToCome", { count: formatNumber(rest) })}</p>`}
    <//>
  `;
}

function dayTable(rows, { job, date }) {
  if (rows.length === 0) return html`<${EmptyState} icon="calendar" title=${t("job.emptyDay")} text=${t("job.emptyDayText")}/>`;
  return html`<${DataTable} columns=${columnsOfDay(job)} rows=${rows} keyOf=${(one) => `${one.plannedAt} ${one.outcome} ${one.executionId}`} label=${nameDate(date)}/>`;
}

function columnsOfDay(job) {
  const zone = job.definition.timer?.timezone;
  return [
    { key: "planned", text: t("job.planned"), cell: (one) => html`<${Moment} at=${one.plannedAt} zone=${zone} absolute/>${one.until && html` – <${Moment} at=${one.until} zone=${zone} absolute/>`}` },
    { key: "outcome", text: t("job.outcome"), cell: (one) => (one.outcome === "planned" ? html`<span class="badge quiet">${t("job.day.planned")}</span>` : html`<${StateBadge} state=${one.outcome}/>`) },
    { key: "count", text: t("job.count"), kind: "right", cell: (one) => html`<span class="number">${formatNumber(one.count ?? 1)}</span>` },
    { key: "reason", text: t("job.why"), cell: (one) => reasonOf(one) },
    { key: "state", text: t("job.ended"), cell: (one) => one.state && html`<${StateBadge} state=${one.state}/>` },
    { key: "execution", text: t("job.execution"), cell: (one) => one.executionId && html`<a class="mono" href=${linkTo("executions", one.executionId)}>${one.executionId}</a>` },
  ];
}

function reasonOf({ reason, note }) {
  if (note) return html`<span class="badge warn">${note}</span>`;
  return reasonText(reason);
}

function isWithin(moment, from, to) {
  const at = new Date(moment).getTime();
  return at >= from && at < to;
}
