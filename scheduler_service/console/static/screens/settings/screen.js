// Settings: each effective value and where it comes from.

import { DataTable, EmptyState, Loaded, PageHead, Panel, SearchField, html, replaceQuery, route, t, useResource } from "../../core.js";

/** `#/settings`. */
export const Screen = {
  setup() {
    const settings = useResource(() => ({ path: "settings" }));
    return () => html`
      <${PageHead} title=${t("settings.title")}>
        <${SearchField} label=${t("settings.search")} value=${route.query.text} onChange=${(text) => replaceQuery({ text })}/>
      <//>
      <${Loaded} resource=${settings}>${{ default: groups }}<//>
    `;
  },
};

function groups(data) {
  const wanted = (route.query.text ?? "").toLowerCase();
  const rows = Object.entries(data).filter(([name, one]) => `${name} ${JSON.stringify(one)}`.toLowerCase().includes(wanted));
  const byGroup = new Map();
  for (const [name, one] of rows) {
    const group = name.split(".")[0];
    byGroup.set(group, [...(byGroup.get(group) ?? []), { name, ...one }]);
  }
  if (rows.length === 0) return html`<${EmptyState} icon="search" title=${t("settings.none")}/>`;
  return [...byGroup].map(
    ([group, items]) => html`
      <${Panel} key=${group} title=${group} flush>
        <${DataTable} columns=${columns()} rows=${items} keyOf=${(one) => one.name} label=${group}/>
      <//>
    `,
  );
}

const columns = () => [
  { key: "name", kind: "setting", text: t("settings.name"), cell: (one) => html`<span class="mono">${one.name}</span>` },
  { key: "value", text: t("settings.value"), cell: (one) => html`<span class="mono">${one.value === null ? "–" : JSON.stringify(one.value)}</span>` },
  { key: "source", kind: "narrow", text: t("settings.source"), cell: (one) => html`<span class=${["badge", one.source === "default" ? "quiet" : "busy"]}>${one.source}</span>` },
];
