// Sends many notifications again, or gives them up: one call each, a few at once.

import { attempt, confirm, formatNumber, pathOf, post, sayDone, shallowReactive, t } from "../../core.js";

const AT_ONCE = 4;

/**
 * What acts on notifications: `{done, total, run(action, deliveries)}`; `action` is resend or dismiss, `total` 0 while nothing goes on. Giving up is asked
 * for first. `run` gives how many were done.
 */
export function useDeliveryActions() {
  const state = shallowReactive({ done: 0, total: 0, run });

  async function run(action, deliveries) {
    if (action === "dismiss" && !(await isWanted(deliveries))) return 0;
    Object.assign(state, { done: 0, total: deliveries.length });
    const queue = [...deliveries];
    let succeeded = 0;
    const work = async () => {
      for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
        const answer = await attempt(() => post(`${pathOf("deliveries", next.deliveryId)}/${action}`, {}));
        if (answer !== undefined) succeeded += 1;
        state.done += 1;
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    state.total = 0;
    if (succeeded > 0) sayDone(t(`deliveries.${action}Done`, { count: formatNumber(succeeded) }));
    return succeeded;
  }

  return state;
}

function isWanted(deliveries) {
  const count = formatNumber(deliveries.length);
  return confirm({ title: t("deliveries.dismissTitle", { count }), text: t("deliveries.dismissText"), action: t("deliveries.dismiss"), isDangerous: true });
}
