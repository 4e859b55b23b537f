// One notification in the list, and what is known of it when it is opened.

import { ActionButton, CodeBlock, Icon, Moment, StateBadge, formatDuration, formatNumber, html, linkTo, may, ref, showUnseen, t } from "../../core.js";

const OPEN = new Set(["pending", "outbox"]);
const SHOWN_FAULT = 300;

/** Whether it is still on its way, so that it may be sent again or given up. */
export function isOpen(delivery) {
  return OPEN.has(delivery.state);
}

/** A row, and below it the tries and the body when it is opened; `onAct(action, delivery)` sends again or gives up. */
export const DeliveryRow = {
  props: { delivery: Object, isChosen: Boolean, isAt: Boolean, isGone: Boolean, onChoose: Function, onAct: Function },
  setup(props) {
    const isUnfolded = ref(false);
    return () => {
      const { delivery } = props;
      const last = delivery.attempts.at(-1);
      return html`
        <tr class=${{ gone: props.isGone }} aria-current=${props.isAt ? "true" : undefined}>
          <td class="narrow">
            <input type="checkbox" aria-label=${t("deliveries.choose", { id: delivery.deliveryId })} checked=${props.isChosen} onChange=${props.onChoose}/>
          </td>
          <td class="narrow"><${StateBadge} state=${stateOf(delivery)}/></td>
          <td>
            <div class="what"><button type="button" class="fold" aria-expanded=${String(isUnfolded.value)} onClick=${() => (isUnfolded.value = !isUnfolded.value)}>
              <${Icon} name="chevron" size=${12}/><span class="name">${showUnseen(delivery.event)}</span>
            </button>
            <span class="dim mono url cut" title=${showUnseen(delivery.url)}>${showUnseen(delivery.url)}</span></div>
          </td>
          <td><a href=${linkTo("executions", delivery.executionId)}>${delivery.jobId}</a></td>
          <td class="last" data-label=${t("deliveries.answer")}>${last && lastTry(last)}</td>
          <td class="right number" data-label=${t("deliveries.tries")}>${formatNumber(delivery.attempts.length)}</td>
          <td data-label=${t("deliveries.created")}><${Moment} at=${delivery.createdAt}/></td>
          <td data-label=${t("deliveries.next")}><${Moment} at=${delivery.nextTryAt}/></td>
          <td class="narrow right">${may("operator") && isOpen(delivery) && actions(delivery, props.onAct)}</td>
        </tr>
        ${isUnfolded.value && html`<tr class="unfolded"><td></td><td colspan="8">${tries(delivery)}</td></tr>`}
      `;
    };
  },
};

function stateOf(delivery) {
  return delivery.state === "failed" ? "undelivered" : delivery.state;
}

function actions(delivery, onAct) {
  const id = delivery.deliveryId;
  return html`
    <${ActionButton} bare icon="send" text=${t("deliveries.resendOne", { id })} run=${() => onAct("resend", delivery)}/>
    <${ActionButton} bare icon="close" text=${t("deliveries.dismissOne", { id })} run=${() => onAct("dismiss", delivery)}/>
  `;
}

function lastTry({ status, fault }) {
  if (status !== null) return html`<span class=${["mono", status >= 200 && status < 300 ? "ink-good" : "ink-bad"]}>${status}</span>`;
  return html`<span class="ink-bad cut">${showUnseen((fault ?? "–").slice(0, SHOWN_FAULT))}</span>`;
}

function tries(delivery) {
  return html`
    <div class="unfolded-box">
      <p class="mono url">${showUnseen(delivery.url)}</p>
      ${delivery.attempts.length > 0 && html`
        <table class="table">
          <thead><tr><th>${t("deliveries.try")}</th><th>${t("deliveries.answer")}</th><th class="right">${t("deliveries.took")}</th></tr></thead>
          <tbody>
            ${delivery.attempts.map(
              (one, index) => html`<tr key=${index}><td><${Moment} at=${one.at} absolute withMs/></td><td>${lastTry(one)}</td><td class="right number">${formatDuration(one.durationMs)}</td></tr>`,
            )}
          </tbody>
        </table>
      `}
      ${delivery.request?.body != null && html`<h2>${t("deliveries.sent")}</h2><${CodeBlock} text=${delivery.request.body} label=${t("deliveries.sent")}/>`}
      ${delivery.response?.body != null && html`<h2>${t("deliveries.answer")}</h2><${CodeBlock} text=${delivery.response.body} label=${t("deliveries.answer")}/>`}
    </div>
  `;
}
