// The place of audit: they come with tenants and roles, and this page says what there is until then.

import { EmptyState, PageHead, html, session, t } from "../../core.js";

/** `#/audit`. */
export function Screen() {
  return html`
    <${PageHead} title=${t("audit.title")}/>
    <${EmptyState} icon="key" title=${t("audit.none")} text=${session.needsKey ? t("audit.noneText") : t("audit.noKeyText")}/>
  `;
}
