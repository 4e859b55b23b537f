// Where jobs differ from what their service declares: side by side, and what happens next.

import { Moment, Panel, html, linkTo, t } from "../../core.js";

/** The drift of a service; nothing while there is none. */
export function Drift({ resource }) {
  const items = resource.data?.items ?? [];
  if (items.length === 0) return null;
  return html`<${Panel} title=${t("services.drift", { count: items.length })}>${items.map((one) => html`<${Difference} key=${one.jobId} drift=${one}/>`)}<//>`;
}

Drift.props = ["resource"];

function Difference({ drift }) {
  return html`
    <details class="drift" open>
      <summary>
        <a class="name" href=${linkTo("jobs", drift.jobId)}>${drift.jobId}</a>
        <span class="badge warn">${drift.kind}</span>
        <span class="dim">${drift.message}</span>
        ${drift.destroyAt && html`<span class="dim">${t("services.destroyAt")} <${Moment} at=${drift.destroyAt}/></span>`}
      </summary>
      ${drift.differences.length > 0 && html`
        <table class="table">
          <thead><tr><th scope="col">${t("services.where")}</th><th scope="col">${t("services.declared")}</th><th scope="col">${t("services.stored")}</th></tr></thead>
          <tbody>
            ${drift.differences.map(
              (one) => html`
                <tr key=${one.pointer}>
                  <td class="mono">${one.pointer}</td>
                  <td class="mono added">${valueText(one.declared)}</td>
                  <td class="mono removed">${valueText(one.stored)}</td>
                </tr>
              `,
            )}
          </tbody>
        </table>
      `}
    </details>
  `;
}

Difference.props = ["drift"];

function valueText(value) {
  return value === null || value === undefined ? "–" : JSON.stringify(value);
}
