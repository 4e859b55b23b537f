// The place of keys: they come with tenants and roles, and this page says what there is until then.

import { EmptyState, PageHead, html, session, t } from "../../core.js";

/** `#/keys`. */
export function Screen() {
  return html`
    <${PageHead} title=${t("access.title")}/>
    <${EmptyState} icon="key" title=${t(session.needsKey ? "access.none" : "access.noKey")} text=${session.needsKey ? t("access.noneText") : t("access.noKeyText")}/>
  `;
}
