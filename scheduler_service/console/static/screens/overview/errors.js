// Failures by error: the most frequent first.

import { EmptyState, Moment, formatNumber, html, linkTo, placeOf, t } from "../../core.js";

const SHOWN = 8;

/** The groups of `counts/executions`. */
export function Errors({ counts, from }) {
  const groups = counts.byError.slice(0, SHOWN);
  if (groups.length === 0) return html`<${EmptyState} icon="check" title=${t("overview.noError")}/>`;
  return html`
    <table class="table">
      <thead><tr><th scope="col">${t("overview.error")}</th><th scope="col" class="right">${t("overview.times")}</th><th scope="col" class="right">${t("jobs.title")}</th><th scope="col">${t("overview.latest")}</th></tr></thead>
      <tbody>
        ${groups.map(
          (one) => html`
            <tr key=${`${one.error} ${one.failureType}`}>
              <td><a class="name" href=${placeOf("/executions", { error: one.error, from })}>${one.error ?? "–"}</a> <span class="dim">${one.failureType}</span></td>
              <td class="right number">${formatNumber(one.count)}</td>
              <td class="right number">${formatNumber(one.jobs)}</td>
              <td><a href=${linkTo("executions", one.latestExecutionId)}><${Moment} at=${one.latestAt}/></a></td>
            </tr>
          `,
        )}
      </tbody>
    </table>
  `;
}

Errors.props = ["counts", "from"];
