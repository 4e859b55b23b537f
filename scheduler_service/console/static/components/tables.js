// A plain table in a panel: columns with a head and a cell each.

import { html } from "../core/html.js";
import { t } from "../core/language.js";

/**
 * A table: `columns` are `{key, text, cell(row), kind}` (`kind` right or narrow), `rows` any values, `keyOf(row)` their keys, `label` its
 * name for those who do not see it. A row that changes draws itself alone. On a phone each row is a card, and its values carry the heads.
 */
export function DataTable({ columns, rows, keyOf, label }) {
  return html`
    <table class="table cards" aria-label=${label}>
      <thead>
        <tr>${columns.map((one) => html`<th key=${one.key} class=${one.kind} scope="col">${one.text || html`<span class="unseen">${t("jobs.actions")}</span>`}</th>`)}</tr>
      </thead>
      <tbody>${rows.map((row) => html`<${DataRow} key=${keyOf(row)} columns=${columns} row=${row}/>`)}</tbody>
    </table>
  `;
}

DataTable.props = ["columns", "rows", "keyOf", "label"];

function DataRow({ columns, row }) {
  return html`<tr>${columns.map((one, index) => html`<td key=${one.key} class=${one.kind} data-label=${(index > 0 && one.text) || null}>${one.cell(row)}</td>`)}</tr>`;
}

DataRow.props = ["columns", "row"];
