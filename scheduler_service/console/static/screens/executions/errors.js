// The errors of what the filters find, each with its count: where to look first.

import { Moment, Panel, formatNumber, html, linkTo, placeOf, route, showUnseen, t } from "../../core.js";

const SHOWN = 8;

/** The groups as a table; `groups` are the `byError` of the API. A click filters. */
export function ErrorGroups({ groups }) {
  const isWhole = route.query.errors === "all";
  const shown = isWhole ? groups : groups.slice(0, SHOWN);
  const most = Math.max(1, ...groups.map((one) => one.count));
  return html`
    <${Panel} title=${t("executions.byError")} flush>${{
      actions: () => more(groups.length, isWhole),
      default: () => html`
        <table class="table">
          <thead>
            <tr>
              <th>${t("executions.error")}</th>
              <th>${t("executions.kind")}</th>
              <th class="right">${t("executions.count")}</th>
              <th><span class="unseen">${t("executions.share")}</span></th>
              <th class="right">${t("executions.jobs")}</th>
              <th>${t("executions.latest")}</th>
            </tr>
          </thead>
          <tbody>${shown.map((one) => errorGroup(one, most))}</tbody>
        </table>
      `,
    }}<//>
  `;
}

ErrorGroups.props = ["groups"];

function more(count, isWhole) {
  if (count <= SHOWN) return null;
  const text = isWhole ? t("executions.fewerErrors") : t("executions.allErrors", { count: formatNumber(count) });
  return html`<a href=${placeOf("/executions", { ...route.query, errors: isWhole ? null : "all" })}>${text}</a>`;
}

function errorGroup({ error, failureType, count, latestExecutionId, latestAt, jobs }, most) {
  const isChosen = error !== null && route.query.error === error;
  const place = placeOf("/executions", { ...route.query, error: isChosen ? null : error });
  return html`
    <tr key=${`${error} ${failureType}`} aria-current=${isChosen ? "true" : undefined}>
      <td>${error === null ? html`<span class="dim">${t("executions.noError")}</span>` : html`<a class="mono error-code" href=${place}>${showUnseen(error)}</a>`}</td>
      <td class="dim">${failureType}</td>
      <td class="right number">${formatNumber(count)}</td>
      <td class="share"><span class="share-bar" aria-hidden="true" style=${{ width: `${(100 * count) / most}%` }}></span></td>
      <td class="right number">${formatNumber(jobs)}</td>
      <td><a href=${linkTo("executions", latestExecutionId)}><${Moment} at=${latestAt}/></a></td>
    </tr>
  `;
}
