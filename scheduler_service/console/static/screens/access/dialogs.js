// Dialogs of keys: what a new one is for, how long an old text goes on, and the text that is shown once.

import { CodeBlock, Dialog, Panel, SelectField, TextField, attempt, html, pathOf, post, reactive, ref, t, useSubmit } from "../../core.js";

const ROLES = ["viewer", "operator", "editor", "admin"];
const DAY_MS = 86_400_000;

/** Asks for what a key needs, and makes it: `onMade(key)`. */
export const MakeDialog = {
  props: { onMade: Function, onClose: Function },
  setup(props) {
    const wanted = reactive({ name: "", role: "viewer", service: "", labels: "", days: "" });
    const { isBusy, submit } = useSubmit(async () => {
      const made = await attempt(() => post("keys", bodyOf(wanted)));
      if (made !== undefined) props.onMade(made);
    });
    const field = (name) => ({ id: `key-${name}`, value: wanted[name], onChange: (text) => (wanted[name] = text) });
    return () => html`
      <${Dialog} title=${t("access.make")} onClose=${props.onClose}>
        <form onSubmit=${submit}>
          <${TextField} ...${field("name")} label=${t("access.name")} hint=${t("access.nameHint")}/>
          <${SelectField} ...${field("role")} label=${t("access.role")} options=${ROLES.map((role) => ({ value: role, text: t(`role.${role}`) }))}/>
          <${TextField} ...${field("service")} label=${t("access.service")} hint=${t("access.serviceHint")}/>
          <${TextField} ...${field("labels")} label=${t("access.labels")} hint=${t("access.labelsHint")}/>
          <${TextField} ...${field("days")} label=${t("access.days")} hint=${t("access.daysHint")}/>
          <div class="dialog-actions">
            <button type="button" class="button" onClick=${props.onClose}>${t("action.cancel")}</button>
            <button type="submit" class="button primary" disabled=${isBusy.value || wanted.name.trim() === ""}>${t("access.make")}</button>
          </div>
        </form>
      <//>
    `;
  },
};

/** Asks how long the old text goes on, and gives the key a new one: `onMade(key)`. */
export const RotateDialog = {
  props: { of: Object, onMade: Function, onClose: Function },
  setup(props) {
    const hours = ref("1");
    const { isBusy, submit } = useSubmit(async () => {
      const overlapSeconds = Math.round((Number(hours.value) || 0) * 3_600);
      const made = await attempt(() => post(`${pathOf("keys", props.of.keyId)}/rotate`, { overlapSeconds }));
      if (made !== undefined) props.onMade(made);
    });
    return () => html`
      <${Dialog} title=${t("access.rotateTitle", { name: props.of.name })} onClose=${props.onClose}>
        <form onSubmit=${submit}>
          <p>${t("access.rotateText")}</p>
          <${TextField} id="key-hours" value=${hours.value} onChange=${(text) => (hours.value = text)} label=${t("access.hours")}/>
          <div class="dialog-actions">
            <button type="button" class="button" onClick=${props.onClose}>${t("action.cancel")}</button>
            <button type="submit" class="button primary" disabled=${isBusy.value}>${t("access.rotate")}</button>
          </div>
        </form>
      <//>
    `;
  },
};

/** The text of a new key, until it is closed: nobody can read it again. */
export function ShownKey({ made, onClose }) {
  return html`
    <${Panel} title=${t("access.shown", { name: made.name })}>
      <p>${t("access.shownText")}</p>
      <${CodeBlock} text=${made.key} label=${t("access.shown", { name: made.name })}/>
      <button type="button" class="button" onClick=${onClose}>${t("access.kept")}</button>
    <//>
  `;
}

ShownKey.props = ["made", "onClose"];

function bodyOf({ name, role, service, labels, days }) {
  const body = { name: name.trim(), role };
  if (service.trim() !== "") body.service = service.trim();
  const given = labels.split(",").map((label) => label.trim()).filter(Boolean);
  if (given.length > 0) body.labels = given;
  if (Number(days) > 0) body.expiresAt = new Date(Date.now() + Number(days) * DAY_MS).toISOString();
  return body;
}
