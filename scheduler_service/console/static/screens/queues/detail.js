// One queue: what is held, by whom, until when; a part that is stuck can be freed.

import {
  ActionButton,
  DataTable,
  EmptyState,
  Loaded,
  Moment,
  PageHead,
  Pager,
  Panel,
  PauseButton,
  PausedMark,
  attempt,
  confirm,
  formatNumber,
  html,
  linkTo,
  may,
  pathOf,
  post,
  t,
  useListing,
} from "../../core.js";

/** One queue, live. */
export const QueueDetail = {
  props: { name: String },
  setup(props) {
    const listing = useListing(() => pathOf("queues", props.name), () => ({}));
    return () => {
      const queue = listing.resource.data;
      return html`
        <${PageHead} title=${props.name} back=${{ href: "#/queues", text: t("queues.title") }}>${{
          marks: () => html`<${PausedMark} of=${queue}/>`,
          default: () => html`<${PauseButton} of=${queue} path=${pathOf("queues", props.name)} onDone=${listing.resource.reload}/>`,
          below: () => queue && html`<span>${t("queues.waiting", { count: formatNumber(queue.depth) })}</span><span>${t("queues.heldCount", { count: formatNumber(queue.held) })}</span>${queue.oldestAt && html`<span>${t("queues.oldest")} <${Moment} at=${queue.oldestAt}/></span>`}`,
        }}<//>
        <${Loaded} resource=${listing.resource}>${{
          default: () =>
            html`${waiting(queue)}<${Panel} title=${t("queues.parts")} flush>
              ${listing.items.value.length === 0
                ? html`<${EmptyState} icon="queue" title=${t("queues.noPart")}/>`
                : html`<${DataTable} columns=${columns(props.name, listing)} rows=${listing.items.value} keyOf=${keyOf} label=${t("queues.parts")}/>`}
            <//>`,
        }}<//>
        <${Pager} page=${listing.page.value} hasNext=${listing.hasNext.value} onBack=${listing.back} onNext=${listing.next}/>
      `;
    };
  },
};

/** What waits: how much and since when; which parts these are shows when an instance claims them. */
function waiting(queue) {
  if (queue.depth === 0) return null;
  return html`
    <${Panel} title=${t("queues.depth")}>
      <p>${t("queues.waitingText", { count: formatNumber(queue.depth) })} ${queue.oldestAt && html`${t("queues.oldestText")} <${Moment} at=${queue.oldestAt}/>.`}</p>
      <p class="dim">${t("queues.claimText")}</p>
    <//>
  `;
}

const columns = (queue, listing) => [
  { key: "instance", text: t("queues.instance"), cell: (one) => html`<span class="name">${one.instanceId}</span>` },
  { key: "job", text: t("queues.job"), cell: (one) => html`<a href=${linkTo("jobs", one.jobId)}>${one.jobId}</a>` },
  { key: "execution", text: t("queues.execution"), cell: (one) => html`<a class="mono" href=${linkTo("executions", one.executionId)}>${one.executionId}</a>` },
  { key: "part", text: t("queues.part"), cell: (one) => (one.shardTotal === null ? "–" : `${one.shardIndex + 1} / ${one.shardTotal}`) },
  { key: "until", text: t("queues.until"), cell: (one) => html`<${Moment} at=${one.leaseUntil}/>` },
  { key: "actions", kind: "narrow right", text: "", cell: (one) => may("operator") && html`<${ActionButton} text=${t("queues.free")} run=${() => free(queue, one, listing)}/>` },
];

async function free(queue, part, listing) {
  const wanted = await confirm({
    title: t("queues.freeTitle", { instance: part.instanceId }),
    text: t("queues.freeText"),
    action: t("queues.free"),
    isDangerous: true,
  });
  if (!wanted) return;
  const { executionId, requestCounts, step } = part;
  const shardIndex = part.shardIndex ?? 0;
  await attempt(() => post(`${pathOf("queues", queue)}/free`, { executionId, requestCounts, step, shardIndex }), t("queues.freed"));
  listing.resource.reload();
}

function keyOf(one) {
  return `${one.executionId} ${one.requestCounts} ${one.step} ${one.shardIndex}`;
}
