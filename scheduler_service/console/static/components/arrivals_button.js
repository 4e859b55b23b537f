// The button that brings what is new into a list.

import { formatNumber } from "../core/formats.js";
import { html } from "../core/html.js";
import { t } from "../core/language.js";

/** "3 new", or that rows fit no more: `arrivals` is that of `useArrivals`; nothing while the list is as it is shown. */
export function ArrivalsButton({ arrivals }) {
  const { newCount, gone, show } = arrivals;
  if (newCount.value === 0 && gone.value.size === 0) return null;
  const text = newCount.value > 0 ? t("arrivals.new", { count: formatNumber(newCount.value) }) : t("arrivals.refresh");
  return html`<p class="news"><button type="button" class="button" onClick=${show}>${text}</button></p>`;
}

ArrivalsButton.props = ["arrivals"];
