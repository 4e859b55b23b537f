// What an execution was answered last: as JSON or text, never as a page, and as a file.

import { CodeBlock, JsonView, Loaded, addressOf, formatBytes, html, pathOf, showUnseen, t, useResource } from "../../core.js";

/** The result of `execution`, read when it is looked at. */
export const ResultView = {
  props: { execution: Object },
  setup(props) {
    const path = () => `${pathOf("executions", props.execution.executionId)}/result`;
    const resource = useResource(() => ({ path: path() }));
    return () => html`
      <p class="note">
        ${said(props.execution.result)}
        <a class="button" href=${addressOf(path(), { download: true })} download>${t("execution.result.download")}</a>
      </p>
      <${Loaded} resource=${resource} lines=${4}>${{ default: bodyOf }}<//>
    `;
  },
};

function said({ status, contentType, bytes, truncated, masked }) {
  const words = [status, contentType && showUnseen(contentType), formatBytes(bytes), truncated && t("execution.result.truncated"), masked && t("execution.result.masked")];
  return html`<span class="grow">${words.filter(Boolean).join(" · ")}</span> `;
}

function bodyOf({ encoding, body }) {
  if (encoding === "base64") return html`<p class="dim">${t("execution.result.binary")}</p>`;
  return encoding === "json" ? html`<${JsonView} value=${body} label=${t("execution.tab.result")}/>` : html`<${CodeBlock} text=${body} label=${t("execution.tab.result")}/>`;
}
