// Who changed what: the lines of the audit, the newest first, each with its difference when it is opened.

import {
  ArrivalsButton,
  EmptyState,
  Icon,
  JobFilter,
  Loaded,
  Moment,
  PageHead,
  Pager,
  Panel,
  TextFilter,
  formatNumber,
  html,
  linkTo,
  pushQuery,
  ref,
  route,
  showUnseen,
  t,
  useArrivals,
  useListing,
} from "../../core.js";

const FILTERS = ["who", "key", "operation", "jobId", "service", "from", "to"];
const SHOWN = 300;

/** `#/audit`; its filters are those of `GET /audit`. */
export const Screen = {
  setup() {
    const filters = () => Object.fromEntries(FILTERS.map((name) => [name, route.query[name]]));
    const listing = useListing("audit", filters, { limit: 50 });
    const latest = () => (listing.resource.data === null ? null : listing.items.value);
    const arrivals = useArrivals(latest, (line) => line.id, () => JSON.stringify([filters(), listing.page.value]));
    return () => html`
      <${PageHead} title=${t("audit.title")}/>
      ${filterRow()}
      <${ArrivalsButton} arrivals=${arrivals}/>
      <${Loaded} resource=${listing.resource} lines=${10}>${{
        default: () => (arrivals.rows.value.length === 0 ? nothing() : table(arrivals.rows.value)),
      }}<//>
      <${Pager} page=${listing.page.value} hasNext=${listing.hasNext.value} onBack=${listing.back} onNext=${listing.next}/>
    `;
  },
};

function filterRow() {
  const entry = (name) => html`<${TextFilter} value=${route.query[name]} label=${t(`audit.${name}`)} onChoose=${(value) => pushQuery({ [name]: value })}/>`;
  return html`
    <div class="filters">
      <${JobFilter} value=${route.query.jobId} label=${t("audit.jobId")} onChoose=${(jobId) => pushQuery({ jobId })}/>
      ${["who", "operation", "service", "key"].map(entry)}
    </div>
  `;
}

function table(lines) {
  return html`
    <${Panel} flush class="lines">
      <table class="table cards">
        <thead>
          <tr>
            <th>${t("audit.at")}</th>
            <th>${t("audit.who")}</th>
            <th>${t("audit.operation")}</th>
            <th>${t("audit.of")}</th>
            <th>${t("audit.outcome")}</th>
            <th>${t("audit.address")}</th>
          </tr>
        </thead>
        <tbody>${lines.map((line) => html`<${AuditRow} key=${line.id} line=${line}/>`)}</tbody>
      </table>
    <//>
  `;
}

/** A line, and below it what is known of the change when it is opened. */
const AuditRow = {
  props: { line: Object },
  setup(props) {
    const isUnfolded = ref(false);
    return () => {
      const { line } = props;
      return html`
        <tr>
          <td>
            <button type="button" class="fold" aria-expanded=${String(isUnfolded.value)} onClick=${() => (isUnfolded.value = !isUnfolded.value)}>
              <${Icon} name="chevron" size=${12}/><${Moment} at=${line.at}/>
            </button>
          </td>
          <td data-label=${t("audit.who")}>${by(line)}</td>
          <td data-label=${t("audit.operation")}><span class="mono">${line.operation}</span></td>
          <td data-label=${t("audit.of")}>${subject(line)}</td>
          <td data-label=${t("audit.outcome")}><span class=${line.outcome === "done" ? undefined : "ink-bad"}>${t(`audit.${line.outcome}`)}</span></td>
          <td class="mono dim" data-label=${t("audit.address")}>${line.address ?? "–"}</td>
        </tr>
        ${isUnfolded.value && html`<tr class="unfolded"><td colspan="6">${detail(line)}</td></tr>`}
      `;
    };
  },
};

function by(line) {
  if (line.via === "system") return html`<span class="dim">${t("audit.system")}</span>`;
  const name = line.who === "" ? t("audit.unknown") : showUnseen(line.who);
  return line.via === "command" ? html`${name} <span class="dim">${t("audit.command")}</span>` : name;
}

function subject(line) {
  if (line.executionId !== null) return html`<a href=${linkTo("executions", line.executionId)}>${line.jobId}</a>`;
  if (line.jobId !== null) return html`<a href=${linkTo("jobs", line.jobId)}>${line.jobId}</a>`;
  if (line.items.length > 0) return t("audit.items", { count: formatNumber(line.items.length) });
  if (line.kind === "service") return html`<a href=${linkTo("services", line.subject)}>${line.subject}</a>`;
  return html`<span class="dim">${line.kind}</span> ${showUnseen(line.subject)}`;
}

function detail(line) {
  const given = Object.entries(line.given);
  return html`
    <div class="unfolded-box">
      <p class="dim"><${Moment} at=${line.at} absolute withMs/>${line.keyId !== null && ` · ${t("audit.key")} ${line.keyId}`}${line.revision !== null && ` · ${t("audit.revision", { revision: line.revision })}`}</p>
      ${given.length > 0 && html`<p class="mono">${given.map(([name, value]) => `${name}: ${shown(value)}`).join(" · ")}</p>`}
      ${line.items.length > 0 && html`<p>${line.items.map((id) => html`<a key=${id} href=${linkTo("jobs", id)}>${id}</a> `)}</p>`}
      ${line.difference.length > 0 && difference(line)}
    </div>
  `;
}

/** What it was and what it is now, place by place; the words say what the colours say. */
function difference(line) {
  return html`
    <table class="table">
      <thead><tr><th>${t("audit.place")}</th><th>${t("audit.before")}</th><th>${t("audit.after")}</th></tr></thead>
      <tbody>
        ${line.difference.map(
          (one) => html`
            <tr key=${one.pointer}>
              <td class="mono">${showUnseen(one.pointer)}</td>
              <td class="mono ink-bad">${shown(one.before)}</td>
              <td class="mono ink-good">${shown(one.after)}</td>
            </tr>
          `,
        )}
      </tbody>
    </table>
    ${line.truncated && html`<p class="dim">${t("audit.truncated")}</p>`}
  `;
}

function shown(value) {
  if (value === null) return "–";
  return showUnseen((typeof value === "string" ? value : JSON.stringify(value)).slice(0, SHOWN));
}

function nothing() {
  const isFiltered = FILTERS.some((name) => route.query[name] !== undefined);
  if (!isFiltered) return html`<${EmptyState} icon="list" title=${t("audit.first")} text=${t("audit.firstText")}/>`;
  return html`<${EmptyState} icon="search" title=${t("audit.none")} text=${t("audit.noneText")}><a class="button" href="#/audit">${t("audit.all")}</a><//>`;
}
